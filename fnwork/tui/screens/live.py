"""Live: a run as it goes on, read from its folder, whichever process trains it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from textual import on
from textual.containers import Container
from textual.events import Resize
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import OptionList, Static

from engine.errors import InputError
from fnwork.run_folder import request
from fnwork.text import harmless
from fnwork.tui import keys, pictures
from fnwork.tui.pictures import OVER, Over, Zoom
from fnwork.tui.place import PlaceScreen
from fnwork.tui.relaunch import open_copy
from fnwork.tui.screens.dialogs import Ask, Choice
from fnwork.tui.theme import colour
from fnwork.tui.watch import RunWatch
from fnwork.tui.widgets.checklist_view import ChecklistView, details
from fnwork.tui.widgets.curve_plot import CurvePlot
from fnwork.tui.widgets.event_log import EventLog
from fnwork.tui.widgets.memory_bar import MemoryBar
from fnwork.tui.widgets.memory_history import MemoryHistory
from fnwork.tui.widgets.plot_axis import Axis
from fnwork.tui.widgets.run_header import RunHeader

TICK = 0.25
"""Seconds between two looks into the run's folder."""

SLOW_SECONDS = 1.0
"""Seconds between two drawings of all but the figures on top, of a run that goes on: drawing takes time from it."""

CHARTS = ("loss", "metric", "memory-history", "rate")
_NOTHING = """\
No run is being watched.

F2  Edit: choose a spec and train it
F4  Runs: choose a run and watch it

A run that another window or `fnwork run` has started here is shown by itself."""
_ASKED = {"pause": "pausing", "continue": "continuing", "stop": "stopping"}


class LiveScreen(PlaceScreen):
    """The place where a run is watched."""

    PLACE = "live"
    BINDINGS = keys.bindings("live")
    chart: reactive[str] = reactive("loss")
    """The chart that is shown where there is not room for all."""
    over: reactive[Over] = reactive("epoch")

    def __init__(self) -> None:
        super().__init__()
        self.run: RunWatch | None = None
        self._zoom = Zoom()
        self._wake = asyncio.Event()
        self.is_due = True
        """Whether everything is to be drawn at the next look, changed or not."""
        self._stale = True
        """Whether something has changed since all was drawn."""
        self._drawn_at = -math.inf
        self._may: tuple[object, ...] = ()
        self._asked = ""
        """What the run has been asked for and has not done yet."""

    def compose_place(self) -> Iterable[Widget]:
        yield RunHeader()
        yield MemoryBar()
        yield Static(_NOTHING, id="nothing", markup=False)
        with Container(id="panes"):
            with Container(id="charts"):
                yield CurvePlot("Loss", id="loss", classes="chart")
                yield CurvePlot("Accuracy", id="metric", classes="chart")
                yield MemoryHistory(id="memory-history", classes="chart")
                yield CurvePlot("Learning rate", id="rate", classes="chart")
            with Container(id="side"):
                checklist = ChecklistView(id="checklist")
                checklist.border_title = "Checklist (c; Enter explains)"
                yield checklist.add_class("pane")
                events = EventLog(id="events")
                events.border_title = "Events"
                yield events.add_class("pane")

    def on_mount(self) -> None:
        self.watch(self.app, "run_folder", self.turn_to)
        self.run_worker(self._follow(), group="follow", exit_on_error=True)

    def on_resize(self, event: Resize) -> None:
        width, height = event.size
        self.set_class(width >= 110 and height >= 34, "-framed")
        self.set_class(width >= 150 and height >= 44, "-large")

    def on_screen_resume(self) -> None:
        self.look_now()

    def turn_to(self, folder: Path | None) -> None:
        """Watch another run, or none."""
        self.run = RunWatch(folder) if folder is not None else None
        self._zoom.reset()
        self._asked = ""
        self.query_one(ChecklistView).forget()
        self._show_whether_nothing()
        self.look_now()

    def _show_whether_nothing(self) -> None:
        """Words in place of the panes while there is no run; one that begins has them at once, unless it reads long."""
        training = self.fnwork.training
        begins = training.state == "running" and not training.reading
        self.set_class(self.run is None and not begins, "-nothing")

    def look_now(self) -> None:
        """Look into the folder and draw, without waiting for the next tick."""
        self.is_due = True
        self._wake.set()

    async def _follow(self) -> None:
        while True:
            if self._has_widgets and self in self.app.screen_stack and await self._look():  # below a dialog too
                await asyncio.sleep(0.02)  # keys first
                continue
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), TICK)
            except TimeoutError:
                continue

    @property
    def _has_widgets(self) -> bool:
        """False while the screen is being made, and when the app closes."""
        return bool(self.query(RunHeader))

    async def _look(self) -> bool:
        """Take over what is new; whether there is more that can be read at once."""
        run = self.run
        if run is None:
            training = self.fnwork.training
            beginning = f"The run begins.\n\n{harmless(training.reading)}" if training.state == "running" else _NOTHING
            self.query_one("#nothing", Static).update(beginning)
            self._show_whether_nothing()
            alive = await asyncio.to_thread(self._newest_alive)
            if alive is not None and self.fnwork.run_folder is None:
                self.fnwork.run_folder = alive
            return False
        changed = await asyncio.to_thread(run.look)
        if run is self.run and self._has_widgets:
            self._stale |= changed
            waited = time.monotonic() - self._drawn_at >= SLOW_SECONDS
            everything = self.is_due or (self._stale and (waited or run.is_behind or run.is_over))
            if changed or everything:
                self._show(run, everything)
        return run.is_behind

    def _newest_alive(self) -> Path | None:
        try:
            runs = self.fnwork.archive.list()
        except InputError:
            return None
        return next((run.path for run in reversed(runs) if run.state in ("running", "paused")), None)

    def _show(self, run: RunWatch, everything: bool) -> None:
        with self.app.batch_update():
            self._show_header(run)
            self.query_one(MemoryBar).show(run.memory)
            if everything:
                self._show_charts(run)
                self.query_one(EventLog).show(run.log)
                if not run.is_behind:  # what is judged of a part of the events is soon otherwise
                    self.query_one(ChecklistView).show(run.checklist())
                self.is_due, self._stale, self._drawn_at = False, False, time.monotonic()

    def _show_charts(self, run: RunWatch) -> None:
        axis = self._zoom.axis(pictures.x_range(run, self.over))
        self.query_one("#loss", CurvePlot).show(pictures.loss_picture(run, self.over, axis))
        self.query_one("#metric", CurvePlot).show(pictures.metric_picture(run, self.over, axis))
        self.query_one("#rate", CurvePlot).show(pictures.rate_picture(run, self.over, axis))
        self.query_one(MemoryHistory).show(*pictures.memory_picture(run, self.over, axis))

    def _show_header(self, run: RunWatch) -> None:
        progress = run.progress()
        reached = {"pause": "paused", "continue": "running"}.get(self._asked)
        if progress.state == reached or run.is_over:
            self._asked = ""
        self.query_one(RunHeader).show(progress, _ASKED.get(self._asked, ""))
        self.set_class(progress.state == "failed", "-failed")
        self.fnwork.say_as_header(run.folder, progress.state)
        may = tuple(self.check_action(action, ()) for action in ("pause", "resume"))
        if may != self._may:
            self._may = may
            self.refresh_bindings()  # builds the footer anew, which is slow

    # --- what the person asks for ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        run = self.run
        if action in ("pause", "stop"):
            return run is not None and not run.is_over
        if action == "resume":
            return run is not None and run.can_resume
        return True

    def action_pause(self) -> None:
        """Pause the run, or let it continue."""
        if self.run is not None:
            paused = self.run.state == "paused" or self._asked == "pause"
            self._ask("continue" if paused else "pause")

    def action_stop(self) -> None:
        """Save and stop the run; it can be resumed, so that nothing is lost by it."""
        self._ask("stop")

    def _ask(self, word: str) -> None:
        run = self.run
        if run is None or run.is_over:
            return
        own = self.fnwork.current_run
        if own is not None and own.folder == run.folder:
            {"pause": own.pause, "continue": own.proceed, "stop": self.fnwork.training.stop}[word]()
        else:
            try:
                request(run.folder, word)
            except InputError as error:
                self.notify(str(error), severity="error", markup=False)
                return
        self._asked = word
        self.look_now()

    def action_resume(self) -> None:
        """Go on with the run from its last checkpoint."""
        if self.run is not None and not self.fnwork.resume(self.run.folder):
            self.notify("A run is going on in this window; stop it first.", severity="warning")

    def action_spec(self) -> None:
        """Open a copy of the run's spec in Edit."""
        if self.run is not None:
            open_copy(self, self.run.folder)

    def action_log_axis(self) -> None:
        """Loss on a logarithmic axis, or on a linear one."""
        plot = self.query_one("#loss", CurvePlot)
        plot.log = not plot.log

    def action_next_chart(self) -> None:
        """Show the next chart, where there is not room for all; the loss stays where there is room for two."""
        charts = CHARTS[1:] if self.has_class("-framed") else CHARTS
        shown = self.chart if self.chart in charts else charts[0]
        self.chart = charts[(charts.index(shown) + 1) % len(charts)]

    def action_checklist(self) -> None:
        """Go to the checklist."""
        self.query_one("#checklist OptionList").focus()

    def watch_chart(self, chart: str) -> None:
        second = chart if chart != "loss" else "metric"
        for name in CHARTS:
            widget = self.query_one(f"#{name}")
            widget.set_class(name == chart, "-chosen")
            widget.set_class(name == second, "-second")

    def action_over(self) -> None:
        """Draw over epochs, updates or time."""
        self.over = OVER[(OVER.index(self.over) + 1) % len(OVER)]
        self._zoom.reset()
        self.look_now()

    def action_zoom_in(self) -> None:
        """See half as much of the x axis."""
        self._change_view(lambda whole: self._zoom.scale(0.5, whole))

    def action_zoom_out(self) -> None:
        """See twice as much of the x axis."""
        self._change_view(lambda whole: self._zoom.scale(2.0, whole))

    def action_pan_left(self) -> None:
        """Move to what was earlier."""
        self._change_view(lambda whole: self._zoom.pan(-0.25, whole))

    def action_pan_right(self) -> None:
        """Move to what came later."""
        self._change_view(lambda whole: self._zoom.pan(0.25, whole))

    def _change_view(self, change: Callable[[Axis], None]) -> None:
        if self.run is not None:
            change(pictures.x_range(self.run, self.over))
            self.look_now()

    def action_whole(self) -> None:
        """See the whole run again."""
        self._zoom.reset()
        self.look_now()

    @on(OptionList.OptionSelected, "#checklist OptionList")
    def show_check(self) -> None:
        """Everything about the chosen entry of the checklist."""
        check = self.query_one(ChecklistView).chosen
        if check is not None:
            self.app.push_screen(
                Ask(
                    check.title,
                    details(check, colour(self.app, "foreground-muted")).plain,
                    [Choice("cancel", "c", "Close")],
                )
            )
