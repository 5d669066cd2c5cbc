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
    [(NORMED, 4, 4, True), (NORMED, 4, 1, True), (NORMED, 16, 1, False), (NORMED, 32, 2, False), (PLAIN, 4, 4, False)],
)
def test_small_micro_batches_of_batch_norm_are_warned_of(layers, micro_batch, accumulate, warned):
    part = Part(np.zeros((64, 3), np.float32), np.arange(64, dtype=np.int32) % 2)
    data = DataSet("rows", "classification", part, part, None, (3,), ("a", "b"), Preprocessing("", (3,)), "")
    settings = Settings(epochs=1, micro_batch=micro_batch, accumulate=accumulate)
    told = list(cautions(Trainer(layers, data, settings, "cpu")))
    assert len(told) == warned
    assert all("4 samples" in text and (accumulate == 1 or "16" in text) for text in told)


def test_classes_without_a_sample_and_updates_beyond_the_data_are_told():
    train, validation = (Part(np.zeros((6, 3), np.float32), np.array(targets, np.int32)) for targets in (
        [0, 0, 1, 1, 1, 0], [0, 2, 2, 2, 2, 2],
    ))  # fmt: skip
    data = DataSet(
        "rows", "classification", train, validation, None, (3,), ("a", "b", "c"), Preprocessing("", (3,)), ""
    )
    told = list(cautions(Trainer(PLAIN, data, Settings(epochs=1, micro_batch=4, accumulate=2), "cpu")))
    assert told == [
        "an update is to see 8 samples, but there are 6: each epoch is one update",
        "the train part has no sample of 'c'",
        "the validation part has no sample of 'b'",
    ]
