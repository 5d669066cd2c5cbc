"""The time of a training step of a reference workload, ours and PyTorch's in turn; or what operations take of ours.

    python -m tests.bench.step R128 --torch-python /path/to/python [--json]
    python -m tests.bench.step C10 --ops [--mode mixed] [--kernels reference]

The first prints the medians and their ratio. The second prints for each operation its time a step, its GFLOP/s or GB/s,
and that over what a large product and a large copy reach on this machine; then the rate of all convolutions, and the
share of the step that is spent outside kernels: the time of a step whose kernels return at once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import engine.trainer
from engine import zoo
from engine.device import thread_count
from engine.ops import Operations
from engine.ops.operation import Operation
from engine.trainer import Settings, Trainer
from tests.bench.peer import Peer, add_option
from tests.bench.workloads import CLASSES, WORKLOADS, made_up

WARM_UP = 2  # steps that do not count
LARGE = 2048  # side of the large product
COPIED = 1 << 26  # bytes of the large copy, for each thread


def steps(workload: str, rounds: int, **options: str) -> Iterator[float]:
    """The milliseconds of each step of a run, which goes on only when the next one is asked for."""
    chosen = WORKLOADS[workload]
    settings = Settings(epochs=1, micro_batch=chosen.batch, **options)
    trainer = Trainer(zoo.layers(chosen.preset), made_up(chosen, rounds + WARM_UP), settings, "cpu")
    began = time.perf_counter()
    for event in trainer.run():
        if event.kind == "step":
            yield (time.perf_counter() - began) * 1e3
            if trainer.step == rounds + WARM_UP:
                return
            began = time.perf_counter()


def compare(workload: str, rounds: int, python: str) -> dict[str, Any]:
    """Medians of steps that take turns."""
    chosen = WORKLOADS[workload]
    job = {"layers": zoo.layers(chosen.preset), "input_shape": chosen.input_shape, "outputs": len(CLASSES)}
    times = []
    with Peer(python, **job, batch=chosen.batch) as peer:
        if peer.ready["parameters"] != chosen.parameters:
            sys.exit(f"the networks differ: {peer.ready['parameters']} parameters, not {chosen.parameters}")
        for ours in steps(workload, rounds):
            times.append((ours, peer.ask()["ms"]))
    ours, theirs = (statistics.median(side) for side in zip(*times[WARM_UP:], strict=True))
    return {
        "workload": workload,
        "ours_ms": round(ours, 1),
        "torch_ms": round(theirs, 1),
        "ratio": round(ours / theirs, 3),
    }


class TimedOperations(Operations):
    """Notes of each call its operation, shape, seconds, floating-point operations and bytes."""

    calls: list[tuple[str, str, float, float, int]] = []  # noqa: RUF012

    def _call(self, operation: Operation, *arguments: Any, **options: Any) -> Any:
        arrays = [each for each in (*arguments, *options.values()) if isinstance(each, np.ndarray)]
        chosen = operation.fitting(*arguments, **options)
        with self.memory.workspace(chosen.workspace(*arguments, **options)) as work:
            began = time.perf_counter()
            result = chosen.compute(*arguments, work=work, **options)
            seconds = time.perf_counter() - began
        name = next(name for name, bound in vars(self).items() if getattr(bound, "args", ()) == (operation,))
        shape = " ".join("x".join(map(str, array.shape)) for array in arrays[: 3 if "weight" in name else 2])
        work = operation.flops(*arguments, **options)
        if name == "convolve_input_gradient":  # the reference multiplies with the zeros between a strided gradient too
            work = 2.0 * arrays[0].size * arrays[1].size / arrays[1].shape[0]
        self.calls.append((name, shape, seconds, work, sum(array.nbytes for array in arrays)))
        return result


def at_once(task: Callable[[], None], repeat: int = 5) -> float:
    """The best seconds in which one thread a core does the task, each for itself."""
    best = float("inf")
    for _ in range(repeat):
        threads = [threading.Thread(target=task) for _ in range(thread_count())]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best = min(best, time.perf_counter() - began)
    return best


def limits() -> tuple[float, float]:
    """GFLOP/s of large products and GB/s of large copies (read and written), each thread with its own."""
    local = threading.local()

    def arrays(size: int) -> list[np.ndarray]:
        if not hasattr(local, "arrays"):
            local.arrays = [np.ones(size, np.float32) for _ in range(3)]
        return local.arrays

    def product() -> None:
        a, b, c = (array.reshape(LARGE, LARGE) for array in arrays(LARGE * LARGE))
        for _ in range(4):
            np.matmul(a, b, out=c)

    def copy() -> None:
        source, target, _ = arrays(COPIED // 4)
        for _ in range(4):
            np.copyto(target, source)

    products = at_once(product)
    return 4 * 2.0 * LARGE**3 * thread_count() / products / 1e9, 4 * 2.0 * COPIED * thread_count() / at_once(copy) / 1e9


def without_kernels(workload: str, rounds: int, **options: str) -> float:
    """Median milliseconds of a step whose compiled kernels return at once."""
    from numba.core.dispatcher import Dispatcher

    kept = []
    for name, module in list(sys.modules.items()):
        # handing work over is what is measured
        if name.startswith("engine.ops.cpu.") and not name.endswith(".threads"):
            kept += [(module, key, value) for key, value in vars(module).items() if isinstance(value, Dispatcher)]
    # garbage for the sum of squares would have the step look for what is not finite
    kept = [each for each in kept if each[1] != "_squares"]
    for module, key, _ in kept:
        setattr(module, key, lambda *arguments: None)
    try:
        return statistics.median([*steps(workload, rounds, **options)][WARM_UP:])
    finally:
        for module, key, value in kept:
            setattr(module, key, value)


def operations(workload: str, rounds: int, **options: str) -> None:
    """Prints the table of a step."""
    most_work, most_bytes = limits()
    print(f"large products {most_work:.0f} GFLOP/s, large copies {most_bytes:.1f} GB/s, {thread_count()} threads")
    engine.trainer.Operations = TimedOperations
    times, table = [], {}
    for time_of_step in steps(workload, rounds, **options):
        times.append(time_of_step)
        if len(times) <= WARM_UP:
            TimedOperations.calls.clear()
    for name, shape, seconds, work, size in TimedOperations.calls:
        row = table.setdefault((name, shape), [0, 0.0, 0.0, 0.0])
        for place, value in enumerate((1, seconds, work, size)):
            row[place] += value / rounds
    engine.trainer.Operations = Operations
    step = statistics.median(times[WARM_UP:])
    print(f"{'operation':26} {'shapes':54} {'calls':>5} {'ms':>8} {'share':>6}   rate")
    total = [0.0, 0.0]
    for (name, shape), (calls, seconds, work, size) in sorted(table.items(), key=lambda row: -row[1][1]):
        if name.startswith(("convolve", "linear")):
            rate = f"{work / seconds / 1e9:6.0f} GFLOP/s {work / seconds / 1e9 / most_work:5.0%} of a large product"
        else:
            rate = f"{size / seconds / 1e9:6.1f} GB/s    {size / seconds / 1e9 / most_bytes:5.0%} of a large copy"
        if name.startswith("convolve"):
            total = [total[0] + work, total[1] + seconds]
        if seconds * 1e3 > step / 1000:
            print(f"{name:26} {shape:54} {calls:5.0f} {seconds * 1e3:8.2f} {seconds * 1e3 / step:6.1%} {rate}")
    if total[1]:
        rate = total[0] / total[1] / 1e9
        print(f"convolution: {rate:.0f} GFLOP/s, {rate / most_work:.0%} of a large product")
    print(f"step: {step:.1f} ms")
    if options["kernels"] != "reference":
        outside = without_kernels(workload, rounds, **options)
        print(f"outside kernels: {outside:.1f} ms, {outside / step:.1%} of the step")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--rounds", type=int, default=7, help="steps of each side that count")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ops", action="store_true")
    parser.add_argument("--mode", choices=("fp32", "mixed"), default="fp32", help="with --ops")
    parser.add_argument("--kernels", choices=("", "reference", "cpu"), default="", help="with --ops")
    add_option(parser)
    options = parser.parse_args()
    if options.ops:
        operations(options.workload, options.rounds, mode=options.mode, kernels=options.kernels)
        return
    found = compare(options.workload, options.rounds, options.torch_python)
    if options.json:
        print(json.dumps(found))
    else:
        print("{workload}: ours {ours_ms} ms, PyTorch {torch_ms} ms, ratio {ratio}".format(**found))


if __name__ == "__main__":
    main()
