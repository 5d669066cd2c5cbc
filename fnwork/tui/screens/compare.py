"""Several runs side by side: the spec keys that differ, their results, and their curves over each other."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.containers import Container, Vertical, VerticalScroll
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from fnwork.compare import Comparison, Row, compare
from fnwork.text import harmless, size
from fnwork.tui import keys, pictures
from fnwork.tui.figures import clock, figure
from fnwork.tui.pictures import OVER, Over, run_letter
from fnwork.tui.place import PlaceScreen
from fnwork.tui.theme import STATE_MARKS, colour
from fnwork.tui.watch import RunWatch
from fnwork.tui.widgets.curve_plot import CurvePlot

_COLUMN, _KEYS = 18, 26  # cells


class CompareScreen(PlaceScreen):
    """The marked runs compared."""

    PLACE = "compare"
    TAB = "runs"
    CSS_PATH = "compare.tcss"
    BINDINGS = keys.bindings("compare")
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [(0, "-narrow"), (130, "-wide")]

    curve: reactive[str] = reactive("val_loss", init=False)
    """What is drawn: a metric of the epochs, or "train_loss"."""
    over: reactive[Over] = reactive("epoch", init=False)

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__()
        self.folders = list(folders)
        self._watches: list[RunWatch] = []

    def compose_place(self) -> Iterable[Widget]:
        with Container(id="areas"):
            with Vertical(id="tables"):
                yield Static("reading the runs ...", id="names", markup=False)
                with VerticalScroll(id="rows"):
                    yield Static(id="table", markup=False)
            yield CurvePlot("Validation loss")

    def on_mount(self) -> None:
        self.query_one("#rows").focus()
        self.run_worker(self._load(), group="load")

    async def _load(self) -> None:
        comparison = await asyncio.to_thread(compare, self.folders)
        self.query_one("#names", Static).update(self._names(comparison))
        self.query_one("#table", Static).update(self._table(comparison))
        watches = [RunWatch(folder) for folder in self.folders]
        for watch in watches:
            await asyncio.to_thread(watch.look)
            while watch.is_behind:
                await asyncio.to_thread(watch.look)
        self._watches = watches
        self._show_curves()

    def _show_curves(self) -> None:
        if self._watches:
            self.query_one(CurvePlot).show(pictures.comparison_picture(self._watches, self.curve, self.over))

    def _grid(self, comparison: Comparison) -> Table:
        """A table without rows; all have columns of the same widths."""
        table = Table.grid(padding=(0, 2, 0, 0))
        keys = [len(harmless(row.key)) for row in (*comparison.keys, *comparison.results)]
        width = min(max(keys, default=0), _KEYS)
        table.add_column(style=colour(self.app, "foreground-muted"), width=width, no_wrap=True, overflow="ellipsis")
        for _ in comparison.runs:
            table.add_column(width=_COLUMN, no_wrap=True, overflow="ellipsis")
        return table

    def _names(self, comparison: Comparison) -> Table:
        """What stays on top: each run with its letter, and its state."""
        table = self._grid(comparison)
        paints = [self.query_one(CurvePlot).run_colour(index) for index in range(len(comparison.runs))]
        names = [
            Text.assemble((f"{run_letter(index)} ", f"bold {paint}"), (harmless(run.name), "bold"))
            for index, (run, paint) in enumerate(zip(comparison.runs, paints, strict=True))
        ]
        table.add_row(Text(), *names)
        table.add_row(Text("state"), *(self._state(run.state) for run in comparison.runs))
        return table

    def _table(self, comparison: Comparison) -> Group:
        """Results, then the keys that differ, then where the runs lie."""
        started = Row("started", tuple(harmless(run.id)[:15] for run in comparison.runs))
        parts: list[RenderableType] = []
        for title, rows in (
            ("Results of each run's best epoch (the chart names the last values)", comparison.results),
            ("Spec keys that differ", comparison.keys),
            ("", (started,)),
        ):
            grid = self._grid(comparison)
            for row in rows:
                grid.add_row(Text(harmless(row.key)), *_cells(row))
            heading = Text(title, "bold", no_wrap=True, overflow="ellipsis")
            parts += [heading, grid if rows else Text("none")]
        return Group(*parts)

    def _state(self, state: str) -> Text:
        mark, paint = STATE_MARKS.get(state, ("·", "foreground"))
        return Text(f"{mark} {state}", colour(self.app, paint))

    # --- what the person asks for ---

    def action_back(self) -> None:
        """Back to the table."""
        self.app.pop_screen()

    def action_log_axis(self) -> None:
        """A logarithmic axis, or a linear one."""
        plot = self.query_one(CurvePlot)
        plot.log = not plot.log

    def action_next_chart(self) -> None:
        """Losses and metrics in turn."""
        metrics = dict.fromkeys(watch.metric for watch in self._watches)
        curves = ["val_loss", "train_loss", *(f"{part}_{metric}" for metric in metrics for part in ("val", "train"))]
        at = curves.index(self.curve) if self.curve in curves else -1
        self.curve = curves[(at + 1) % len(curves)]

    def watch_curve(self) -> None:
        self._show_curves()

    def action_over(self) -> None:
        """Draw over epochs, updates or time."""
        self.over = OVER[(OVER.index(self.over) + 1) % len(OVER)]

    def watch_over(self) -> None:
        self._show_curves()


def _cells(row: Row) -> list[Text]:
    """The values of one row; the best of a result is bold."""
    numbers = [value for value in row.values if isinstance(value, int | float) and math.isfinite(value)]
    higher = row.key.endswith(("accuracy", "r2"))
    lower = row.key.endswith(("loss", "mae"))
    best = max(numbers) if higher and numbers else min(numbers) if lower and numbers else None
    return [Text(_value(row.key, value), "bold" if best is not None and value == best else "") for value in row.values]


def _value(key: str, value: Any) -> str:
    if value is None:
        return "-"
    if key == "seconds":
        return clock(value)
    if key == "parameters":
        return f"{value:,}"
    if key == "peak_bytes":
        return size(value)
    if isinstance(value, float):
        return figure(value, key) if "_" in key and "." not in key else f"{value:g}"
    return harmless(value)
