"""Recorded micro-batches on the stand-in for a card: the same numbers as without, and only where that is safe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import test_ops_cuda_training as training
from cuda_on_cpu import both_ways, build, stand_in

from engine.learner import Learner
from engine.memory import Memory
from engine.ops import Operations, kernels_named, to_host
from engine.recompute import every
from engine.replay import Replay
from engine.settings import Settings

pytestmark = pytest.mark.skipif(bool(build.obstacle()), reason=build.obstacle() or "-")

WINDOWS = 4


@pytest.fixture(params=[False, True], ids=["columns", "cudnn"])
def stream(request: pytest.FixtureRequest) -> Iterator[stand_in.RecordingStream]:
    with stand_in.installed(with_cudnn=request.param):
        stand_in.stream.launched = 0
        yield stand_in.stream


def built(replayed: bool, mode: str, network: list[dict], **options) -> Learner:
    stored = lambda size: both_ways.transfer(np.full(size, both_ways.GARBAGE, np.uint8))  # noqa: E731
    memory = Memory(stored, capacity=1 << 20, alignment=512)
    settings = Settings(micro_batch=training.BATCH, accumulate=2, mode=mode, loss_scale=256.0, **options)
    pools = SimpleNamespace(MemoryPool=lambda: SimpleNamespace(malloc=None), using_allocator=nullcontext)
    card = SimpleNamespace(stream=stand_in.stream, cupy=SimpleNamespace(cuda=pools))
    replay = (Replay(card, memory),) if replayed else ()
    operations = Operations(memory, kernels_named("cuda"))
    return Learner(network, training.SHAPE, training.OUTPUTS, settings, operations, *replay)


@pytest.mark.parametrize("mode", ["fp32", "mixed"])
@pytest.mark.parametrize("interval", [0, 2], ids=["kept", "recomputed"])
def test_a_recorded_run_is_the_run(stream, mode: str, interval: int) -> None:
    runs = []
    for replayed in (False, True):
        learner = built(replayed, mode, training.NETWORK)
        plan = every(interval, len(learner.model.blocks)) if interval else None
        learner.memory.fullest()
        losses = training.train(learner, WINDOWS, plan)
        weights = {name: np.array(to_host(array)) for name, array in learner.model.arrays.items()}
        runs.append((losses, weights, learner.memory.fullest(), learner.memory.peak))
    assert stream.launched == 2 * WINDOWS - 1  # all but the first micro-batch, as all lie in the same slot
    (losses, weights, fullest, peak), again = runs
    assert again[0] == losses and again[2:] == (fullest, peak)
    for name, array in weights.items():
        np.testing.assert_array_equal(again[1][name], array)


def test_the_ledger_says_how_full_it_was_though_nothing_was_entered(stream) -> None:
    learner = built(True, "fp32", training.NETWORK)
    learner.memory.fullest()
    training.train(learner, 1)
    first = learner.memory.fullest()
    training.train(learner, 1)
    assert learner.memory.fullest() == first and first["activations"] > 0


@pytest.mark.parametrize(
    "layers",
    [
        [{"type": "se"}, {"type": "eca"}],
        [{"type": "cbam_channels"}, {"type": "cbam_positions"}],
        [{"type": "layer_norm"}, {"type": "gelu"}, {"type": "average_pool"}, {"type": "silu"}],
    ],
    ids=["attention", "cbam", "others"],
)
def test_what_has_no_kernels_of_its_own_is_recorded_too(stream, layers: list[dict]) -> None:
    """What it makes on the way lies in memory of the recordings."""
    network = [*training.NETWORK[:6], *layers, {"type": "global_average"}, {"type": "linear"}]
    plain, again = (built(replayed, "mixed", network) for replayed in (False, True))
    assert training.train(plain, WINDOWS) == training.train(again, WINDOWS)
    assert stream.launched == 2 * WINDOWS - 1


def test_another_factor_is_another_recording(stream) -> None:
    learner = built(True, "mixed", training.NETWORK)
    training.train(learner, 2)
    before = stream.launched
    learner.scale.scale /= 2
    training.window(learner, 0)
    assert stream.launched == before + 1


@pytest.mark.parametrize("average_decay", [0.0, 0.9])
def test_a_recorded_evaluation_is_the_evaluation(stream, average_decay: float) -> None:
    """Also with averages in the place of weights, and after training went on."""
    found = []
    for replayed in (False, True):
        learner = built(replayed, "mixed", training.NETWORK, average_decay=average_decay)
        for _ in range(3):
            training.train(learner, 1)
            found.append(learner.evaluate(*training.hold(learner, 9)))
    assert stream.launched > 2
    for plain, again in zip(found[:3], found[3:], strict=True):
        np.testing.assert_array_equal(plain, again)


def test_what_cannot_be_recorded_is_done_as_before(stream) -> None:
    """A library that refuses while work is recorded: the run goes on, and its ledger is none the worse."""
    plain, again = (built(replayed, "mixed", training.NETWORK) for replayed in (False, True))
    refused, linear = [], again.operations.linear

    def refusing(*arguments, **options) -> None:
        if stream.recorded is not None:
            refused.append(again.memory.total)
            raise NotImplementedError("not while it is recorded")
        linear(*arguments, **options)

    again.operations.linear = refusing
    assert training.train(plain, WINDOWS) == training.train(again, WINDOWS)
    assert len(refused) == 1 and stream.launched == 0
    assert again.memory.bytes == plain.memory.bytes and again.memory.peak == plain.memory.peak
