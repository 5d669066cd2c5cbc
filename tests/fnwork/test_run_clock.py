"""The clock of a run: what it counts, and what not."""

import time
from types import SimpleNamespace

from fnwork import run as run_module
from fnwork.run import Run
from fnwork.run_folder import RunReader

PAUSE = 1000.0


def test_a_pause_is_no_training_time(archive, spec_path, monkeypatch):
    passed = [0.0]
    clock = SimpleNamespace(**{name: getattr(time, name) for name in ("time", "strftime", "localtime")})
    clock.monotonic = lambda: time.monotonic() + passed[0]
    monkeypatch.setattr(run_module, "time", clock)
    run = Run.start(archive, spec_path)
    write_status = run._writer.status

    def status(**changes):
        write_status(**changes)
        if changes.get("state") == "paused":
            passed[0] += PAUSE
            run.proceed()

    monkeypatch.setattr(run._writer, "status", status)
    result = run.execute(lambda event: run.pause() if event.get("step") == 5 else None)
    assert passed[0] >= PAUSE
    assert result.state == "finished" and result.seconds < PAUSE
    assert RunReader(run.folder).record()["seconds"] < PAUSE
    assert all(event["t"] < PAUSE for event in RunReader(run.folder).events())
