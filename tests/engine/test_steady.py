"""After the second window no memory is taken: neither from the ledger, nor beside it but for small change."""

import tracemalloc

import numpy as np
import pytest
from laboratory import learner

from engine.recompute import keep_all

SMALL_CHANGE = 64 << 10  # bytes: Python's own objects, and vectors of a number a channel
LAYERS = [
    {"type": "conv", "out": 16},
    {"type": "batch_norm"},
    {"type": "relu"},
    {"type": "conv", "out": 16, "bias": False},
    {"type": "max_pool"},
    {"type": "dropout"},
    {"type": "residual", "out": 32, "stride": 2},
    {"type": "residual", "out": 32},
    {"type": "global_average"},
    {"type": "linear"},
]


@pytest.mark.parametrize("mode", ["fp32", "mixed"])
def test_a_steady_window_takes_no_memory(mode):
    learned = learner(LAYERS, (32, 32, 3), kernels="cpu", mode=mode, micro_batch=16)
    draws = np.random.default_rng(0)
    inputs, targets = learned.inputs[0], learned.targets[0]
    inputs[...], targets[...] = draws.standard_normal(inputs.shape), draws.integers(0, 3, targets.shape)
    plan = keep_all(len(learned.model.blocks))

    def window():
        learned.accumulate(inputs, targets, len(inputs), plan, (1, 1, 0))
        learned.update(1e-3, inputs)

    window()
    window()
    reserved = learned.memory.reserved
    tracemalloc.start()
    try:
        window()  # for what tracing itself keeps
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        window()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert learned.memory.reserved == reserved
    activation = 16 * 32 * 32 * 16 * inputs.dtype.itemsize
    assert activation > 4 * SMALL_CHANGE > 4 * (peak - before)
