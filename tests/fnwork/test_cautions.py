"""What a person is told when a run begins, although nothing is wrong."""

import numpy as np
import pytest

from engine.data import DataSet, Part, Preprocessing
from engine.trainer import Settings, Trainer
from fnwork.prepare import cautions

PLAIN = [{"type": "linear", "out": 8}, {"type": "relu"}, {"type": "linear"}]
NORMED = [PLAIN[0], {"type": "batch_norm"}, *PLAIN[1:]]


@pytest.mark.parametrize(
    ("layers", "micro_batch", "accumulate", "warned"),
    [(NORMED, 4, 4, True), (NORMED, 16, 1, False), (NORMED, 32, 2, False), (PLAIN, 4, 4, False)],
)
def test_small_micro_batches_of_batch_norm_are_warned_of(layers, micro_batch, accumulate, warned):
    part = Part(np.zeros((64, 3), np.float32), np.zeros(64, np.int32))
    data = DataSet("rows", "classification", part, part, None, (3,), ("a", "b"), Preprocessing("", (3,)), "")
    settings = Settings(epochs=1, micro_batch=micro_batch, accumulate=accumulate)
    told = cautions(Trainer(layers, data, settings, "cpu"))
    assert len(told) == warned
    assert all("4 samples" in text and "16" in text for text in told)
