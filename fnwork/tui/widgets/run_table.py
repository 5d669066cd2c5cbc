"""The table of runs: thousands of rows of which only those in view are ever drawn."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from fnwork.archive import RunSummary
from fnwork.text import harmless, size
from fnwork.tui.figures import clock, figure
from fnwork.tui.theme import STATE_MARKS, colour


@dataclass(frozen=True)
class Column:
    """One column: its text, and what it is sorted by (None goes last)."""

    title: str
    width: int
    text: Callable[[RunSummary], str]
    value: Callable[[RunSummary], Any]
    right: bool = False
    grows: bool = False


def result(run: RunSummary, part: str) -> tuple[str, float | None]:
    """What a run is judged by on a part: name and value of its accuracy, r2 or loss."""
    for metric in ("accuracy", "r2", "loss"):
        value = run.results.get(f"{part}_{metric}")
        if value is not None:
            return metric, value if math.isfinite(value) else None
    return "", None


def _result_text(run: RunSummary, part: str) -> str:
    metric, value = result(run, part)
    label = "" if metric in ("accuracy", "") else f"{metric} "
    return f"{label}{figure(value, metric)}" if metric else "-"


COLUMNS: tuple[Column, ...] = (
    Column("State", 15, lambda run: f"{STATE_MARKS.get(run.state, '·')[0]} {run.state}", lambda run: run.state),
    Column("Name", 14, lambda run: run.name, lambda run: run.name.lower(), grows=True),
    Column("Started", 11, lambda run: _day(run.started), lambda run: run.started),
    Column("Epochs", 7, lambda run: f"{run.epoch}/{run.epochs}", lambda run: run.epoch, right=True),
    Column("Validation", 11, lambda run: _result_text(run, "val"), lambda run: result(run, "val")[1], right=True),
    Column("Test", 11, lambda run: _result_text(run, "test"), lambda run: result(run, "test")[1], right=True),
    Column("Time", 8, lambda run: clock(run.seconds), lambda run: run.seconds, right=True),
    Column("Peak", 10, lambda run: _peak(run.peak_bytes), lambda run: run.peak_bytes or None, right=True),
    Column("Tags", 16, lambda run: " ".join(run.tags), lambda run: " ".join(run.tags) or None),
    Column("Notes", 30, lambda run: run.notes, lambda run: run.notes or None),
)
BY_START = 2
_ALWAYS = 2  # columns on the left that never give way
_MARK_WIDTH = 2


class RunTable(ScrollView, can_focus=True):
    """Rows of runs with a cursor; `show` gives it the runs, already in their order."""

    DEFAULT_CSS = """
    RunTable { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "move_page(-1)", "Page up", show=False),
        Binding("pagedown", "move_page(1)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
    ]

    cursor: reactive[int] = reactive(0)
    first_column: reactive[int] = reactive(_ALWAYS)
    """The column that follows those which are always shown: where there is not room for all, others come into view."""

    class Moved(Message):
        """The cursor is on another run, or on none."""

    class Opened(Message):
        """A run was clicked that the cursor was on already."""

    class HeadClicked(Message):
        """The title of a column was clicked."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.runs: Sequence[RunSummary] = ()
        self._marked: Collection[str] = ()
        self._sorted_by, self._falling = BY_START, True

    @property
    def current(self) -> RunSummary | None:
        """The run that the cursor is on."""
        return self.runs[self.cursor] if self.cursor < len(self.runs) else None

    def show(self, runs: Sequence[RunSummary], marked: Collection[str], sorted_by: int, falling: bool) -> None:
        """Show these runs; the cursor stays on its run, or at its row if that is gone."""
        before = self.current
        if sorted_by != self._sorted_by and sorted_by >= _ALWAYS:
            self._bring_into_view(sorted_by)
        self.runs, self._marked, self._sorted_by, self._falling = runs, marked, sorted_by, falling
        if before is not None:
            same = next((index for index, run in enumerate(runs) if run.id == before.id), self.cursor)
            self.cursor = min(same, max(0, len(runs) - 1))
        self._measure()
        self.refresh()
        self.post_message(self.Moved())

    def _bring_into_view(self, column: int) -> None:
        self.first_column = min(self.first_column, column)
        while COLUMNS[column] not in [shown for shown, _ in self._columns()] and self.first_column < column:
            self.first_column += 1

    def validate_first_column(self, first: int) -> int:
        """No further than needed to see the last column."""
        last = next(index for index in range(_ALWAYS, len(COLUMNS)) if self._fit(index)[-1] is COLUMNS[-1])
        return min(max(_ALWAYS, first), last)

    def on_resize(self) -> None:
        self.first_column = self.first_column  # as far as is still needed
        self._measure()

    def _measure(self) -> None:
        self.virtual_size = Size(self.size.width, len(self.runs) + 1)
        self._keep_in_view()

    def validate_cursor(self, cursor: int) -> int:
        return min(max(0, cursor), max(0, len(self.runs) - 1))

    def watch_cursor(self) -> None:
        self._keep_in_view()
        self.refresh()
        self.post_message(self.Moved())

    def _keep_in_view(self) -> None:
        # The head takes the place of the topmost line in view.
        self.scroll_to_region(Region(0, self.cursor, 1, 2), animate=False, force=True)

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self.cursor += rows

    def action_move_page(self, pages: int) -> None:
        """Move the cursor by what is in view."""
        self.cursor += pages * max(1, self.size.height - 2)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.scroll_to(y=self.scroll_y + 3, animate=False)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.scroll_to(y=self.scroll_y - 3, animate=False)

    def on_click(self, event: Click) -> None:
        if event.y == 0:
            self._click_head(event.x)
            return
        row = event.y - 1 + self.scroll_offset.y
        if row >= len(self.runs):
            return
        if row == self.cursor and event.chain == 2:
            self.post_message(self.Opened())
        self.cursor = row

    def _click_head(self, x: int) -> None:
        start = _MARK_WIDTH
        for column, width in self._columns():
            if start <= x <= start + width:
                self.post_message(self.HeadClicked(COLUMNS.index(column)))
            start += width + 1

    # --- drawing ---

    def _columns(self) -> list[tuple[Column, int]]:
        """The columns there is room for, with their widths; what is left over goes to the one that grows."""
        shown = self._fit(self.first_column)
        spare = max(0, self._room - sum(column.width + 1 for column in shown))
        return [(column, column.width + (min(spare, 32) if column.grows else 0)) for column in shown]

    def _fit(self, first: int) -> list[Column]:
        """The columns there is room for when `first` follows those that are always shown."""
        ends = accumulate(column.width + 1 for column in (*COLUMNS[:_ALWAYS], *COLUMNS[first:]))
        fitting = sum(end <= self._room for end in ends)
        return [*COLUMNS[:_ALWAYS], *COLUMNS[first : first + max(1, fitting - _ALWAYS)]]

    @property
    def _room(self) -> int:
        """Cells for columns, each with a space after it; the last space may be cut off."""
        return self.scrollable_content_region.width - _MARK_WIDTH

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if y == 0:
            return self._head_line().adjust_cell_length(width, self.rich_style).apply_style(self.rich_style)
        row = y - 1 + self.scroll_offset.y
        if row >= len(self.runs):
            return Strip.blank(width, self.rich_style)
        line = self._run_line(self.runs[row])
        style = self.rich_style
        if row == self.cursor:
            name = "block-cursor-blurred-background" if self.has_focus else "boost"
            style += Style(bgcolor=colour(self.app, name))
        strip = Strip(line.render(self.app.console, end=""))
        return strip.adjust_cell_length(width, style).apply_style(style)

    def _head_line(self) -> Strip:
        quiet, strong = Style.parse(colour(self.app, "foreground-muted")), Style(bold=True)
        pieces = [Segment(" " * _MARK_WIDTH)]
        for column, width in self._columns():
            sorted_by_it = COLUMNS[self._sorted_by] is column
            title = column.title + (("↓" if self._falling else "↑") if sorted_by_it else "")
            text = title.rjust(width) if column.right else title.ljust(width)
            pieces.append(Segment(text[-width:] + " ", strong if sorted_by_it else quiet))
        if self._columns()[-1][0] is not COLUMNS[-1]:
            pieces[-1] = Segment(pieces[-1].text[:-1] + "→", pieces[-1].style)
        if self.first_column > _ALWAYS:
            pieces[0] = Segment("← ", quiet)
        return Strip(pieces)

    def _run_line(self, run: RunSummary) -> Text:
        marked = run.id in self._marked
        line = Text(no_wrap=True, end="").append("◆ " if marked else "  ", colour(self.app, "accent"))
        for column, width in self._columns():
            cell = Text(harmless(column.text(run)), justify=None)
            if column.title == "State":
                cell.stylize(colour(self.app, STATE_MARKS.get(run.state, ("", "foreground"))[1]))
            elif column.title == "Name":
                cell.stylize("bold" if marked else "")
            elif column.title in ("Started", "Tags", "Notes", "Time", "Peak"):
                cell.stylize(colour(self.app, "foreground-muted"))
            cell.truncate(width, overflow="ellipsis")
            gap = " " * (width - cell.cell_len)
            line = line + Text(gap) + cell + Text(" ") if column.right else line + cell + Text(gap + " ")
        return line


def _day(started: float) -> str:
    try:
        return time.strftime("%m-%d %H:%M", time.localtime(started)) if started else "-"
    except (OverflowError, OSError, ValueError):
        return "-"


def _peak(count: int) -> str:
    return size(count) if count else "-"
