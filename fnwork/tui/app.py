"""The workbench: the app that holds the three places and the training thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.reactive import reactive
from textual.screen import Screen

from fnwork.archive import Archive
from fnwork.tui import keys, theme
from fnwork.tui.screens.edit import EditScreen
from fnwork.tui.screens.live import LiveScreen
from fnwork.tui.screens.runs import RunsScreen
from fnwork.tui.training import State, Training

if TYPE_CHECKING:
    from fnwork.run import Run
    from fnwork.spec import Spec


class FnworkApp(App[None]):
    """The workbench over one experiments folder; with `attach`, it opens at that run in Live."""

    TITLE = "fnwork"
    CSS_PATH = "app.tcss"
    MODES: ClassVar[dict[str, str | Callable[[], Screen]]] = {"edit": EditScreen, "live": LiveScreen, "runs": RunsScreen}
    BINDINGS = keys.bindings("everywhere")

    run_folder: reactive[Path | None] = reactive(None)
    """The folder of the run that Live shows."""
    training_state: reactive[State] = reactive("idle")
    """What the training thread of this process does."""

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

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme.DEFAULT_VARIABLES

    def on_mount(self) -> None:
        self.switch_mode(self._first_place)
        self.set_interval(0.25, self.look_at_training)

    @property
    def current_run(self) -> Run | None:
        """The run of this process's training thread, while it goes on."""
        return self.training.run if self.training.state != "idle" else None

    def look_at_training(self) -> None:
        """Take over what the training thread has come to; called on a timer."""
        run = self.current_run
        if run is not None and self.training_state == "idle":
            self.run_folder = run.folder
        self.training_state = self.training.state

    def launch(self, spec: Spec, text: str, base_folder: Path) -> bool:
        """Train a spec (and its text as written; relative paths start at `base_folder`); False if a run still goes on."""

        def make() -> Run:
            from fnwork.run import Run

            return Run.start(self.archive, (spec, text, base_folder))

        return self._start(make)

    def resume(self, folder: Path) -> bool:
        """Go on with an archived run; False if a run still goes on."""

        def make() -> Run:
            from fnwork.run import Run

            return Run.resume(self.archive, folder)

        return self._start(make)

    def _start(self, make: Callable[[], Run]) -> bool:
        if self.training.state != "idle":
            return False
        self.training.start(make)
        self.show_place("live")
        return True

    def show_place(self, place: keys.Place) -> None:
        """Go to a place."""
        self.switch_mode(place)

    def open_spec_text(self, text: str, suggested_name: str) -> None:
        """Open a text as a new, unsaved spec in Edit."""
        self.show_place("edit")

    def action_place_edit(self) -> None:
        self.show_place("edit")

    def action_place_live(self) -> None:
        self.show_place("live")

    def action_place_runs(self) -> None:
        self.show_place("runs")
