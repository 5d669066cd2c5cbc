"""Copy what is worth keeping of a finished run: small, without weights, and without traces of the machine.

    python scripts/keep_record.py RUN FOLDER

RUN is a run's folder; its record is written into FOLDER under the same id. Of the updates every Nth is kept, so that
about 500 are left; epochs and all other events are kept whole.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import tomli_w

from fnwork.prepare import USED
from fnwork.run_folder import EVENTS, RECORD, RESOLVED, SPEC, STATUS, RunReader, event_line

STEPS = 500
OF_THE_MACHINE = ("pid", "process_started", "host", "heartbeat")


def thinned(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events with every Nth update, the last one among them."""
    steps = [event for event in events if event["kind"] == "step"]
    every = max(1, len(steps) // STEPS)
    kept = {id(event) for event in steps[::-1][::every]}
    return [event for event in events if event["kind"] != "step" or id(event) in kept]


def data_path(data: str, run: Path) -> str:
    """Where the data lie, from the run's folder on; "" where that is outside of the experiments folder."""
    experiments = run.parents[1]
    return Path(os.path.relpath(data, run)).as_posix() if data and Path(data).is_relative_to(experiments) else ""


def keep(run: Path, target: Path) -> Path:
    """Write the record of `run` below `target` and return its folder."""
    reader, folder = RunReader(run), target / run.name
    resolved = reader.resolved()
    resolved[USED]["device_uuid"] = ""
    resolved[USED]["data_path"] = data_path(resolved[USED]["data_path"], run.resolve())
    status = {key: value for key, value in reader.status().items() if key not in OF_THE_MACHINE}
    folder.mkdir(parents=True)
    for name in (SPEC, RECORD):
        shutil.copyfile(run / name, folder / name)
    (folder / RESOLVED).write_bytes(tomli_w.dumps(resolved).encode())
    (folder / STATUS).write_bytes(f"{json.dumps(status, indent=1, ensure_ascii=False)}\n".encode())
    (folder / EVENTS).write_bytes(b"".join(map(event_line, thinned(reader.events()))))
    return folder


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(keep(*map(Path, sys.argv[1:])))
