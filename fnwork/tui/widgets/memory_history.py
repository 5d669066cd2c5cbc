"""Memory by category over a run, stacked."""

from __future__ import annotations

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip
from textual.widget import Widget

from fnwork.curves import Floats
from fnwork.tui.figures import common_unit
from fnwork.tui.theme import CATEGORIES, colour
from fnwork.tui.widgets.curve_plot import GUTTER, Picture
from fnwork.tui.widgets.plot_axis import fitting, label_line

_STRENGTH = 0.6  # large areas in full colour would outshine everything else
_EIGHTHS = " ▁▂▃▄▅▆▇█"


class MemoryHistory(Widget):
    """Draws how much each category held; `show` gives it what to draw."""

    DEFAULT_CSS = "MemoryHistory { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._picture = Picture("Memory")
        self._x = np.empty(0)
        self._held = np.empty((len(CATEGORIES), 0))
        self._budget = 0
        self._unit = common_unit(0)
        self._top = 1.0

    def show(self, picture: Picture, x: Floats, held: Floats, budget: int) -> None:
        """Draw `held` (bytes, one row a category) over `x` on the x axis of a picture.

        The upper end is the budget once half of it is used.
        """
        if (self._picture.x_axis, self._x.size, self._budget) == (picture.x_axis, x.size, budget) and x.size:
            return
        self._picture, self._x, self._held, self._budget = picture, x, np.nan_to_num(held), budget
        if self.border_title != picture.title:  # setting it draws everything anew
            self.border_title = picture.title
        most = float(self._held.sum(axis=0).max(initial=0.0))
        self._unit = common_unit(most)
        if budget / 2 < most <= budget:
            self._top = budget / self._unit.bytes
        else:
            self._top = fitting(np.array([0.0, most / self._unit.bytes]), log=False, parts=4).high
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, height = self.content_size
        columns, rows = width - GUTTER, height - 2
        muted = Style.parse(colour(self.app, "foreground-muted"))
        pieces: list[tuple[str, Style]] = []
        if y == 0:
            framed = bool(self.styles.border_top[0])  # then the frame has the title
            pieces = [
                ("" if framed else f"{self._picture.title}  ", Style(bold=True)),
                (f"{self._unit.name} by category", muted),
            ]
        elif y == height - 1:
            picture = self._picture
            pieces = [(label_line(picture.x_axis, width, GUTTER, picture.x_label, picture.x_unit), muted)]
        elif columns > 0:
            pieces = self._stack_line(y - 1, columns, rows)
        strip = Strip([Segment(text, style) for text, style in pieces])
        return strip.adjust_cell_length(width).apply_style(self.rich_style)

    def _stack_line(self, row: int, columns: int, rows: int) -> list[tuple[str, Style]]:
        muted, line = (Style.parse(colour(self.app, name)) for name in ("foreground-muted", "line"))
        label = f"{self._top:,.0f}" if row == 0 else "0" if row == rows - 1 else ""
        pieces = [(label.rjust(GUTTER - 2) + " ", muted), ("┤" if label else "│", line)]
        if not self._x.size:
            text = self._picture.empty if row == rows // 2 else ""
            return [*pieces, (text.center(columns), muted)]
        axis = self._picture.x_axis
        edges = axis.low + (np.arange(columns + 1)) / columns * (axis.high - axis.low)
        index = np.searchsorted(self._x, edges[1:], "right") - 1  # what was last known at each column's right end
        known = (index >= 0) & (edges[:-1] <= self._x[-1])
        tops = np.cumsum(self._held, axis=0) / self._unit.bytes / self._top * rows * 8 - (rows - 1 - row) * 8
        ground = Color.parse(colour(self.app, "background"))
        paints = [ground.blend(Color.parse(colour(self.app, name)), _STRENGTH).hex6 for name in CATEGORIES]
        for column in range(columns):
            cell = _cell(tops[:, index[column]], paints) if known[column] else (" ", line)
            pieces.append(cell)
        return pieces


def _cell(tops: Floats, paints: list[str]) -> tuple[str, Style]:
    """One cell, whose upper end is at 8; `tops` are the upper ends of the categories, counted from its lower end.

    A cell has two colours: the lowest category in it, and the one that fills it to its end, or nothing.
    """
    filled = np.clip(np.round(tops), 0, 8).astype(int)
    if not filled[-1]:
        return " ", Style.null()
    lower = int(np.argmax(filled > 0))
    if filled[-1] < 8:
        return _EIGHTHS[filled[-1]], Style.parse(paints[lower])
    if filled[lower] == 8:
        return "█", Style.parse(paints[lower])
    upper = int(np.argmax(filled == 8))
    return _EIGHTHS[filled[lower]], Style.parse(f"{paints[lower]} on {paints[upper]}")
