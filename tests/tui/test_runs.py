"""Runs, with real keys: the table, one run's record, and several compared."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic
from pilots import question, shown, until
from textual.pilot import Pilot
from textual.widgets import TabbedContent

from fnwork.archive import summary
from fnwork.files import FileLock
from fnwork.tui.app import FnworkApp
from fnwork.tui.screens.runs import RunsScreen
from fnwork.tui.widgets.curve_plot import CurvePlot
from fnwork.tui.widgets.run_table import COLUMNS


@pytest.fixture
def runs(experiments: Path) -> Path:
    """Four runs: alpha (best), beta (overfits), gamma (stopped), delta (not finite, failed)."""
    folder = experiments / "runs"
    synthetic.make_run(folder, "alpha", number=1, tags=("baseline",), notes="the first one")
    synthetic.make_run(folder, "beta", "overfit", number=2, lr=3e-3)
    synthetic.make_run(folder, "gamma", number=3, state="stopped", done=0.3)
    synthetic.make_run(folder, "delta", "nan", number=4, state="failed")
    return folder


def place(app: FnworkApp) -> RunsScreen:
    """The Runs place."""
    screen = app.get_screen_stack("runs")[0]
    assert isinstance(screen, RunsScreen)
    return screen


async def opened(pilot: Pilot[None], app: FnworkApp, count: int = 4) -> RunsScreen:
    """Go to Runs and wait for the table."""
    await pilot.press("f4")
    await until(pilot, lambda: app.current_mode == "runs" and len(place(app).table.runs) == count, "the table")
    return place(app)


def messages(app: FnworkApp) -> str:
    """All that the app has notified of."""
    return "\n".join(notice.message for notice in app._notifications)


def order(screen: RunsScreen) -> list[str]:
    """The names in the order in which they are shown."""
    return [run.name for run in screen.table.runs]


async def test_the_table_tells_what_matters_at_every_size(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, app)
        for size in ((80, 24), (120, 40), (160, 50)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: "20260528-000004-delta" in shown(app))
            for words in ("✓ finished", "■ stopped", "✗ failed", "12/12", "4 runs", "by started", "alpha", "87.60%"):
                assert words in shown(app), words


async def test_newest_first_and_sorted_by_any_column(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        screen = await opened(pilot, app)
        assert order(screen) == ["delta", "gamma", "beta", "alpha"]
        seen = set()
        for _ in COLUMNS:
            await pilot.press("o")
            seen.add(tuple(order(screen)))
        assert order(screen) == ["delta", "gamma", "beta", "alpha"]
        assert len(seen) >= 4
        await pilot.press("O")
        assert order(screen) == ["alpha", "beta", "gamma", "delta"]


async def test_every_column_is_reached_on_a_small_screen(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, app)
        assert "Test" in shown(app) and "Peak" not in shown(app)
        await pilot.press(*["right"] * 20)
        assert "Notes" in shown(app) and "the first one" in shown(app) and "Started" not in shown(app)
        await pilot.press("left")
        assert "Tags" in shown(app)
        await pilot.press(*["left"] * 20)
        assert "Started" in shown(app) and "Notes" not in shown(app)
        seen = set()
        for _ in COLUMNS:
            await pilot.press("o")
            head = shown(app).splitlines()[1]
            assert "↑" in head or "↓" in head
            seen.add(screen.table.first_column)
        assert len(seen) > 1
        await pilot.resize_terminal(160, 50)
        await until(pilot, lambda: all(column.title in shown(app) for column in COLUMNS))


async def test_why_a_run_failed_is_told(experiments: Path) -> None:
    folder = synthetic.make_run(experiments / "runs", "broken", state="failed", done=0.0)
    synthetic.write_status(folder, name="broken", state="failed", started=1.0, message="the disk is full")
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, app, 1)
        await until(pilot, lambda: "ended by: the disk is full" in shown(app))
        assert "1 run " in shown(app)


async def test_the_keys_that_help_are_in_the_line_of_keys_at_any_width(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, app)
        for width in (80, 60, 120):
            await pilot.resize_terminal(width, 24)
            await until(pilot, lambda: "F1 Help" in shown(app).splitlines()[-1])
        assert all(word in shown(app).splitlines()[-1] for word in ("Watch", "Resume", "Note", "Tags", "Delete"))


async def test_a_click_on_a_title_sorts(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        screen = await opened(pilot, app)
        column = shown(app).splitlines()[1].index("Name")
        await pilot.click(screen.table, offset=(column, 0))
        assert order(screen) == ["alpha", "beta", "delta", "gamma"]


async def test_filter_by_words(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        screen = await opened(pilot, app)
        await pilot.press("slash", *"finished")
        assert "Filter: finished" in shown(app)
        assert "Keep the filter" in shown(app) and "All runs" in shown(app)
        await until(pilot, lambda: order(screen) == ["beta", "alpha"])
        await pilot.press("space", *"base", "enter")
        assert order(screen) == ["alpha"] and "1 of 4 runs" in shown(app)
        assert app.focused is screen.table
        await pilot.press("escape")
        assert len(order(screen)) == 4


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("val_accuracy>80%", ["alpha"]),
        ("state=stopped or tags=baseline", ["gamma", "alpha"]),
        ("train.lr>0.002", ["beta"]),
        ("width=0.25", ["gamma"]),  # words of a note
    ],
)
async def test_filter_by_comparison(experiments: Path, runs: Path, typed: str, names: list[str]) -> None:
    for folder in runs.glob("*-delta"):
        shutil.rmtree(folder)
    app = FnworkApp(experiments)
    app.archive.note("gamma", "with width=0.25")
    async with app.run_test() as pilot:
        screen = await opened(pilot, app, 3)
        await pilot.press("slash", *typed)
        await until(pilot, lambda: order(screen) == names, typed)


async def test_a_filter_that_holds_nothing_says_why(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, app)
        await pilot.press("slash", *"zzz")
        await until(pilot, lambda: "No run holds these words." in shown(app))
        assert "comparison:" not in shown(app)
        await pilot.press(*">")
        await until(pilot, lambda: "As a comparison: column 5: expected a value" in shown(app))
        await pilot.press(*"3")
        await until(pilot, lambda: "fnwork runs --where" in shown(app))


async def test_record_has_result_curves_spec_checklist_and_events(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, app)
        await pilot.press("end", "enter")
        await until(pilot, lambda: "best epoch" in shown(app))
        for words in ("✓ finished", "alpha", "test_accuracy", "the first one", "158,826"):
            assert words in shown(app), words
        for words in ("validation 0.", 'preset = "cnn8"', "memory over or near the budget", "epoch 12"):
            await pilot.press("right")
            await until(pilot, lambda words=words: words in shown(app), words)
        assert app.screen.query_one(TabbedContent).active_pane is not None
        await pilot.press("escape")
        await until(pilot, lambda: "4 runs" in shown(app))


async def test_record_keys(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await pilot.press("end", "enter")
        await until(pilot, lambda: "validation 0." in shown(app))
        await pilot.press("l", "x")
        await until(pilot, lambda: "log " in shown(app) and "update" in shown(app))
        await pilot.press("question_mark")
        await until(pilot, lambda: "Back to the table" in shown(app))
        await pilot.press("escape", "w")
        await until(pilot, lambda: app.current_mode == "live" and "alpha" in shown(app))


async def test_marked_runs_are_compared_by_what_differs(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await pilot.press("space", "c")
        assert isinstance(app.screen, RunsScreen) and "Mark two runs" in messages(app)
        await pilot.press("u", "end", "up", "space", "space")
        assert "2 marked" in shown(app)
        await pilot.press("c")
        await until(pilot, lambda: "A beta" in shown(app) and "B alpha" in shown(app))
        assert "train.lr" in shown(app) and "0.003" in shown(app)
        assert "data.dataset" not in shown(app) and "train.epochs" not in shown(app)
        assert shown(app).index("test_accuracy") < shown(app).index("train.lr")
        plot = app.screen.query_one(CurvePlot)
        await until(pilot, lambda: len(plot.picture.curves) == 2)
        for title in ("Train loss", "Validation accuracy", "Train accuracy", "Validation loss"):
            await pilot.press("v")
            await until(pilot, lambda title=title: plot.picture.title == title)
        await pilot.press("l", "x", "escape")
        assert isinstance(app.screen, RunsScreen)
        await pilot.press("u")
        assert "marked" not in shown(app)


async def test_relaunch_opens_a_copy_of_the_spec(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await opened(pilot, app)
        await pilot.press("up", "e")
        await until(pilot, lambda: app.current_mode == "edit" and 'name = "delta"' in app.edit_screen.editor.text)
        assert "# 6,000 images" in app.edit_screen.editor.text  # as it was written, with its comments


@pytest.mark.parametrize("way", [(), ("enter",), ("w",)])
async def test_the_palette_finds_the_way_to_relaunch(experiments: Path, runs: Path, way: tuple[str, ...]) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(pilot, app)
        await pilot.press("up", *way)
        await until(pilot, lambda: "delta" in shown(app) and "failed" in shown(app))
        await pilot.press("ctrl+p", *"relaunch")
        await until(pilot, lambda: "Edit a copy to relaunch" in shown(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.current_mode == "edit" and 'name = "delta"' in app.edit_screen.editor.text)


async def test_the_copy_finds_the_data_of_a_run_whose_spec_lay_elsewhere(experiments: Path, runs: Path) -> None:
    folder = next(runs.glob("*-delta"))
    spec = '[data]\ndataset = "image-folder"\npath = "tree"  # beside the spec\n[model]\npreset = "mlp"\n'
    (folder / "spec.toml").write_text(spec, encoding="utf-8")
    used = (experiments.parent / "elsewhere" / "tree").as_posix()
    resolved = f"[data]\npath = 'tree'\n[used]\ndata_path = '{used}'\n"
    (folder / "resolved.toml").write_text(resolved, encoding="utf-8")
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await opened(pilot, app)
        await pilot.press("up", "e")
        await until(pilot, lambda: app.current_mode == "edit" and "image-folder" in app.edit_screen.editor.text)
        assert f'path = "{used}"  # beside the spec' in app.edit_screen.editor.text


async def test_delete_asks(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        screen = await opened(pilot, app)
        await pilot.press("d")
        await until(pilot, lambda: question(app) == "Delete this run?")
        await pilot.press("escape")
        assert len(list(runs.iterdir())) == 4
        await pilot.press("down", "d")
        await until(pilot, lambda: question(app) == "Delete this run?")
        await pilot.press("d")
        await until(pilot, lambda: order(screen) == ["delta", "beta", "alpha"])
        assert screen.table.current is not None and screen.table.current.name == "beta"
        assert len([folder for folder in runs.iterdir() if not folder.name.startswith(".")]) == 3


async def test_a_run_that_goes_on_is_not_deleted(experiments: Path) -> None:
    folder = synthetic.make_run(experiments / "runs", "alive", state="running", done=0.5)
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await opened(pilot, app, 1)
        await pilot.press("d")
        await until(pilot, lambda: any("stop it first" in notice.message for notice in app._notifications))
        assert not question(app) and folder.is_dir()


async def test_a_run_that_another_process_uses_is_not_deleted(experiments: Path, runs: Path) -> None:
    lock = FileLock(runs / "20260528-000004-delta" / "lock")
    assert lock.acquire()
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await opened(pilot, app)
        await pilot.press("d")
        await until(pilot, lambda: question(app) == "Delete this run?")
        await pilot.press("d")
        await until(pilot, lambda: any("in use by" in notice.message for notice in app._notifications))
        assert (runs / "20260528-000004-delta" / "events.jsonl").is_file()
    lock.release()


async def test_note_and_tag(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        screen = await opened(pilot, app)
        await pilot.press("n", "left_square_bracket", *"red", "right_square_bracket", "enter")
        await until(pilot, lambda: screen.table.current is not None and screen.table.current.notes == "[red]")
        await until(pilot, lambda: "[red]" in shown(app))
        await pilot.press("t", *"odd,even", "enter")
        await until(pilot, lambda: "#odd #even" in shown(app))
        await pilot.press("t", "end", *["backspace"] * 6, "enter")
        await until(pilot, lambda: "#even" not in shown(app))
        assert summary(runs / "20260528-000004-delta").tags == ("odd",)


async def test_resume_and_watch(experiments: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed: list[str] = []
    monkeypatch.setattr(FnworkApp, "resume", lambda self, folder: resumed.append(folder.name) or True)
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await opened(pilot, app)
        await pilot.press("end", "r", "up", "up", "r")
        assert "nothing left to train" in messages(app)
        assert resumed == ["20260528-000003-gamma"]
        await pilot.press("w")
        await until(pilot, lambda: app.current_mode == "live" and "gamma" in shown(app) and "■ stopped" in shown(app))


async def test_the_table_follows_the_folder_and_the_cursor_stays(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        screen = await opened(pilot, app)
        await pilot.press("down")
        synthetic.make_run(runs, "epsilon", number=9)
        screen._wake.set()
        await until(pilot, lambda: order(screen)[0] == "epsilon")
        assert screen.table.current is not None and screen.table.current.name == "gamma"


async def test_only_rows_in_view_are_drawn(experiments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        folder = experiments / "runs" / f"20260528-{number:06d}-many"
        folder.mkdir()
        synthetic.write_status(folder, name="many", state="finished", started=float(number), epoch=1, epochs=1)
    app = FnworkApp(experiments)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, app, 300)
        drawn: set[str] = set()
        draw = screen.table._run_line
        monkeypatch.setattr(screen.table, "_run_line", lambda run: drawn.add(run.id) or draw(run))
        await pilot.press("end")
        await until(pilot, lambda: "20260528-000000-many" in drawn)
        assert len(drawn) < 60
        assert screen.table.cursor == 299
        await pilot.press("pageup", "pagedown", "home")
        assert screen.table.cursor == 0 and screen.table.scroll_offset.y == 0


async def test_damaged_and_hostile_runs_are_shown_harmlessly(experiments: Path, runs: Path) -> None:
    status = {"state": "finished", "started": 1e300, "epoch": 10**30, "epochs": 1, "results": {"val_accuracy": "x"}}
    odd = synthetic.make_run(runs, "odd", number=8)
    synthetic.write_status(odd, name="[red]x[/]\x1b[2J", notes="[b]\x07", tags=["[/]", "../.."], **status)
    (synthetic.make_run(runs, "torn", number=9) / "status.json").write_bytes(b"{")
    (odd / "record.toml").write_text("[peak]\ntotal = 'x'\n", encoding="utf-8")
    (odd / "spec.toml").write_bytes(b"\xff\x1b[2J[red]")
    app = FnworkApp(experiments)
    async with app.run_test(size=(160, 50)) as pilot:
        screen = await opened(pilot, app, 6)
        assert "[red]x[/]" in shown(app) and "\x1b" not in shown(app)
        for column in range(len(COLUMNS)):
            screen._sort_by(column)
        for name in ("[red]x[/]\x1b[2J", "torn"):
            screen.table.cursor = order(screen).index(name)
            await pilot.press("space", "enter")
            await until(pilot, lambda: app.screen is not screen and "Result" in shown(app))
            app.screen.query_one(TabbedContent).active = "tab-3"
            await pilot.pause()
            assert "\x1b" not in shown(app)
            await pilot.press("escape")
        await pilot.press("c")
        await until(pilot, lambda: "A [red]x[/]" in shown(app) and "B torn" in shown(app))


async def test_resizing_never_crashes(experiments: Path, runs: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await pilot.press("space", "space")
        for keys in ((), ("enter",), ("escape", "c")):
            await pilot.press(*keys)
            for size in ((20, 5), (1, 1)):
                await pilot.resize_terminal(*size)
        await pilot.resize_terminal(120, 40)
        await pilot.press("escape")
        await until(pilot, lambda: "4 runs" in shown(app))


async def test_no_runs_yet(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await opened(pilot, app, 0)
        await until(pilot, lambda: "No run yet" in shown(app))
        await pilot.press("enter", "space", "e", "w", "d", "n", "t", "r", "c", "o", "down")


def test_synthetic_specs_are_right(runs: Path) -> None:
    for folder in runs.iterdir():
        assert tomllib.loads((folder / "spec.toml").read_text(encoding="utf-8"))["name"] in folder.name


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize(
    ("name", "pressed", "words"),
    [
        ("table", (), "20260528-000004-delta"),
        ("record", ("end", "enter"), "test_accuracy"),
        ("comparison", ("end", "space", "up", "space", "c"), "test_accuracy"),
    ],
)
def test_runs_look_as_before(
    experiments: Path,
    runs: Path,
    snapshot_baseline: None,
    snap_compare: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    name: str,
    pressed: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.setattr("fnwork.tui.widgets.run_table._day", lambda started: "05-28 12:00")
    app = FnworkApp(experiments)

    async def ready(pilot: Pilot[None]) -> None:
        await opened(pilot, app)
        await pilot.press(*pressed)
        await until(pilot, lambda: words in shown(app))
        if "comparison" in name:
            await until(pilot, lambda: len(app.screen.query_one(CurvePlot).picture.curves) == 2)

    assert snap_compare(app, terminal_size=size, run_before=ready)
