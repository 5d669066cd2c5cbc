"""The record of one run: what came out, its curves, its spec, its checklist and its events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual.containers import Container, Vertical, VerticalScroll
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static, TabbedContent, TabPane

from engine.errors import InputError
from fnwork.archive import RunSummary, summary
from fnwork.run_folder import RunReader
from fnwork.text import harmless, size
from fnwork.tui import keys, pictures
from fnwork.tui.figures import clock, figure
from fnwork.tui.pictures import OVER, Over
from fnwork.tui.place import PlaceScreen
from fnwork.tui.relaunch import open_copy
from fnwork.tui.theme import CATEGORIES, STATE_MARKS, colour
from fnwork.tui.watch import RunWatch
from fnwork.tui.widgets.checklist_view import ChecklistView
from fnwork.tui.widgets.curve_plot import CurvePlot
from fnwork.tui.widgets.event_log import EventLog
from fnwork.tui.widgets.spec_editor import SpecEditor


class RecordScreen(PlaceScreen):
    """One archived run."""

    PLACE = "record"
    TAB = "runs"
    CSS_PATH = "record.tcss"
    BINDINGS = keys.bindings("record")
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [(0, "-narrow"), (110, "-wide")]

    over: reactive[Over] = reactive("epoch", init=False)

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.run_summary: RunSummary = summary(folder)
        self._watch: RunWatch | None = None

    def compose_place(self) -> Iterable[Widget]:
        yield Static(self._title(), id="title", markup=False)
        with TabbedContent():
            with TabPane("Result"), Container(id="result"):
                with VerticalScroll(id="result-text"):
                    yield Static(self._result(), markup=False)
                with Vertical(id="result-chart"):
                    yield CurvePlot("Loss", classes="loss")
                    yield CurvePlot("Accuracy", classes="metric")
            with TabPane("Curves"):
                yield CurvePlot("Loss", classes="loss")
                yield CurvePlot("Accuracy", classes="metric")
            with TabPane("Spec"):
                yield SpecEditor()
            with TabPane("Checklist"):
                yield ChecklistView()
            with TabPane("Events"):
                yield EventLog()

    def on_mount(self) -> None:
        editor = self.query_one(SpecEditor)
        editor.read_only = True
        try:
            editor.load_text(RunReader(self.folder).spec_text())
        except InputError as error:
            editor.load_text(f"# {error}")
        self.run_worker(self._load(), group="load")

    async def _load(self) -> None:
        watch = RunWatch(self.folder)
        watch.is_behind = True
        while watch.is_behind:
            await asyncio.to_thread(watch.look)
            self._watch = watch
            self._show_curves(watch)
        self.query_one(ChecklistView).show(watch.checklist())
        self.query_one(EventLog).show(watch.log)

    def _show_curves(self, watch: RunWatch) -> None:
        axis = pictures.x_range(watch, self.over)
        loss, metric = pictures.loss_picture(watch, self.over, axis), pictures.metric_picture(watch, self.over, axis)
        for plot in self.query(CurvePlot):
            plot.show(loss if plot.has_class("loss") else metric)

    def _title(self) -> Text:
        run = self.run_summary
        mark, paint = STATE_MARKS.get(run.state, ("·", "foreground"))
        return Text.assemble(
            (f"{mark} {run.state}  ", f"bold {colour(self.app, paint)}"),
            (harmless(run.name), "bold"),
            (f"  {harmless(run.id)}", colour(self.app, "foreground-muted")),
            no_wrap=True,
        )

    def _result(self) -> Table:
        run, record = self.run_summary, RunReader(self.folder).record() or {}
        table = Table.grid(padding=(0, 2))
        table.add_column(style=colour(self.app, "foreground-muted"))
        table.add_column(overflow="fold")
        for group in (_facts(run, record), _results(run), _remarks(run, record), _peak(record)):
            for key, value in group:
                table.add_row(Text(key), Text(harmless(value, keep_lines=True)))
            if group:
                table.add_row()
        return table

    # --- what the person asks for ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "resume" or self.run_summary.state in ("stopped", "interrupted", "failed")

    def action_back(self) -> None:
        """Back to the table."""
        self.app.pop_screen()

    def action_relaunch(self) -> None:
        """Open a copy of the run's spec in Edit."""
        open_copy(self, self.folder)

    def action_watch(self) -> None:
        """Show the run in Live."""
        self.fnwork.run_folder = self.folder
        self.fnwork.show_place("live")

    def action_resume(self) -> None:
        """Go on with the run from its last checkpoint."""
        if not self.fnwork.resume(self.folder):
            self.notify("A run is going on in this window; stop it first.", severity="warning")

    def action_log_axis(self) -> None:
        """Loss on a logarithmic axis, or on a linear one."""
        for plot in self.query(CurvePlot).filter(".loss"):
            plot.log = not plot.log

    def action_over(self) -> None:
        """Draw over epochs, updates or time."""
        self.over = OVER[(OVER.index(self.over) + 1) % len(OVER)]

    def watch_over(self) -> None:
        if self._watch is not None:
            self._show_curves(self._watch)


Rows = list[tuple[str, str]]


def _facts(run: RunSummary, record: Mapping[str, Any]) -> Rows:
    rows = [("spec", run.spec), ("epochs", f"{run.epoch} of {run.epochs}"), ("training time", clock(run.seconds))]
    for key, label in (("best_epoch", "best epoch"), ("steps", "updates"), ("parameters", "parameters")):
        if isinstance(record.get(key), int):
            rows.append((label, f"{record[key]:,}"))
    if record.get("device"):
        rows.append(("device", str(record["device"])))
    return rows


def _results(run: RunSummary) -> Rows:
    return [(key, figure(value, key)) for key, value in run.results.items()]


def _peak(record: Mapping[str, Any]) -> Rows:
    peak = record.get("peak")
    if not isinstance(peak, dict):
        return []
    held = [(name, peak.get(name)) for name in ("total", *CATEGORIES)]
    rows = [(name, size(count).rjust(9)) for name, count in held if isinstance(count, int | float)]
    return [("peak memory", ""), *rows] if rows else []


def _remarks(run: RunSummary, record: Mapping[str, Any]) -> Rows:
    told = [("ended by", str(record.get("message") or "")), ("tags", " ".join(run.tags)), ("notes", run.notes)]
    return [(key, value) for key, value in [*told, ("damaged", run.problem)] if value]
