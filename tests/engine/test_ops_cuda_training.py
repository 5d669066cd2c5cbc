"""Whole networks trained with the operations of a card, over the stand-in: against the reference, and in the ledger."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from cuda_on_cpu import both_ways, build, stand_in

from engine.learner import Learner, shape_window
from engine.memory import Memory
from engine.ops import Operations, from_host, kernels_named, to_host
from engine.ops.shapes import ShapeOperations
from engine.recompute import every, keep_all
from engine.settings import Settings

pytestmark = pytest.mark.skipif(bool(build.obstacle()), reason=build.obstacle() or "-")

SHAPE, OUTPUTS, BATCH, SCALE = (9, 10, 3), 4, 6, 256.0
NETWORK = [
    {"type": "conv", "out": 8},
    {"type": "relu"},
    {"type": "conv", "out": 16, "bias": False},
    {"type": "batch_norm"},
    {"type": "relu"},
    {"type": "max_pool"},
    {"type": "residual", "out": 16},
    {"type": "residual", "out": 20, "stride": 2},
    {"type": "dropout", "rate": 0.25},
    {"type": "global_average"},
    {"type": "linear", "out": 12},
    {"type": "relu"},
    {"type": "linear"},
]


@pytest.fixture(autouse=True)
def card():
    with stand_in.installed():
        yield


def built(kernels: str, mode: str, **options) -> Learner:
    move = both_ways.transfer if kernels == "cuda" else np.array
    memory = Memory(lambda size: move(np.full(size, both_ways.GARBAGE, np.uint8)), capacity=1 << 20, alignment=512)
    chosen = Settings(micro_batch=BATCH, accumulate=2, mode=mode, loss_scale=SCALE, clip_norm=1.0, **options)
    return Learner(NETWORK, SHAPE, OUTPUTS, chosen, Operations(memory, kernels_named(kernels)))


def batch(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    targets = random.integers(0, OUTPUTS, BATCH).astype(np.int32)
    return random.normal(size=(BATCH, *SHAPE)) + targets[:, None, None, None], targets


def hold(trained: Learner, seed: int) -> tuple:
    """A batch in the learner's own arrays."""
    arrays = trained.inputs[0], trained.targets[0]
    for values, array in zip(batch(seed), arrays, strict=True):
        from_host(values.astype(array.dtype), array)
    return arrays


def window(trained: Learner, number: int, plan=None) -> None:
    for micro_batch in range(2):
        held = hold(trained, 2 * number + micro_batch)
        trained.accumulate(*held, 2 * BATCH, plan or keep_all(len(trained.model.blocks)), (7, 1, micro_batch))


def gradients(trained: Learner) -> dict[str, np.ndarray]:
    window(trained, 0)
    return {each.name: np.array(to_host(each.gradient)) for each in trained.model.parameters}


def train(trained: Learner, windows: int, plan=None) -> list[float]:
    losses = []
    for number in range(windows):
        window(trained, number, plan)
        update = trained.update(3e-3, trained.inputs[0])
        assert update.finite
        losses.append(float(update.totals[0]))
    return losses


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def test_gradients_equal_the_reference_s():
    expected = gradients(built("reference", "fp32"))
    for name, gradient in gradients(built("cuda", "fp32")).items():
        assert difference(gradient, expected[name]) < 1e-4, name


def test_gradients_in_half_precision():
    """Weights are rounded for the products, so that some sums near 0 change sign: that is most of the distance."""
    exact = gradients(built("reference", "fp32"))
    for name, gradient in gradients(built("cuda", "mixed")).items():
        assert difference(gradient / SCALE, exact[name]) < 0.1, name


@pytest.mark.parametrize("options", [{}, {"optimizer": "nesterov"}, {"label_smoothing": 0.1}], ids=str)
def test_training_equals_the_reference_s(options):
    fast, slow = built("cuda", "fp32", **options), built("reference", "fp32", **options)
    np.testing.assert_allclose(train(fast, 5), train(slow, 5), rtol=1e-3)
    for name, array in fast.model.arrays.items():
        assert difference(to_host(array), slow.model.arrays[name]) < 2e-3, name


@pytest.mark.parametrize("keep_fp32", [(), ("conv2", "residual1", "linear2")], ids=str)
def test_training_in_half_precision(keep_fp32):
    fast, slow = built("cuda", "mixed", keep_fp32=keep_fp32), built("reference", "fp32")
    np.testing.assert_allclose(train(fast, 5), train(slow, 5), rtol=0.02)


def test_recomputing_changes_nothing():
    plain, again = built("cuda", "mixed"), built("cuda", "mixed")
    plan = every(2, len(plain.model.blocks))
    assert train(plain, 3) == train(again, 3, plan)


@pytest.mark.parametrize("mode", ["fp32", "mixed"])
@pytest.mark.parametrize("interval", [0, 2])
def test_the_ledger_holds_what_shapes_alone_foretell(mode, interval):
    real = built("cuda", mode)
    shapes = Learner(
        NETWORK, SHAPE, OUTPUTS, real.settings, ShapeOperations(Memory(alignment=512), kernels_named("cuda"))
    )
    blocks = len(real.model.blocks)
    plan = every(interval, blocks) if interval else keep_all(blocks)
    for each in (real, shapes):
        each.memory.restart_peak()
    shape_window(shapes, plan, BATCH)
    train(real, 2, plan)
    assert real.memory.peak == shapes.memory.peak
    assert real.memory.total == shapes.memory.total


def test_shapes_need_no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    settings = Settings(micro_batch=BATCH, accumulate=2)
    shapes = ShapeOperations(Memory(alignment=512), kernels_named("cuda"))
    learner = Learner(NETWORK, SHAPE, OUTPUTS, settings, shapes)
    shape_window(learner, keep_all(len(learner.model.blocks)), BATCH)
    assert shapes.flops > 0


def test_evaluation():
    fast, slow = built("cuda", "fp32"), built("reference", "fp32")
    held = [[array[:5] for array in hold(each, 3)] for each in (fast, slow)]
    sums = [each.evaluate(*arrays) for each, arrays in zip((fast, slow), held, strict=True)]
    np.testing.assert_allclose(*sums, rtol=1e-4)
    outputs = [each.outputs(arrays[0]) for each, arrays in zip((fast, slow), held, strict=True)]
    np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-5)
