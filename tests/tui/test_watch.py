"""A run as it is watched, without a screen."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import synthetic

from fnwork.checklist import Checklist
from fnwork.curves import Smoother
from fnwork.run_folder import RunReader
from fnwork.tui import pictures, watch
from fnwork.tui.watch import RunWatch
from fnwork.tui.widgets.plot_axis import Axis


def looked(folder: Path) -> RunWatch:
    """A watch that knows all that is in the folder."""
    run = RunWatch(folder)
    while run.look():
        pass
    return run


def test_a_long_run_is_read_in_steps_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = synthetic.make_run(tmp_path, "long", "nan", state="running", done=0.9)
    monkeypatch.setattr(watch, "_BLOCK", 8 * 1024)
    monkeypatch.setattr(watch, "_READ_SECONDS", 0.0)
    run = RunWatch(folder)
    known = []
    while run.look() or run.is_behind:
        known.append(len(run.curves.steps))
    events = RunReader(folder).events()
    losses = [event["loss"] for event in events if event["kind"] == "step"]
    assert len(known) > 5 and 0 < known[0] < len(losses)
    np.testing.assert_array_equal(run.curves.steps["loss"], losses)
    smoother = Smoother(42 / 5)
    means = [smoother.add(loss) if math.isfinite(loss) else math.nan for loss in losses]
    np.testing.assert_allclose(run.smooth_loss["loss"], means)
    checklist = Checklist()
    for event in events:
        checklist.update(event)
    assert [check.state for check in run.checklist()] == [finding.state for finding in checklist.findings()]


def test_until_all_is_judged_the_run_itself_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = synthetic.make_run(tmp_path, "long", state="running", done=0.5)
    check = {"kind": "check", "t": 30.0, "symptom": "training-slow", "state": "firing", "evidence": "so it said"}
    synthetic.append(folder, check)
    monkeypatch.setattr(watch, "_JUDGE_SECONDS", 0.0)
    run = RunWatch(folder)
    run.look()
    assert "so it said" in [check.evidence for check in run.checklist()]
    monkeypatch.setattr(watch, "_JUDGE_SECONDS", 10.0)
    run.look()
    assert "so it said" not in [check.evidence for check in run.checklist()]


def test_time_left_follows_the_pace_since_a_resume(tmp_path: Path) -> None:
    folder = synthetic.make_run(tmp_path, "resumed", state="running", epochs=20, done=0.5)
    assert looked(folder).progress().left == pytest.approx(420 * 0.09, rel=0.01)
    at = 420 * 0.09
    synthetic.append(folder, {"kind": "resume", "t": at, "epoch": 10, "step": 420})
    for number in range(1, 11):
        synthetic.append(folder, {"kind": "step", "t": at + 2.0 * number, "epoch": 11, "step": 420 + number, "loss": 1})
    assert looked(folder).progress().left == pytest.approx(410 * 2.0)


def test_the_end_is_known_as_soon_as_the_state_is_written(tmp_path: Path) -> None:
    folder = synthetic.make_run(tmp_path, "a", state="running", done=0.5)
    watch = RunWatch(folder)
    watch.look()
    synthetic.append(folder, {"kind": "end", "t": 99.0, "reason": "finished", "best": {}, "message": ""})
    watch.look()
    assert watch.state == "running"
    synthetic.write_status(folder, name="a", state="finished")
    watch.look()
    assert watch.state == "finished"


def test_why_it_ended_is_the_last_thing_that_happened(tmp_path: Path) -> None:
    folder = synthetic.make_run(tmp_path, "a", "nan", state="failed", done=0.6)
    check = {"kind": "check", "t": 30.0, "symptom": "nonfinite", "state": "firing", "evidence": "5 of 9"}
    synthetic.append(folder, check, check | {"evidence": "9 of 9"})
    assert [event["kind"] for event in looked(folder).log[-3:]] == ["check", "check", "end"]
    assert [event.get("evidence") for event in looked(folder).log[-3:-1]] == ["5 of 9", "9 of 9"]
    synthetic.append(folder, {"kind": "resume", "t": 99.0, "step": 9}, {"kind": "warning", "t": 99.0, "message": "x"})
    assert [event["kind"] for event in looked(folder).log[-3:]] == ["end", "resume", "warning"]


def test_nothing_is_promised_after_the_end(tmp_path: Path) -> None:
    folder = synthetic.make_run(tmp_path, "short", state="stopped", done=0.01)
    run = looked(folder)
    assert {check.state for check in run.checklist()} & {"cannot tell yet"} == set()
    assert "cannot tell" in {check.state for check in run.checklist()}
    assert pictures.metric_picture(run, "epoch", Axis(0, 1)).empty == "no epoch was completed"
    goes_on = looked(synthetic.make_run(tmp_path, "begun", state="running", done=0.01))
    assert pictures.metric_picture(goes_on, "epoch", Axis(0, 1)).empty == "comes with the first epoch's end"
    assert "cannot tell yet" in {check.state for check in goes_on.checklist()}
