"""What Live tells, whatever the size of the run and of the screen: small memory, a long reason, a full legend."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import synthetic
from pilots import shown, until
from textual.pilot import Pilot

from fnwork.checklist import SYMPTOMS
from fnwork.tui.app import FnworkApp
from fnwork.tui.screens.live import LiveScreen
from fnwork.tui.widgets.event_log import EventLog

REASON = (
    "10 updates in a row were not finite and had to be skipped: values first stop being finite in the activation of "
    "layer 'stage2.conv1'. Lower train.lr, look at the layer's input, or add a normalisation layer before it"
)
NOT_FINITE = ("✗", "5", "not", "finite")


def attached(experiments: Path, *events: dict[str, object], state: str = "running") -> FnworkApp:
    """The app at a run whose last events are these."""
    folder = synthetic.make_run(experiments / "runs", "small", state="running", epochs=20, done=0.4)
    synthetic.append(folder, *events)
    synthetic.write_status(folder, name="small", state=state, epoch=8, epochs=20)
    return FnworkApp(experiments, attach=folder)


def events_shown(app: FnworkApp) -> str:
    """What is in view of the log of events, its lines joined."""
    region = app.screen.query_one(EventLog).scrollable_content_region
    lines = [line[region.x : region.right] for line in shown(app).splitlines()[region.y : region.bottom]]
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_memory_of_a_small_network_is_told_in_small_units(experiments: Path, size: tuple[int, int]) -> None:
    app = attached(experiments, synthetic.memory(40.0, 3, 512, 24_106 * 2**20))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "53.9 KiB of 23.5 GiB  peak  56.0 KiB" in shown(app))
        assert "0-128 KiB" in shown(app)
        for figure in (" 4.7", " 9.5", " 1.5", "27.5", " 6.0"):
            assert figure in shown(app)


async def test_memory_over_a_run_has_its_unit(experiments: Path) -> None:
    folder = synthetic.make_run(experiments / "runs", "small", state="running", epochs=20, done=0.0)
    for second in range(9):
        synthetic.append(folder, synthetic.memory(float(second), 3, 512))
    app = FnworkApp(experiments, attach=folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("v", "v")
        await until(pilot, lambda: "KiB by category" in shown(app) and " 60 ┤" in shown(app))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)])
async def test_why_a_run_failed_is_read_whole_below_all_that_happened(experiments: Path, size: tuple[int, int]) -> None:
    end = {"kind": "end", "t": 40.0, "reason": "failed", "best": {}, "message": REASON}
    checks = [
        {"kind": "check", "t": 40.0, "symptom": symptom, "state": "firing", "evidence": "so and so many of these"}
        for symptom in ("nonfinite", "training-slow", "overfitting")
    ]
    app = attached(experiments, end, *checks, state="failed")
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "✗ failed" in shown(app))
        await until(pilot, lambda: events_shown(app).endswith(f"failed: {REASON}"), "the reason")
        for symptom in SYMPTOMS:
            assert sum(symptom.title[:20] in line and "fi" in line for line in shown(app).splitlines()), symptom.title


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 20), (20, 20)])
async def test_no_word_of_a_legend_is_cut(experiments: Path, size: tuple[int, int], log: bool) -> None:
    step = {"kind": "step", "t": 40.0, "epoch": 9, "loss": math.nan, "lr": 1e-3}
    app = attached(experiments, *(step | {"step": 337 + number} for number in range(5)))
    async with app.run_test(size=size) as pilot:
        await legend_of(pilot, app)
        await pilot.press(*["l"] * log)
        legend = await legend_of(pilot, app)
        words = legend.split()
        value = next((word for word in words if word.startswith("0.")), "0.0000")
        assert len(value) == len("0.0000")
        assert {*words} <= {"Loss", "log", "━", "•", "train", "nan", "validation", value, *NOT_FINITE, "unsmoothed"}
        assert ({*NOT_FINITE} <= {*words}) == (size[0] > 20)
        assert ("unsmoothed" in words) == (size[0] == 80)


async def legend_of(pilot: Pilot[None], app: FnworkApp) -> str:
    """The first line of the chart of losses."""
    screen = app.screen
    assert isinstance(screen, LiveScreen)
    plot = screen.query_one("#loss")
    await until(pilot, lambda: bool(screen.run) and screen.run.step_now == 341 and plot.content_region.height > 0)
    region = plot.content_region
    return shown(app).splitlines()[region.y][region.x : region.right]
