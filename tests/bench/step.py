"""Time and memory of a reference workload, each in a process of its own.

    python -m tests.bench.step R128 --mode mixed --recompute auto --budget 180MiB
    python -m tests.bench.step C10

Prints one JSON line: median and best milliseconds of a window, the ledger's peak and the forecast's (bytes), the
growth of the
process's peak resident memory over its size before the first window and over its size before the run was built, and
what is
fixed: the growth of a process that only multiplies two small matrices and compiles the kernels.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil

from engine import zoo
from engine.trainer import Settings, Trainer
from engine.warm_up import warm_up
from tests.bench.workloads import WORKLOADS, made_up

UNITS = {"MiB": 2**20, "GiB": 2**30}


def peak() -> int:
    """The largest resident size of this process so far, in bytes.

    On Linux from /proc, since the figure of getrusage begins with the size of the process that started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text()).group(1)) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def resident() -> int:
    """The resident size of this process now, in bytes."""
    return psutil.Process().memory_info().rss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--mode", choices=("fp32", "mixed"), default="fp32")
    parser.add_argument("--recompute", default="none")
    parser.add_argument("--budget", default="")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--kernels", choices=("", "reference", "cpu"), default="")
    parser.add_argument("--windows", type=int, default=6)
    options = parser.parse_args()
    workload = WORKLOADS[options.workload]
    batch = options.batch or workload.batch
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
    data = made_up(workload.__class__(workload.preset, workload.input_shape, batch, 0), options.windows)
    if options.kernels != "reference":
        # what has to be compiled is compiled elsewhere, since the compiler's own memory would be counted here
        subprocess.run([sys.executable, "-m", "engine.warm_up", "cpu", "cpu"], check=True)
    before_fixed = resident()
    for kernels in ("reference",) if options.kernels == "reference" else ("reference", "cpu"):
        warm_up("cpu", kernels)
    built = resident()
    trainer = Trainer(zoo.layers(workload.preset), data, settings, "cpu")
    first = resident()
    began, times = time.perf_counter(), []
    for event in trainer.run():
        if event.kind == "step":
            now = time.perf_counter()
            times.append((now - began) * 1e3)
            began = now
    grown = peak()
    print(
        json.dumps(
            {
                "workload": options.workload,
                "batch": batch,
                "mode": options.mode,
                "recompute": options.recompute,
                "median_ms": round(statistics.median(times[1:]), 1),
                "best_ms": round(min(times[1:]), 1),
                "ledger_peak_mib": round((trainer.memory.peak["total"] - data.nbytes) / 2**20, 1),
                "forecast_off_bytes": trainer.memory.peak["total"] - trainer.forecast.peak["total"],
                "growth_before_first_window_mib": round((grown - first) / 2**20, 1),
                "growth_before_build_mib": round((grown - built) / 2**20, 1),
                "fixed_mib": round((built - before_fixed) / 2**20, 1),
                "recomputed_share": round(trainer.forecast.recomputed_work / trainer.forecast.work, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
