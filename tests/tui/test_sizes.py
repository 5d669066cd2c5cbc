"""Peaks of memory in Runs, in a record and in a comparison: in units that fit, and ordered by size."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import synthetic
import tomli_w
from pilots import sees, shown, until
from textual.pilot import Pilot

from fnwork.tui.app import FnworkApp
from fnwork.tui.screens.runs import RunsScreen
from fnwork.tui.widgets.run_table import COLUMNS

UNITS = {"tiny": 512, "small": 2**20, "large": 2**30}


@pytest.fixture
def peaks(experiments: Path) -> Path:
    """Three runs that took 56.0 KiB, 112 MiB and 112 GiB at most."""
    for number, (name, unit) in enumerate(UNITS.items()):
        folder = synthetic.make_run(experiments / "runs", name, number=number)
        peak = synthetic.memory(0, 3, unit)["peak"]
        status = json.loads((folder / "status.json").read_text(encoding="utf-8"))
        (folder / "status.json").write_text(json.dumps(status | {"peak_bytes": peak["total"]}), encoding="utf-8")
        record = tomllib.loads((folder / "record.toml").read_text(encoding="utf-8"))
        (folder / "record.toml").write_text(tomli_w.dumps(record | {"peak": peak}), encoding="utf-8")
    return experiments


async def table_of(pilot: Pilot[None], app: FnworkApp) -> RunsScreen:
    """Go to Runs, ordered by the peaks; the smallest is on top and chosen."""
    await pilot.press("f4")
    await until(pilot, lambda: app.current_mode == "runs" and "tiny" in shown(app))
    screen = app.screen
    assert isinstance(screen, RunsScreen)
    await pilot.press(*["o"] * ([column.title for column in COLUMNS].index("Peak") - 2))
    await pilot.press(*["O"] * (screen.table.runs[0].name != "tiny"), "home")
    return screen


async def test_peaks_in_the_table_have_fitting_units_and_are_ordered_by_size(peaks: Path) -> None:
    app = FnworkApp(peaks)
    async with app.run_test(size=(160, 50)) as pilot:
        screen = await table_of(pilot, app)
        await sees(pilot, "56.0 KiB", "112 MiB", "112 GiB", "Peak↑")
        assert [run.name for run in screen.table.runs] == ["tiny", "small", "large"]


async def test_a_record_and_a_comparison_tell_small_peaks(peaks: Path) -> None:
    app = FnworkApp(peaks)
    async with app.run_test(size=(160, 50)) as pilot:
        await table_of(pilot, app)
        await pilot.press("enter")
        await sees(pilot, "peak memory", "56.0 KiB", "27.5 KiB")
        await pilot.press("escape", "space", "space", "c")
        await sees(pilot, "peak_bytes", "56.0 KiB", "112 MiB")
