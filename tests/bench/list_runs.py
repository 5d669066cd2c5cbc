"""How long listing an archive of 2,000 runs takes. Run by hand: python tests/bench/list_runs.py"""

import tempfile
import time
from pathlib import Path

from fnwork.archive import Archive

RUNS = 2_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive(Path(folder))
        for number in range(RUNS):
            writer = archive.create(f"run-{number % 20}", "", {"train": {"lr": 0.1}}, epochs=60)
            writer.status(state="finished", epoch=60, results={"val_loss": 0.3, "val_accuracy": 0.9})
            writer.record({"reason": "finished"})
            writer.close()
        for attempt in ("first", "again"):
            began = time.perf_counter()
            count = len(archive.list())
            print(f"{attempt}: {count} runs listed in {time.perf_counter() - began:.3f} s")


if __name__ == "__main__":
    main()
