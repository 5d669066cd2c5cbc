"""The workbench: the app that holds the three places and the training thread."""

from __future__ import annotations

import asyncio
import gc
import importlib
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar, cast

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import AwaitMount

from engine.errors import InputError, RunError
from fnwork.archive import Archive
from fnwork.run_folder import ALIVE_STATES, RunReader
from fnwork.text import harmless
from fnwork.tui import keys, theme
from fnwork.tui.documents import Document
from fnwork.tui.place import PlaceScreen
from fnwork.tui.screens.dialogs import CANCEL, Ask, Choice, Help
from fnwork.tui.screens.edit import EditScreen
from fnwork.tui.training import State, Training

if TYPE_CHECKING:
    from fnwork.run import Run
    from fnwork.spec import Spec


_IDLE_SECONDS = 0.5


def _live() -> Screen:
    from fnwork.tui.screens.live import LiveScreen  # with its plots, not needed for the first screen

    return LiveScreen()


def _runs() -> Screen:
    from fnwork.tui.screens.runs import RunsScreen

    return RunsScreen()


class FnworkApp(App[None]):
    """The workbench over one experiments folder; with `attach`, it opens at that run in Live."""

    TITLE = "fnwork"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["app.tcss", "screens/edit.tcss", "screens/live.tcss"]
    """Those of Edit and Live with it: a screen's own styles make all be read anew, just when training begins."""
    MODES: ClassVar[dict[str, str | Callable[[], Screen]]] = {
        "edit": EditScreen,
        "live": _live,
        "runs": _runs,
    }
    BINDINGS = keys.bindings("everywhere")

    run_folder: reactive[Path | None] = reactive(None)
    """The folder of the run that Live shows."""
    training_state: reactive[State] = reactive("idle")
    """What the training thread of this process does."""
    run_line: reactive[tuple[str, str]] = reactive(("", ""))
    """State and words for the bar on top: the run of this process."""

    def __init__(self, experiments: Path, attach: Path | None = None) -> None:
        super().__init__()
        self.register_theme(theme.DARK)
        self.register_theme(theme.LIGHT)
        self.theme = theme.DARK.name
        self.experiments = experiments
        self.archive = Archive(experiments)
        self.training = Training()
        self.set_reactive(FnworkApp.run_folder, attach)
        self._first_place: keys.Place = "edit" if attach is None else "live"
        self._follow = False
        """Whether Live shall turn to the run that is being started, once its folder is there."""
        self._launched_from: keys.Place = "edit"
        self._quitting = False
        self._in_header: tuple[Path | None, str] = (None, "")
        """The run in Live's header, and its state there."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme.DEFAULT_VARIABLES

    def get_key_display(self, binding: Binding) -> str:
        shown = super().get_key_display(binding)
        return shown.upper() if re.fullmatch(r"f\d+", shown) else shown

    def on_mount(self) -> None:
        self.switch_mode(self._first_place)
        self.call_after_refresh(self._after_first_picture)
        self.set_interval(0.25, self.look_at_training)
        if self._first_place == "edit" and not self.archive.specs.is_dir():
            self.offer_starters()

    def _after_first_picture(self) -> None:
        gc.enable()
        self.set_timer(_IDLE_SECONDS, self._read_ahead)

    @work(thread=True, exit_on_error=False)
    def _read_ahead(self) -> None:
        """Import what Live needs while nothing else goes on; else the first updates of a run wait for it."""
        importlib.import_module("fnwork.tui.screens.live")

    @work
    async def offer_starters(self) -> None:
        """Offer to make the experiments folder with the starter specs in it."""
        where = harmless(self.experiments.absolute())
        choices = [Choice("make", "m", "Make it"), Choice("cancel", "n", "Not now")]
        text = f"{where} has no specs yet. Make it, with the starter specs in it?"
        if await self.push_screen_wait(Ask("No experiments here", text, choices)) != "make":
            return
        try:
            self.archive.make()
        except (OSError, InputError) as error:
            self.notify(str(error), severity="error", markup=False)
        self.edit_screen.look_at_folder()

    # Training

    @property
    def current_run(self) -> Run | None:
        """The run of this process's training thread, while it goes on."""
        return self.training.run if self.training.state != "idle" else None

    def look_at_training(self) -> None:
        """Take over what the training thread has come to; called on a timer."""
        run, state = self.training.run, self.training.state
        if run is not None and self._follow:
            self.run_folder, self._follow = run.folder, False
        self._say_run(run, state)
        if state == "idle" and self.training_state != "idle":
            self._ended()
        self.training_state = state

    def _say_run(self, run: Run | None, state: State) -> None:
        """This process's run; when none goes on here, the one that Live shows, which may be another process's now."""
        if state != "idle" and run is None:
            self.run_line = ("running", self.training.reading or "starting")
            return
        folder = self.run_folder if run is None or state == "idle" else run.folder
        if folder is None:
            self.run_line = ("", "")
            return
        shown = RunReader(folder).state() if run is None or state == "idle" else run.state
        in_header, shown_there = self._in_header
        if shown not in ALIVE_STATES and self.current_mode == "live" and in_header == folder:
            shown = shown_there  # the end is told by both at the same moment
        if state == "stopping" and shown in ALIVE_STATES:
            shown = "stopping"
        self.run_line = (shown, f"{folder.name[16:]} {shown}")

    def say_as_header(self, folder: Path, state: str) -> None:
        """Live's header shows this run in this state now: the bar above it, too."""
        if self._in_header != (folder, state):
            self._in_header = (folder, state)
            self._say_run(self.training.run, self.training.state)

    def _ended(self) -> None:
        error = self.training.error
        if error is None:
            return
        explained = isinstance(error, InputError | RunError)
        text = str(error) if explained else f"{type(error).__name__}: {error}"
        title = "The run failed"
        if self.training.run is None:
            title, self._follow = "The run could not start", False
            self.show_place(self._launched_from)
        self.push_screen(Ask(title, harmless(text, keep_lines=True), [Choice("cancel", "o", "OK")]))

    def launch(self, spec: Spec, text: str, base_folder: Path, label: str = "") -> bool:
        """Train a spec; False if a run goes on.

        `text` is the spec as written, relative paths start at `base_folder`, `label` is how the archive names the spec.
        """

        def make() -> Run:
            from fnwork.run import Run

            return Run.start(self.archive, (spec, text, base_folder), label=label, progress=self.training.tell_reading)

        return self._start(make)

    def resume(self, folder: Path) -> bool:
        """Go on with an archived run; False if a run still goes on."""

        def make() -> Run:
            from fnwork.run import Run

            return Run.resume(self.archive, folder, self.training.tell_reading)

        return self._start(make)

    def _start(self, make: Callable[[], Run]) -> bool:
        if self.training.state != "idle":
            return False
        self._follow = True
        self._launched_from = self.place_screen.PLACE
        self.training.start(make)
        self.training_state = "running"  # even if it is over before anybody looks, its end is seen
        self.show_place("live")
        return True

    # Places

    @property
    def edit_screen(self) -> EditScreen:
        """Edit, which must have been shown at least once."""
        return cast(EditScreen, self.get_screen_stack("edit")[0])

    @property
    def place_screen(self) -> PlaceScreen:
        """The screen that is looked at, below any dialog."""
        return next(screen for screen in reversed(self.screen_stack) if isinstance(screen, PlaceScreen))

    def show_place(self, place: keys.Place) -> None:
        """Go to a place."""
        self.switch_mode(place)

    def switch_mode(self, mode: str) -> AwaitMount:
        """Go to a place; what the one before has notified of stays behind."""
        if mode != self.current_mode:
            self.clear_notifications()
        return super().switch_mode(mode)

    def open_spec_text(self, text: str, suggested_name: str) -> None:
        """Open a text as a new, unsaved spec in Edit."""
        self.run_worker(self._open_spec_text(text, suggested_name))

    async def _open_spec_text(self, text: str, suggested_name: str) -> None:
        await self.switch_mode("edit")
        self.edit_screen.open_text(text, suggested_name)

    def action_place_edit(self) -> None:
        self.show_place("edit")

    def action_place_live(self) -> None:
        self.show_place("live")

    def action_place_runs(self) -> None:
        self.show_place("runs")

    def action_next_place(self) -> None:
        """Edit, Live, Runs in turn."""
        at = keys.PLACES.index(cast(keys.Place, self.current_mode))
        self.show_place(keys.PLACES[(at + 1) % len(keys.PLACES)])

    # Help, commands, quit

    def action_help(self) -> None:
        """All keys of this place."""
        self.clear_notifications()  # they would lie over the keys
        self.push_screen(Help(self.place_screen.PLACE))

    def get_system_commands(self, screen: Screen) -> Iterable[SystemCommand]:
        place = self.place_screen.PLACE
        for owner, actions in ((self.place_screen, keys.of_place(place)), (self, keys.of_place("everywhere"))):
            for action in actions:
                if action.id != "command_palette" and owner.check_action(action.id, ()):
                    run = getattr(owner, f"action_{action.id}")
                    yield SystemCommand(
                        action.command or action.label, f"{action.tooltip} ({action.keys.split(',')[0]})", run
                    )
        yield SystemCommand("Theme", "Choose the colours", self.action_change_theme)
        yield SystemCommand("Screenshot", "Save a picture of the screen (SVG)", self.deliver_screenshot)

    @work
    async def action_quit(self) -> None:
        """Leave; asks about unsaved specs and a run that goes on, and waits until that has ended."""
        if self._quitting:
            await self._leave_at_once()
            return
        self._quitting = True
        if await self._may_leave_specs() and await self._may_leave_run():
            self.exit()
        self._quitting = False

    async def _may_leave_specs(self) -> bool:
        modified: list[Document] = []
        with suppress(KeyError):  # Edit was never shown, as after `fnwork attach`
            modified = self.edit_screen.documents.modified
        if not modified:
            return True
        names = "\n".join(f"● {harmless(document.path.name)}" for document in modified)
        choices = [Choice("save", "s", "Save all"), Choice("discard", "d", "Discard all", destructive=True), CANCEL]
        answer = await self.push_screen_wait(Ask("Save before leaving?", f"Not written yet:\n\n{names}", choices))
        if answer == "save":
            return all([self.edit_screen.save(document) for document in modified])
        return answer == "discard"

    async def _may_leave_run(self) -> bool:
        if self.training.state == "idle":
            return True
        text = (
            "It cannot outlive this window. Stopping saves its state first, so that it can be resumed later.\n\n"
            "`fnwork run SPEC` in a terminal trains without the workbench."
        )
        choices = [Choice("stop", "s", "Stop, save and quit"), Choice("cancel", "k", "Keep watching")]
        if await self.push_screen_wait(Ask("A run is going on", text, choices)) != "stop":
            return False
        self.training.stop()
        self.notify("Saving and stopping the run ...")
        while self.training.state != "idle":
            await asyncio.sleep(0.05)
        return True

    async def _leave_at_once(self) -> None:
        if self.training.state != "stopping":
            return
        text = "What happened since its last checkpoint is lost; the run can be resumed from there."
        choices = [Choice("leave", "l", "Leave at once", destructive=True), Choice("cancel", "w", "Wait for it")]
        if await self.push_screen_wait(Ask("The run has not stopped yet", text, choices)) == "leave":
            self.training.abandon()
            self.exit()

    def on_unmount(self) -> None:
        self.training.finish()
