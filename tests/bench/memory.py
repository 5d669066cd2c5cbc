"""The memory of a reference workload: the ledger, the forecast, and what the process grows by.

    python -m tests.bench.memory R128 --mode mixed --recompute auto --budget 200MiB
    python -m tests.bench.memory R128 --torch --torch-python /path/to/python [--again]

Prints one JSON line: median milliseconds of a window, the ledger's peak and the forecast's (bytes), the growth of the
process's peak resident memory over its size before the first window and over its size before the run was built, and
what is fixed: the growth of a process that only multiplies two small matrices and loads the kernels. With --torch the
growth of PyTorch, with --again under its checkpointing.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from dataclasses import replace

import psutil

from engine import zoo
from engine.trainer import Settings, Trainer
from fnwork.warm_up import warm_up
from tests.bench.peer import Peer, add_option
from tests.bench.process import peak
from tests.bench.workloads import CLASSES, WORKLOADS, made_up

UNITS = {"MiB": 2**20, "GiB": 2**30}


def resident() -> int:
    """The resident size of this process now, in bytes."""
    return psutil.Process().memory_info().rss


def of_torch(python: str, workload: str, batch: int, windows: int, again: bool) -> dict[str, float]:
    chosen = WORKLOADS[workload]
    job = {"layers": zoo.layers(chosen.preset), "input_shape": chosen.input_shape, "outputs": len(CLASSES)}
    with Peer(python, **job, batch=batch, again=again) as peer:
        answers = [peer.ask() for _ in range(windows)]
    return {
        "median_ms": round(statistics.median(answer["ms"] for answer in answers[1:]), 1),
        "growth_before_first_window_mib": round(answers[-1]["growth"] / 2**20, 1),
    }


def of_engine(workload: str, settings: Settings) -> dict[str, float]:
    chosen, kernels = WORKLOADS[workload], settings.kernels
    data = made_up(replace(chosen, batch=settings.micro_batch), settings.limit_windows)
    before_fixed = resident()
    for name in ("reference",) if kernels == "reference" else ("reference", "cpu"):
        warm_up("cpu", name)
    built = resident()
    trainer = Trainer(zoo.layers(chosen.preset), data, settings, "cpu")
    first = resident()
    began, times = time.perf_counter(), []
    for event in trainer.run():
        if event.kind == "step":
            now = time.perf_counter()
            times.append((now - began) * 1e3)
            began = now
    grown = peak()
    return {
        "median_ms": round(statistics.median(times[1:]), 1),
        "ledger_peak_mib": round((trainer.memory.peak["total"] - data.nbytes) / 2**20, 1),
        "forecast_off_bytes": trainer.memory.peak["total"] - trainer.forecast.peak["total"],
        "growth_before_first_window_mib": round((grown - first) / 2**20, 1),
        "growth_before_build_mib": round((grown - built) / 2**20, 1),
        "fixed_mib": round((built - before_fixed) / 2**20, 1),
        "recomputed_share": round(trainer.forecast.recomputed_work / trainer.forecast.work, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--mode", choices=("fp32", "mixed"), default="fp32")
    parser.add_argument("--recompute", default="none")
    parser.add_argument("--budget", default="")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--kernels", choices=("", "reference", "cpu"), default="")
    parser.add_argument("--windows", type=int, default=6)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--again", action="store_true")
    add_option(parser)
    options = parser.parse_args()
    batch = options.batch or WORKLOADS[options.workload].batch
    number, unit = re.fullmatch(r"(\d+) ?(MiB|GiB)|", options.budget).groups()
    settings = Settings(
        epochs=1,
        micro_batch=batch,
        mode=options.mode,
        recompute=options.recompute,
        budget=int(number) * UNITS[unit] if number else 0,
        limit_windows=options.windows,
        kernels=options.kernels,
    )
    asked = {"workload": options.workload, "batch": batch, "mode": options.mode, "recompute": options.recompute}
    if options.torch:
        asked = {"workload": options.workload, "batch": batch, "again": options.again}
        found = of_torch(options.torch_python, options.workload, batch, options.windows, options.again)
    else:
        found = of_engine(options.workload, settings)
    print(json.dumps(asked | found))


if __name__ == "__main__":
    main()
