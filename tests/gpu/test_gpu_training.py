"""Training on a card: equal to the CPU's, in the memory that was foretold, and how fast beside PyTorch."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np
import pytest
import test_ops_cuda_training
from laboratory import images, of_kind

from engine import zoo
from engine.state import State
from engine.trainer import Settings, Trainer
from tests.bench.workloads import WORKLOADS, made_up

globals().update({name: test for name, test in vars(test_ops_cuda_training).items() if name.startswith("test_")})

RES3 = zoo.layers("res3", {"blocks": 2, "width": 0.5})
MODES = ["fp32", "mixed"]
WARM_UP, STEPS = 3, 10


def trained(use: str, mode: str, **options) -> tuple[Trainer, list[dict]]:
    settings = Settings(micro_batch=8, accumulate=2, epochs=2, lr=2e-3, mode=mode, loss_scale=1024.0, **options)
    trainer = Trainer(RES3, images(96, (24, 24, 3)), settings, use)
    return trainer, of_kind([*trainer.run()], "epoch")


@pytest.mark.parametrize("mode", MODES)
def test_a_run_equals_that_of_the_cpu(mode: str) -> None:
    _, found = trained("cuda", mode, kernels="cuda")
    _, expected = trained("cpu", "fp32", kernels="reference")
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], abs=0.005 if mode == "fp32" else 0.04)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_repeats_itself_to_the_bit_and_is_recorded(mode: str) -> None:
    trainer, first = trained("cuda", mode, kernels="cuda")
    assert any(trainer._learner._replay._kept.values())
    _, second = trained("cuda", mode, kernels="cuda")
    assert [each["train_loss"] for each in first] == [each["train_loss"] for each in second]


OTHERS = {
    "attention": [{"type": "se"}, {"type": "eca"}, {"type": "cbam_channels"}, {"type": "cbam_positions"}],
    "norm": [{"type": "layer_norm"}, {"type": "gelu"}, {"type": "average_pool"}, {"type": "silu"}],
    "draws": [{"type": "max_pool"}, {"type": "dropout"}],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OTHERS)
def test_a_recorded_run_is_the_run(name: str, mode: str) -> None:
    network = [{"type": "conv", "out": 16}, *OTHERS[name], {"type": "global_average"}, {"type": "linear"}]
    settings = Settings(micro_batch=8, accumulate=2, epochs=3, mode=mode, loss_scale=1024.0, kernels="cuda")
    losses = []
    for recorded in (False, True):
        trainer = Trainer(network, images(90, (24, 24, 3)), settings, "cuda")
        if not recorded:
            trainer._learner._replay = lambda work, *key: work()
        losses.append([event.values["loss"] for event in trainer.run() if event.kind == "step"])
    assert losses[0] == losses[1]


@pytest.mark.parametrize("mode", MODES)
def test_a_run_resumes_to_the_bit(mode: str) -> None:
    def new() -> Trainer:
        settings = Settings(
            micro_batch=8, accumulate=2, epochs=3, lr=2e-3, mode=mode, loss_scale=1024.0, kernels="cuda"
        )
        return Trainer(RES3, images(90, (24, 24, 3)), settings, "cuda")

    whole, losses, states = new(), [], []
    for event in whole.run():
        if event.kind == "step":
            losses.append(event.values["loss"])
            if len(losses) == 7:
                state = whole.state()
                states.append(State({name: array.copy() for name, array in state.arrays.items()}, state.values))
    again = new()
    again.load_state(states[0])
    assert [event.values["loss"] for event in again.run() if event.kind == "step"] == losses[7:]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recompute", ["none", "every:2"])
def test_memory_is_what_was_foretold(mode: str, recompute: str) -> None:
    trainer, _ = trained("cuda", mode, kernels="cuda", recompute=recompute)
    assert trainer.memory.peak == trainer.forecast.peak


@dataclass(frozen=True)
class Measured:
    """Median milliseconds of a step, and the most memory that arrays took, MiB."""

    ms: float
    mib: float


def ours(workload: str, mode: str) -> Measured:
    chosen = WORKLOADS[workload]
    settings = Settings(epochs=1, micro_batch=chosen.batch, mode=mode, kernels="cuda")
    trainer = Trainer(zoo.layers(chosen.preset), made_up(chosen, WARM_UP + STEPS), settings, "cuda")
    times, began = [], time.perf_counter()
    for event in trainer.run():
        if event.kind == "step":
            times.append(1e3 * (time.perf_counter() - began))
            began = time.perf_counter()
    return Measured(statistics.median(times[WARM_UP:]), trainer.memory.peak["total"] / 2**20)


def theirs(workload: str, mode: str, *, channels_last: bool, tf32: bool) -> Measured:
    """PyTorch, eager. By itself it computes float32 convolutions in TF32."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no CUDA here")
    from tests.bench.torch_peer import Network

    torch.backends.cudnn.allow_tf32 = tf32
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    chosen = WORKLOADS[workload]
    layout = torch.channels_last if channels_last else torch.contiguous_format
    network = Network(zoo.layers(chosen.preset), chosen.input_shape, 10, False).cuda().to(memory_format=layout)
    optimizer, scaler = torch.optim.AdamW(network.parameters()), torch.amp.GradScaler(enabled=mode == "mixed")
    x = torch.randn(chosen.batch, chosen.input_shape[2], *chosen.input_shape[:2], device="cuda")
    x, targets, times = x.to(memory_format=layout), torch.randint(0, 10, (chosen.batch,), device="cuda"), []
    for _ in range(WARM_UP + STEPS):
        began = time.perf_counter()
        with torch.autocast("cuda", torch.float16, enabled=mode == "mixed"):
            loss = torch.nn.functional.cross_entropy(network(x), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    return Measured(statistics.median(times[WARM_UP:]), torch.cuda.max_memory_allocated() / 2**20)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_speed(workload: str, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, not judged: beside the faster of PyTorch's two layouts, in the same arithmetic and in its own."""
    found = ours(workload, mode)
    with capsys.disabled():
        print(f"\n{workload} {mode}: {found.ms:.2f} ms a step, {found.mib:.0f} MiB", end="")
        for tf32 in (False, True) if mode == "fp32" else (True,):
            layouts = (theirs(workload, mode, channels_last=last, tf32=tf32) for last in (False, True))
            peer = min(layouts, key=lambda each: each.ms)
            name = "PyTorch with TF32" if mode == "fp32" and tf32 else "PyTorch"
            print(f"; {name} {peer.ms:.2f} ms, {peer.mib:.0f} MiB, ratio {found.ms / peer.ms:.2f}", end="")
    assert np.isfinite(found.ms)
