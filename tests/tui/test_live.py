"""Live, with real keys: a run that another process trains, or this one, read from its folder alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic
from pilots import question, shown, until
from textual.pilot import Pilot

from fnwork.checklist import SYMPTOMS
from fnwork.tui.app import FnworkApp
from fnwork.tui.screens.live import LiveScreen
from fnwork.tui.widgets.checklist_view import ChecklistView
from fnwork.tui.widgets.curve_plot import CurvePlot
from fnwork.tui.widgets.event_log import EventLog


@pytest.fixture
def running(experiments: Path) -> Path:
    """A run that goes on, owned by this process but not trained by the app."""
    return synthetic.make_run(experiments / "runs", "fashion-cnn", state="running", epochs=20, done=0.4)


def live(app: FnworkApp) -> LiveScreen:
    """The Live place."""
    screen = app.get_screen_stack("live")[0]
    assert isinstance(screen, LiveScreen)
    return screen


async def watched(pilot: Pilot[None], app: FnworkApp) -> LiveScreen:
    """Wait until the run is on the screen."""
    await until(pilot, lambda: "fashion-cnn" in shown(app) and "update" in shown(app), "the run on the screen")
    return live(app)


def requested(folder: Path) -> str:
    """What the run has been asked for through its folder."""
    path = folder / "request"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def chart(app: FnworkApp, name: str) -> CurvePlot:
    """One of the charts."""
    return live(app).query_one(f"#{name}", CurvePlot)


async def test_the_essentials_are_on_the_screen_at_every_size(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(80, 24)) as pilot:
        await watched(pilot, app)
        for size in ((80, 24), (120, 40), (160, 50)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: len(shown(app).splitlines()) == size[1])
            text = shown(app)
            for words in ("▶ running", "8/20", "336/840", "samples/s", "40%", "left", "of 1,024 MiB", "activations"):
                assert words in text, words
            for words in ("Loss", "train 0.", "validation 0.", "Checklist", "loss does not fall", "Events", "epoch"):
                assert words in text, words


async def test_new_events_are_shown_as_they_are_written(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        await watched(pilot, app)
        step = {"kind": "step", "t": 31.0, "epoch": 9, "step": 337, "loss": 0.5, "lr": 1e-3, "samples_per_s": 1.0}
        synthetic.append(running, step, {"kind": "warning", "t": 31.1, "message": "something odd"})
        await until(pilot, lambda: "337/840" in shown(app) and "something odd" in shown(app))


async def test_not_finite_losses_are_marked_and_named(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(120, 40)) as pilot:
        await watched(pilot, app)
        step = {"kind": "step", "t": 31.0, "epoch": 9, "step": 337, "loss": math.nan, "lr": 1e-3}
        place = {
            "kind": "nonfinite",
            "t": 31.0,
            "where": "gradient",
            "layer": "conv2",
            "action": "skipped",
            "step": 337,
        }
        synthetic.append(running, step, place)
        await until(pilot, lambda: "✗ 1 not finite" in shown(app))
        assert "gradient not finite in conv2" in shown(app)


async def test_a_run_of_another_process_is_asked_through_its_folder(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        await watched(pilot, app)
        await pilot.press("p")
        assert requested(running) == "pause"
        await until(pilot, lambda: "pausing" in shown(app))
        change_state(running, "paused")
        await until(pilot, lambda: "‖ paused" in shown(app))
        await pilot.press("space")
        assert requested(running) == "continue"
        await pilot.press("s")
        assert requested(running) == "stop"
        await until(pilot, lambda: "stopping" in shown(app))
        synthetic.append(running, {"kind": "end", "t": 40.0, "reason": "stopped", "best": {}, "message": ""})
        change_state(running, "stopped")
        await until(pilot, lambda: "■ stopped" in shown(app))
        await until(pilot, lambda: "Pause" not in shown(app))


async def test_the_own_run_is_asked_directly(experiments: Path, running: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Own:
        folder = running

        def pause(self) -> None:
            asked.append("pause")

        def proceed(self) -> None:
            asked.append("continue")

    app = FnworkApp(experiments, attach=running)
    monkeypatch.setattr(FnworkApp, "current_run", Own())
    monkeypatch.setattr(app.training, "stop", lambda: asked.append("stop"))
    async with app.run_test() as pilot:
        await watched(pilot, app)
        await pilot.press("p", "p", "s")
        assert asked == ["pause", "continue", "stop"] and not requested(running)


async def test_a_run_whose_process_is_gone_is_interrupted_and_can_be_resumed(
    experiments: Path, running: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = json.loads((running / "status.json").read_text(encoding="utf-8"))
    (running / "status.json").write_text(json.dumps(status | {"process_started": 1.0}), encoding="utf-8")
    (running / "last.safetensors").write_bytes(b"whole")
    resumed: list[Path] = []
    monkeypatch.setattr(FnworkApp, "resume", lambda self, folder: resumed.append(folder) or True)
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        await watched(pilot, app)
        await until(pilot, lambda: "! interrupted" in shown(app))
        await pilot.press("s", "p", "r")
        assert resumed == [running] and not requested(running)


async def test_what_a_resume_takes_back_is_not_shown(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        screen = await watched(pilot, app)
        synthetic.append(running, {"kind": "resume", "t": 20.0, "epoch": 6, "step": 222})
        await until(pilot, lambda: "222/840" in shown(app))
        assert screen.run is not None and screen.run.curves.steps["t"].max() <= 20.0


async def test_axis_keys(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        await watched(pilot, app)
        await pilot.press("l")
        await until(pilot, lambda: "Loss log" in shown(app))
        await pilot.press("x")
        await until(pilot, lambda: chart(app, "loss").picture.x_unit == "update")
        await pilot.press("x")
        await until(pilot, lambda: chart(app, "loss").picture.x_unit == "time")
        whole = chart(app, "loss").picture.x_axis
        await pilot.press("plus")
        await until(pilot, lambda: chart(app, "loss").picture.x_axis.high < whole.high)
        zoomed = chart(app, "loss").picture.x_axis
        assert zoomed.high - zoomed.low == pytest.approx((whole.high - whole.low) / 2)
        assert chart(app, "metric").picture.x_axis == zoomed
        await pilot.press("left")
        await until(pilot, lambda: chart(app, "loss").picture.x_axis.low < zoomed.low)
        await pilot.press("right", "minus")
        await until(pilot, lambda: chart(app, "loss").picture.x_axis == whole)
        await pilot.press("plus", "plus", "0")
        await until(pilot, lambda: chart(app, "loss").picture.x_axis == whole)


async def test_every_chart_is_reached_on_a_small_screen(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(80, 24)) as pilot:
        await watched(pilot, app)
        for title in ("Accuracy", "MiB by category", "Learning rate", "Loss"):
            await pilot.press("v")
            await until(pilot, lambda title=title: title in shown(app))


async def test_the_chosen_entry_of_the_checklist_is_explained(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(80, 24)) as pilot:
        await watched(pilot, app)
        assert "Checklist (c; Enter explains)" in shown(app)
        await pilot.press("c", "down", "enter")
        assert question(app) == "loss is NaN or inf"
        assert "likely causes" in shown(app) and "advice" in shown(app)
        await pilot.press("escape")
        assert not question(app)


async def test_what_was_chosen_in_the_checklist_is_forgotten_with_the_run(experiments: Path, running: Path) -> None:
    other = synthetic.make_run(experiments / "runs", "other", "nan", state="failed", number=9)
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await watched(pilot, app)
        checklist = screen.query_one(ChecklistView)
        await until(pilot, lambda: checklist.chosen is not None)
        await pilot.press("c", "end")
        assert checklist.chosen is not None and checklist.chosen.state not in ("watch", "firing")
        app.run_folder = other
        await until(pilot, lambda: checklist.chosen is not None and checklist.chosen.state == "firing")


@pytest.mark.parametrize("kind", ["healthy", "nan"])
async def test_nothing_moves_while_one_goes_through_the_checklist(experiments: Path, kind: str) -> None:
    folder = synthetic.make_run(experiments / "runs", "fashion-cnn", kind, state="running", epochs=20, done=0.6)
    app = FnworkApp(experiments, attach=folder)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await watched(pilot, app)
        await still(pilot, app)
        events, checklist = screen.query_one(EventLog), screen.query_one(ChecklistView)
        await pilot.press("c", "home")
        before, chosen = events.region, set()
        for _ in SYMPTOMS:
            assert checklist.chosen is not None and checklist.chosen.evidence.split()[0] in shown(app)
            assert events.region == before, checklist.chosen.title
            chosen.add(checklist.chosen.title)
            await pilot.press("down")
        assert len(chosen) == len(SYMPTOMS)


async def test_a_copy_of_the_spec_is_opened_in_edit(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        await watched(pilot, app)
        await pilot.press("e")
        await until(pilot, lambda: app.current_mode == "edit" and 'name = "fashion-cnn' in shown(app))


async def test_the_reason_of_a_failure_is_in_the_header(experiments: Path, running: Path) -> None:
    reason = "the loss is not finite in update 337, which lowering train.lr may help; " * 2
    synthetic.append(running, {"kind": "end", "t": 40.0, "reason": "failed", "best": {}, "message": reason})
    change_state(running, "failed")
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "✗ failed" in shown(app))
        assert shown(app).splitlines()[2].startswith(" the loss is not finite in update 337")


async def test_what_came_out_is_whole_on_a_small_screen(experiments: Path, running: Path) -> None:
    best = {"epoch": 17, "val_accuracy": 0.9023}
    end = {"kind": "end", "t": 40.0, "reason": "early-stopped", "best": best, "test_accuracy": 0.8967}
    synthetic.append(running, end | {"message": "val_loss no better for 5 epochs; the best was in epoch 17"})
    change_state(running, "early-stopped")
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "✓ early-stopped" in shown(app))
        result = shown(app).splitlines()[2]
        assert "test accuracy 89.67%   validation accuracy 90.23% in epoch 17" in result


async def test_the_header_keeps_to_its_lines_at_any_width(experiments: Path, running: Path) -> None:
    synthetic.append(running, {"kind": "end", "t": 40.0, "reason": "early-stopped", "best": {}, "message": ""})
    change_state(running, "early-stopped")
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "✓ early-stopped  fashion-cnn" in shown(app))
        await pilot.resize_terminal(60, 20)
        await until(pilot, lambda: "8/20" in shown(app).splitlines()[1])
        lines = shown(app).splitlines()
        assert "early-stopped" in lines[1] and "40%" in lines[1] and "update" in lines[2]
        assert "Memory" in lines[3] and "O optimizer" in lines[4] and "D data" in lines[5]


async def test_each_chart_key_changes_what_is_shown_where_two_fit(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(120, 40)) as pilot:
        await watched(pilot, app)
        for title in ("MiB by category", "Learning rate", "Accuracy"):
            await pilot.press("v")
            await until(pilot, lambda title=title: title in shown(app))
            assert "Loss" in shown(app)


async def test_a_folded_event_is_indented_from_the_first_moment(experiments: Path, running: Path) -> None:
    for number in range(30):
        text = f"warning number {number} that is long enough to be folded in any pane of this width, and once more"
        synthetic.append(running, {"kind": "warning", "t": 31.0, "message": text})
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await watched(pilot, app)
        await until(pilot, lambda: "warning number 29" in shown(app))
        region = screen.query_one(EventLog).content_region
        lines = [line[region.x : region.right] for line in shown(app).splitlines()[region.y : region.bottom]]
        assert all(line.startswith((" " * 10, "   0:")) for line in lines), lines


async def test_a_run_started_elsewhere_is_found(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("f3")
        await until(pilot, lambda: "No run is being watched" in shown(app))
        folder = synthetic.make_run(experiments / "runs", "fashion-cnn", state="running", done=0.5)
        await watched(pilot, app)
        assert app.run_folder == folder


async def test_hostile_text_is_shown_harmlessly(experiments: Path, running: Path) -> None:
    change_state(running, "running", name="[red]x[/red]\x1b[2J")
    synthetic.append(running, {"kind": "warning", "t": 31.0, "message": "[bold]a\x1b]0;title\x07 ../../b"})
    synthetic.append(running, {"kind": "\x1b[31m", "t": 31.0, "[link]": "[/]"})
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "[bold]a" in shown(app))
        assert "[red]x[/red]" in shown(app)
        assert "\x1b" not in shown(app) and "\x07" not in shown(app)


async def test_a_damaged_folder_does_no_harm(experiments: Path, running: Path) -> None:
    (running / "events.jsonl").write_bytes(b'{"kind":"step","t":1}\n\xff\xfe\n{"kind":"memory","t":2,"bytes":7}\n{"kin')
    (running / "status.json").write_bytes(b"{")
    (running / "resolved.toml").write_bytes(b"= =")
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "interrupted" in shown(app))
        await pilot.press("v", "v", "v", "l", "x", "plus", "0")


async def test_resizing_never_crashes(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test(size=(120, 40)) as pilot:
        await watched(pilot, app)
        for size in ((20, 5), (80, 24), (1, 1), (160, 50)):
            await pilot.resize_terminal(*size)
        await until(pilot, lambda: "▶ running" in shown(app))


async def test_without_colours_everything_is_still_told(
    experiments: Path, running: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        await watched(pilot, app)
        for words in ("▶ running", "A activations", "━ train", "• validation", "✓ loss", "WGOA▒▒▒", "S▓D"):
            await until(pilot, lambda words=words: words in shown(app))


async def test_only_the_place_that_is_looked_at_is_drawn(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        screen = await watched(pilot, app)
        await pilot.press("f4")
        await until(pilot, lambda: app.current_mode == "runs")
        picture = screen.query_one("#loss", CurvePlot).picture
        synthetic.append(running, {"kind": "step", "t": 31.0, "epoch": 9, "step": 337, "loss": 0.5})
        await pilot.pause(0.5)
        assert screen.query_one("#loss", CurvePlot).picture is picture
        await pilot.press("f3")
        await until(pilot, lambda: "337/840" in shown(app))


async def test_the_log_follows_its_end_unless_one_looks_at_something_earlier(experiments: Path, running: Path) -> None:
    app = FnworkApp(experiments, attach=running)
    async with app.run_test() as pilot:
        screen = await watched(pilot, app)
        log = screen.query_one(EventLog)
        await until(pilot, lambda: log.scroll_offset.y == log.max_scroll_y > 0)
        height = log.size.height
        log.styles.max_height = height // 2
        await until(pilot, lambda: log.size.height < height and log.scroll_offset.y == log.max_scroll_y)
        log.scroll_home(animate=False)
        await pilot.pause()
        synthetic.append(running, {"kind": "warning", "t": 31.0, "message": "later"})
        await until(pilot, lambda: log.option_count and "later" in str(log.get_option_at_index(-1).prompt))
        assert log.scroll_offset.y == 0


def change_state(folder: Path, state: str, **changes: object) -> None:
    """Change a run's state as its owner does."""
    status = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    (folder / "status.json").write_text(json.dumps(status | {"state": state} | changes), encoding="utf-8")


async def still(pilot: Pilot[None], app: FnworkApp) -> None:
    """Wait until all of the run is read and judged, and has been drawn, also where the machine is busy."""
    screen = app.screen
    assert isinstance(screen, LiveScreen)
    await until(pilot, lambda: screen.run is not None and screen.run.state and not screen.run.is_behind)
    screen.look_now()
    await until(pilot, lambda: not screen.is_due)
    await pilot.pause(0.1)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("kind", ["healthy", "nan"])
def test_live_looks_as_before(
    experiments: Path,
    snapshot_baseline: None,
    snap_compare: Callable[..., bool],
    size: tuple[int, int],
    kind: str,
) -> None:
    folder = synthetic.make_run(experiments / "runs", "fashion-cnn", kind, state="running", epochs=20, done=0.6)
    app = FnworkApp(experiments, attach=folder)

    async def ready(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "504/840" in shown(app))
        await still(pilot, app)

    assert snap_compare(app, terminal_size=size, run_before=ready)
