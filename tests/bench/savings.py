"""What each saving does to the memory of R128 (128x128x3, batch 32), from the forecast, which equals a run's ledger
to the byte.

python -m tests.bench.savings
"""

from __future__ import annotations

from engine import zoo
from engine.forecast import forecast
from engine.settings import Settings
from tests.bench.workloads import WORKLOADS

ROWS = {
    "activations": ("activations",),
    "gradients": ("gradients",),
    "weights + optimizer": ("weights", "optimizer"),
    "data + workspace": ("data", "workspace"),
    "total": ("total",),
}
COLUMNS = {
    "off (fp32)": ("fp32", "none", 0),
    "mixed": ("mixed", "none", 0),
    "mixed + auto, 200 MiB": ("mixed", "auto", 200),
    "mixed + auto, 160 MiB": ("mixed", "auto", 160),
    "mixed + every:2": ("mixed", "every:2", 0),
}


def main() -> None:
    workload = WORKLOADS["R128"]
    found = []
    for mode, recompute, budget in COLUMNS.values():
        settings = Settings(micro_batch=workload.batch, mode=mode, recompute=recompute, budget=budget << 20)
        found.append(forecast(zoo.layers(workload.preset), workload.input_shape, 10, settings))
    print(f"| MiB | {' | '.join(COLUMNS)} |")
    print("| --- |" + " ---: |" * len(COLUMNS))
    for row, names in ROWS.items():
        sizes = (sum(made.peak[name] for name in names) / 2**20 for made in found)
        print(f"| {row} | {' | '.join(f'{size:.1f}' for size in sizes)} |")
    shares = (made.recomputed_work / (made.work - made.recomputed_work) for made in found)
    print(f"| work done again | {' | '.join(f'{share:.0%}' for share in shares)} |")


if __name__ == "__main__":
    main()
