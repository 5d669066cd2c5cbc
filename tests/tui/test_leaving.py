"""Leaving from a place other than Edit."""

from __future__ import annotations

from pathlib import Path

import synthetic
from pilots import shown, until

from fnwork.tui.app import FnworkApp


async def test_one_leaves_an_attached_run_without_having_seen_edit(experiments: Path) -> None:
    running = synthetic.make_run(experiments / "runs", "fashion-cnn", state="running", epochs=20, done=0.4)
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "fashion-cnn" in shown(app), "the run on the screen")
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not app.is_running, "the end")
    assert app.return_code == 0
