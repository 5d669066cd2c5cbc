"""The app, with real keys: places, the training thread, leaving, help, commands; and the table that drives the keys."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest
import synthetic
from pilots import FIGURES, FakeRun, edit, question, sees, shown, until
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import Input

from engine.errors import InputError
from fnwork.run_folder import write_status
from fnwork.tui import keys
from fnwork.tui.app import FnworkApp
from fnwork.tui.screens.dialogs import Help
from fnwork.tui.training import Training
from fnwork.tui.widgets.run_header import RunHeader


@pytest.fixture(autouse=True)
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same figures for every right text, without running the engine."""
    monkeypatch.setattr("fnwork.outlook.outlook", lambda text, folder: FIGURES)


@pytest.fixture
def fake_run(experiments: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    """What launch and resume make instead of a real run."""
    folder = experiments / "runs" / "20260101-120000-fashion-cnn"
    folder.mkdir()
    run = FakeRun(folder)
    monkeypatch.setattr("fnwork.run.Run.start", lambda *arguments, **names: run)
    monkeypatch.setattr("fnwork.run.Run.resume", lambda *arguments, **names: run)
    return run


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_places_are_one_key_away(experiments: Path, size: tuple[int, int]) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=size) as pilot:
        for key, place in (("f3", "live"), ("f4", "runs"), ("f2", "edit"), ("2", "live"), ("3", "runs"), ("1", "edit")):
            await pilot.press(key)
            assert app.current_mode == place, key


async def test_garbage_is_collected_once_the_first_picture_is_there(experiments: Path) -> None:
    gc.disable()
    try:
        app = FnworkApp(experiments)
        async with app.run_test() as pilot:
            await until(pilot, gc.isenabled)
    finally:
        gc.enable()


async def test_places_can_be_reached_from_inside_the_text(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        for key, place in (("f3", "live"), ("f4", "runs"), ("ctrl+t", "live")):
            await pilot.press("f2", "escape", "e", "2", key)
            await until(pilot, lambda place=place: app.current_mode == place)
        await pilot.press("ctrl+t", "ctrl+t")
        assert app.current_mode == "edit"
        assert edit(app).editor.text.startswith("222")


async def test_a_place_keeps_its_focus(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "f3", "f2")
        assert app.focused is edit(app).editor


async def test_attach_opens_live(experiments: Path, fake_run: FakeRun) -> None:
    app = FnworkApp(experiments, attach=fake_run.folder)
    async with app.run_test() as pilot:
        await pilot.pause()
        assert app.current_mode == "live"
        assert app.run_folder == fake_run.folder


@pytest.mark.parametrize("key", ["f5", "ctrl+r"])
async def test_one_key_trains(experiments: Path, fake_run: FakeRun, key: str) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: app.run_folder == fake_run.folder)
        assert app.current_mode == "live"
        assert app.current_run is fake_run
        await sees(pilot, "▶ fashion-cnn running")
        await ended(pilot, app, fake_run)
        await sees(pilot, "■ fashion-cnn stopped")


async def ended(pilot: Pilot[None], app: FnworkApp, run: FakeRun) -> None:
    """Let the run end, and the app see it."""
    run.stop_asked.set()
    run.may_end.set()
    await until(pilot, lambda: app.training_state == "idle", "idle")


async def test_the_bar_tells_what_another_process_made_of_the_run(experiments: Path, fake_run: FakeRun) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: app.run_folder == fake_run.folder)
        await ended(pilot, app, fake_run)
        await sees(pilot, "■ fashion-cnn stopped")
        write_status(fake_run.folder, {"state": "finished"})
        await until(pilot, lambda: app.run_line == ("finished", "fashion-cnn finished"))


async def test_bar_and_header_tell_a_state_at_the_same_moment(experiments: Path, fake_run: FakeRun) -> None:
    synthetic.write_status(fake_run.folder, state="running")
    app = FnworkApp(experiments)
    told: list[tuple[str, str]] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        await sees(pilot, "▶ fashion-cnn running", "▶ running")
        header = app.screen.query_one(RunHeader)
        app.screen.watch(app, "run_line", lambda line: told.append((line[0], header._progress.state)), init=False)
        await ended(pilot, app, fake_run)
        await sees(pilot, "■ fashion-cnn stopped", "■ stopped")
        write_status(fake_run.folder, {"state": "finished"})
        await sees(pilot, "✓ fashion-cnn finished")
    assert told == [("stopped", "stopped"), ("finished", "finished")]


async def test_no_second_run_until_the_thread_has_ended(experiments: Path, fake_run: FakeRun) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: app.training_state == "running")
        assert not app.resume(fake_run.folder)
        app.training.stop()
        await until(pilot, lambda: app.training_state == "stopping")
        assert not app.resume(fake_run.folder)
        await pilot.press("f2", "f5")
        await sees(pilot, "A run is going on")
        assert app.current_mode == "edit"
        fake_run.may_end.set()
        await until(pilot, lambda: app.training_state == "idle")
        fake_run.stop_asked.clear()
        assert app.resume(fake_run.folder)
        fake_run.stop_asked.set()


async def test_a_spec_with_errors_is_not_started(experiments: Path, fake_run: FakeRun) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("end", "f5")
        assert app.training_state == "idle"
        assert app.current_mode == "edit"
        assert edit(app).editor.cursor_location == (1, 10)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InputError("no such file: x.csv"), "no such file: x.csv"),
        (KeyboardInterrupt("[red]odd"), "KeyboardInterrupt: [red]odd"),
    ],
)
async def test_what_goes_wrong_in_the_thread_is_shown(
    experiments: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, words: str
) -> None:
    def fails(*arguments: object, **names: object) -> None:
        raise error

    monkeypatch.setattr("fnwork.run.Run.start", fails)
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: question(app) == "The run could not start")
        await sees(pilot, words)
        await pilot.press("escape")
        assert app.training_state == "idle"


async def test_a_run_that_breaks_is_shown(experiments: Path, fake_run: FakeRun) -> None:
    fake_run.error = ZeroDivisionError("deep inside")
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: app.training_state == "running")
        fake_run.stop_asked.set()
        fake_run.may_end.set()
        await until(pilot, lambda: question(app) == "The run failed")
        await sees(pilot, "ZeroDivisionError: deep inside")


async def test_quit_is_immediate_when_nothing_is_lost(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "ctrl+q")
        await until(pilot, lambda: not app.is_running)


async def test_quit_asks_about_unsaved_specs(experiments: Path) -> None:
    path = experiments / "specs/fashion-cnn.toml"
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("e", "number_sign", "f3", "ctrl+q")
        await until(pilot, lambda: question(app) == "Save before leaving?")
        await sees(pilot, "fashion-cnn.toml")
        await pilot.press("escape")
        await until(pilot, lambda: question(app) == "")
        assert app.is_running
        await pilot.press("ctrl+q")
        await until(pilot, lambda: question(app) != "")
        await pilot.press("s")
        await until(pilot, lambda: not app.is_running)
    assert path.read_text().startswith("##")


async def test_quit_stops_the_run_and_waits_for_it(experiments: Path, fake_run: FakeRun) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: app.training_state == "running")
        await pilot.press("ctrl+q")
        await until(pilot, lambda: question(app) == "A run is going on")
        await pilot.press("k")
        await until(pilot, lambda: question(app) == "")
        assert not fake_run.stop_asked.is_set()
        await pilot.press("ctrl+q")
        await until(pilot, lambda: question(app) != "")
        await pilot.press("s")
        await until(pilot, fake_run.stop_asked.is_set)
        await pilot.pause(0.1)
        assert app.is_running
        fake_run.may_end.set()
        await until(pilot, lambda: not app.is_running)
    assert app.training.state == "idle"


async def test_a_run_that_does_not_stop_can_be_left(experiments: Path, fake_run: FakeRun) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: app.training_state == "running")
        await pilot.press("ctrl+q")
        await until(pilot, lambda: question(app) != "")
        await pilot.press("s")
        await until(pilot, fake_run.stop_asked.is_set)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: question(app) == "The run has not stopped yet")
        await pilot.press("l")
        await until(pilot, lambda: not app.is_running)
    fake_run.may_end.set()


async def test_closing_the_app_stops_the_run(experiments: Path, fake_run: FakeRun) -> None:
    fake_run.may_end.set()
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: app.training_state == "running")
    assert fake_run.state == "stopped"


def test_a_stop_before_the_run_is_made_reaches_it(tmp_path: Path) -> None:
    made = threading.Event()
    run = FakeRun(tmp_path)
    run.may_end.set()

    def make() -> FakeRun:
        made.wait()
        return run

    training = Training()
    training.start(make)
    training.stop()
    made.set()
    training.finish()
    assert training.state == "idle"
    assert run.state == "stopped"


async def test_relaunch_opens_a_copy_in_edit(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test() as pilot:
        await pilot.press("f4")
        app.open_spec_text("# a copy\n", "fashion-cnn")
        await until(pilot, lambda: app.current_mode == "edit" and edit(app).editor.text == "# a copy\n")
        assert edit(app).current.path.name == "fashion-cnn-2.toml"
        assert edit(app).current.modified
        app.open_spec_text("# other\n", "../../[x]")
        await until(pilot, lambda: edit(app).editor.text == "# other\n")
        assert edit(app).current.path == experiments / "specs" / "x.toml"


async def test_relaunch_works_in_an_app_that_opened_live(experiments: Path, fake_run: FakeRun) -> None:
    app = FnworkApp(experiments, attach=fake_run.folder)
    async with app.run_test() as pilot:
        app.open_spec_text("# a copy\n", "copy")
        await until(pilot, lambda: app.current_mode == "edit" and edit(app).current is not None)
        assert edit(app).editor.text == "# a copy\n"
        await pilot.press("ctrl+q")
        await until(pilot, lambda: question(app) == "Save before leaving?")


async def test_starters_are_offered_where_no_experiments_are(tmp_path: Path) -> None:
    app = FnworkApp(tmp_path / "experiments")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: question(app) == "No experiments here")
        await pilot.press("m")
        await until(pilot, lambda: question(app) == "")
        await until(pilot, lambda: edit(app).current is not None)
        assert (tmp_path / "experiments/specs").is_dir()


@pytest.mark.parametrize("place", keys.PLACES)
async def test_help_shows_every_key_of_the_place(experiments: Path, place: keys.Place) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(100, 60)) as pilot:
        app.show_place(place)
        await pilot.pause()
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, Help))
        await sees(pilot, "Everywhere", "Leave; asks")
        text = shown(app)
        for action in (*keys.of_place(place), *keys.of_place("everywhere")):
            assert action.label in text
            assert app.get_key_display(keys.each_key(action)[0]) in text
        await pilot.press("escape")
        assert not isinstance(app.screen, Help)


async def test_commands_of_the_palette_come_from_the_table(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.press("e", "ctrl+p")
        assert isinstance(app.screen, CommandPalette)
        app.screen.query_one(Input).value = "duplicate"
        await sees(pilot, "copy of this one")
        await pilot.press("down", "enter")
        await until(pilot, lambda: not isinstance(app.screen, CommandPalette))
        await until(pilot, lambda: edit(app).current.path.name == "fashion-cnn-2.toml")


def test_every_action_of_the_table_has_its_method_and_no_key_twice() -> None:
    from fnwork.tui.screens.compare import CompareScreen
    from fnwork.tui.screens.edit import EditScreen
    from fnwork.tui.screens.live import LiveScreen
    from fnwork.tui.screens.record import RecordScreen
    from fnwork.tui.screens.runs import RunsScreen

    owners: dict[str, type] = {
        "everywhere": FnworkApp,
        "edit": EditScreen,
        "live": LiveScreen,
        "runs": RunsScreen,
        "record": RecordScreen,
        "compare": CompareScreen,
    }
    for action in keys.ACTIONS:
        assert callable(getattr(owners[action.place], f"action_{action.id}", None)), action.id
    everywhere = {key for action in keys.of_place("everywhere") for key in action.keys.split(",")}
    for place in owners:
        taken = [key for action in keys.of_place(place) for key in action.keys.split(",")]
        assert len(taken) == len(set(taken))
        assert place == "everywhere" or not everywhere & set(taken)


async def test_without_colours_states_are_told_by_marks(
    experiments: Path, fake_run: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        assert app.no_color
        await sees(pilot, "A activations")
        await pilot.press("e", "x")
        await sees(pilot, "● fashion-cnn")
        await pilot.press("f5")
        await until(pilot, lambda: len(edit(app).editor.problems) > 0)
        assert "✗" in edit(app).editor.render_line(0).text


@pytest.mark.parametrize("name", ["fnwork-light", "textual-dark", "ansi-dark", "ansi-light", "nord"])
async def test_every_theme_has_the_colours_that_are_used(experiments: Path, name: str) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(120, 40)) as pilot:
        app.theme = name
        await pilot.press("down", "down", "question_mark", "escape")
        await until(pilot, lambda: len(edit(app).editor.problems) == 3)
        await sees(pilot, "wrong")


async def test_a_click_on_the_line_of_keys_presses_the_key(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(100, 40)) as pilot:
        line = shown(app).splitlines()[-1]
        await pilot.click(offset=(line.index("Help"), 39))
        await until(pilot, lambda: isinstance(app.screen, Help))
