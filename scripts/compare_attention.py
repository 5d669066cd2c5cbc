"""Train one network plain and with each kind of attention, with several seeds, and compare the results.

    python scripts/compare_attention.py [SPEC] [--kinds none,se,eca,cbam] [--seeds 3] [--set KEY=VALUE]...

SPEC is a spec of experiments/specs whose preset has the option `attention`. The runs are archived as SPEC-KIND-SEED.
Stop it at any time and call it again: what is finished is not trained again, and what was stopped goes on.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fnwork.archive import Archive, RunSummary
from fnwork.commands.common import print_table

DONE = ("finished", "early-stopped")
RESULTS = ("test_accuracy", "val_accuracy")


def newest(archive: Archive, name: str) -> RunSummary | None:
    """The last run of that name."""
    return next((run for run in reversed(archive.list()) if run.name == name), None)


def trained(archive: Archive, spec: str, kind: str, seed: int, settings: Sequence[str]) -> RunSummary:
    """The finished run of one kind and seed, which is trained or resumed where it has to be."""
    name = f"{spec}-{kind}-{seed}"
    run = newest(archive, name)
    if run is None or run.state not in DONE:
        command = [sys.executable, "-m", "fnwork", "--experiments", str(archive.root)]
        if run is not None and run.state in ("stopped", "interrupted"):
            command += ["resume", run.id]
        else:
            changed = [f'name="{name}"', f"seed={seed}", f'model.options.attention="{kind}"', *settings]
            command += ["run", spec, *(word for setting in changed for word in ("--set", setting))]
        if code := subprocess.run(command).returncode:
            sys.exit(code)
        run = newest(archive, name)
    return run


def row(kind: str, runs: Sequence[RunSummary]) -> list[str]:
    """One line of the comparison: each seed's result, their mean and standard deviation, and the time of a run."""
    result = next(key for key in RESULTS if key in runs[0].results)
    values = [100 * run.results[result] for run in runs]
    spread = f"{statistics.stdev(values):.2f}" if len(values) > 1 else "-"
    seconds = statistics.fmean(run.seconds for run in runs)
    return [
        kind,
        " ".join(f"{value:.2f}" for value in values),
        f"{statistics.fmean(values):.2f}",
        spread,
        f"{seconds:.0f} s",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", metavar="SPEC", nargs="?", default="cnn8-attention")
    parser.add_argument("--kinds", default="none,se,eca,cbam")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--experiments", type=Path, default=Path("experiments"))
    arguments = parser.parse_args()
    archive = Archive(arguments.experiments)
    runs = {
        kind: [trained(archive, arguments.spec, kind, seed, arguments.set) for seed in range(arguments.seeds)]
        for kind in arguments.kinds.split(",")
    }
    print_table(
        ["attention", "accuracy of each seed, %", "mean", "deviation", "time"],
        [row(kind, of_kind) for kind, of_kind in runs.items()],
    )


if __name__ == "__main__":
    main()
