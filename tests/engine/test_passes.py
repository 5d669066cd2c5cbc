"""The passes of a window: every plan computes the same, every size of micro-batch adds up, and nothing stays behind."""

import tracemalloc

import numpy as np
import pytest
from laboratory import learner, window

from engine.layers import Pass
from engine.learner import Learner
from engine.ops import operation as pieces
from engine.ops.reference import convolution
from engine.recompute import BlockCost, Plan, cheapest, every, keep_all

SHAPE = (8, 8, 2)
TABLES = [
    {"type": "layer_norm"},
    {"type": "conv", "out": 4, "stride": 1},
    {"type": "batch_norm"},
    {"type": "relu"},
    {"type": "dropout", "rate": 0.2},
    {"type": "se"},
    {"type": "conv", "out": 5, "kernel": 1},
    {"type": "relu"},
    {"type": "eca"},
    {"type": "max_pool"},
    {"type": "residual", "out": 5},
    {"type": "cbam_channels"},
    {"type": "cbam_positions"},
    {"type": "residual", "out": 6, "stride": 2},
    {"type": "gelu"},
    {"type": "conv", "out": 4},
    {"type": "batch_norm"},
    {"type": "average_pool"},
    {"type": "flatten"},
    {"type": "linear", "out": 9, "scale": 0.5},
    {"type": "silu"},
    {"type": "dropout", "rate": 0.4},
    {"type": "linear"},
]
BLOCKS = 7

CHAIN = [
    {"type": "conv", "out": 4},
    {"type": "gelu"},
    {"type": "max_pool"},
    {"type": "conv", "out": 4},
    {"type": "relu"},
    {"type": "flatten"},
    {"type": "linear"},
]


@pytest.fixture(autouse=True)
def small_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks as large ones are: what is kept outweighs the scratch of an operation."""
    monkeypatch.setattr(convolution, "COLUMN_BYTES", 2048)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 512)


def batch(samples: int, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(samples, *shape)).astype(np.float32), random.integers(0, 3, samples).astype(np.int32)


def plans() -> list[Plan]:
    """Every interval, and what the planner makes of chains of blocks that cost much or little to keep."""
    random = np.random.default_rng(0)
    made = {every(interval, BLOCKS): None for interval in range(1, BLOCKS + 1)}
    for _ in range(12):
        sizes = 1000 * random.integers(1, (20, 100, 20, 20), (BLOCKS, 4))
        costs = [
            BlockCost(
                *(int(size) for size in row), forward_work=1.0, backward_work=2.0, rebuilds=bool(random.integers(2))
            )
            for row in sizes
        ]
        for limit in range(40_000, 520_000, 48_000):
            plan = cheapest(costs, limit)
            if plan is not None:
                made[plan] = None
    assert len(made) > 40
    return list(made)


def outcome(trained: Learner, plan: Plan, micro_batches: list) -> dict[str, bytes]:
    """Bit for bit: totals, gradients, and running statistics and weights after the update."""
    totals, gradients = window(trained, micro_batches, plan)
    trained.update(0.01, trained.inputs[0][: len(micro_batches[-1][0])])
    arrays = (
        {"totals": totals} | {f"gradient {name}": array for name, array in gradients.items()} | trained.model.arrays
    )
    return {name: array.tobytes() for name, array in arrays.items()}


@pytest.mark.parametrize(
    ("mode", "kernels"), [("fp32", "reference"), ("fp32", "cpu"), ("mixed", "reference"), ("mixed", "cpu")]
)
def test_recomputing_changes_nothing(mode: str, kernels: str) -> None:
    """Gradients, losses and buffers: statistics and draws move once however often a layer runs."""
    micro_batches = [batch(8, seed=1), batch(5, seed=2)]

    def run(plan: Plan) -> dict[str, bytes]:
        trained = learner(TABLES, SHAPE, mode=mode, kernels=kernels, loss_scale=1024.0, seed=4)
        assert len(trained.model.blocks) == BLOCKS
        return outcome(trained, plan, micro_batches)

    expected = run(keep_all(BLOCKS))
    assert any("running" in name for name in expected)
    for plan in plans()[::4]:
        assert run(plan) == expected, plan


def test_some_plan_takes_less_memory_and_none_leaks() -> None:
    peaks = []
    for plan in [keep_all(BLOCKS), *plans()[::8]]:
        trained = learner(TABLES, SHAPE)
        base = dict(trained.memory.bytes)
        seen = []
        for _ in range(3):
            outcome(trained, plan, [batch(8), batch(3)])
            assert trained.memory.bytes == base
            seen.append(dict(trained.memory.peak))
        assert seen == [seen[0]] * 3
        assert trained.memory.total == sum(base.values())
        peaks.append(seen[0]["total"])
    assert min(peaks) < peaks[0]


@pytest.mark.parametrize("loss", ["cross-entropy", "mse", "huber"])
@pytest.mark.parametrize("sizes", [(8,), (4, 4), (2, 2, 2, 2), (7, 1), (3, 3, 2)])
def test_accumulation_equals_one_large_batch(loss: str, sizes: tuple[int, ...]) -> None:
    """The sum over all samples divided by their number, however they are cut."""
    inputs, targets = batch(8)
    if loss != "cross-entropy":
        targets = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    cuts = np.split(np.arange(8), np.cumsum(sizes)[:-1])
    whole = window(learner(CHAIN, SHAPE, dtype=np.float64, loss=loss), [(inputs, targets)])
    parts = window(learner(CHAIN, SHAPE, dtype=np.float64, loss=loss), [(inputs[rows], targets[rows]) for rows in cuts])
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-12)
    for name, gradient in whole[1].items():
        np.testing.assert_allclose(parts[1][name], gradient, rtol=1e-9, atol=1e-14)


def test_five_rows_as_four_and_one_equal_one_batch_of_five() -> None:
    tables = [{"type": "linear", "out": 6}, {"type": "gelu"}, {"type": "linear"}]
    inputs, targets = batch(5, (4,))
    inputs[4] *= 10
    weights = []
    for cuts in ([slice(0, 5)], [slice(0, 4), slice(4, 5)]):
        trained = learner(tables, (4,), optimizer="sgd", weight_decay=0.0)
        window(trained, [(inputs[rows], targets[rows]) for rows in cuts])
        update = trained.update(0.5, trained.inputs[0])
        weights.append((update.grad_norm, update.totals[0], *(array.copy() for array in trained.model.arrays.values())))
    for whole, parts in zip(*weights, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("mode", ["fp32", "mixed"])
def test_each_layer_keeps_what_it_declares(mode: str) -> None:
    """Between forward and backward the ledger holds each layer's declaration, to the byte."""
    trained = learner(TABLES, SHAPE, mode=mode)
    memory, held = trained.memory, {}

    def look(outputs: np.ndarray) -> np.ndarray:
        held.update(memory.bytes)
        return trained.loss.forward(trained.operations, outputs, trained.targets[0], trained.totals, 1.0)

    base = dict(memory.bytes)
    trained.targets[0][...] = 0
    trained.inputs[0][...] = batch(8)[0]
    run = Pass(trained.operations, training=True, place=np.array([0, 0]))
    trained.model.train(trained.inputs[0], look, keep_all(BLOCKS), run)
    declared = 0
    for number, block in enumerate(trained.model.blocks):
        for place, layer in enumerate(block.layers):
            for name, spec in layer.saves(8).items():
                rebuilt = place == 0 and (number == 0 or trained.model.blocks[number - 1].rebuilds)
                if not (name == "input" and rebuilt):
                    declared += -(-spec.nbytes // 64) * 64
    assert held["activations"] - base["activations"] == declared
    assert held["gradients"] == base["gradients"]
    output = -(-trained.model.blocks[-1].layers[-1].output_spec(8).nbytes // 64) * 64
    assert held["workspace"] - base["workspace"] == output


@pytest.mark.parametrize("mode", ["fp32", "mixed"])
def test_next_to_nothing_lives_outside_the_ledger(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a warm window allocates besides the ledger's arrays stays below one piece, while those take megabytes."""
    for module, name, size in ((convolution, "COLUMN_BYTES", 1 << 21), (pieces, "PIECE_BYTES", 1 << 19)):
        monkeypatch.setattr(module, name, size)
    trained = learner(TABLES, (32, 32, 2), mode=mode, micro_batch=32)
    micro_batch = batch(32, (32, 32, 2))
    for _ in range(2):
        window(trained, [micro_batch])
        trained.update(0.01, trained.inputs[0])
    tracemalloc.start()
    for number in range(2):
        trained.accumulate(trained.inputs[0], trained.targets[0], 64, keep_all(BLOCKS), (0, 1, number))
    trained.update(0.01, trained.inputs[0])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < pieces.PIECE_BYTES
    assert trained.memory.peak["total"] > 6 * pieces.PIECE_BYTES
