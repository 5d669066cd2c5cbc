"""Curves on a linear or logarithmic axis, with a gap and a mark where a value is not finite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from fnwork.curves import Floats, logarithms, thinned
from fnwork.tui.widgets.plot_axis import Axis, fitting, label_line, number
from fnwork.tui.widgets.plot_canvas import Canvas

GUTTER = 8  # columns for the labels on the left: fixed, so that nothing moves when numbers grow
WHOLE = Axis(0.0, 1.0)
_BAD = 100
_VALUE_WIDTH = 7

Words = list[tuple[str, Style]]
"""Pieces of a line, each in its style."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of a plot: `y` over `x` (x never falls)."""

    name: str
    x: Floats
    y: Floats
    style: str
    """The component class that gives its colour, without the widget's prefix."""
    marker: str = ""
    """Drawn at each point where there is room, and in the legend: tells curves apart without colours."""
    background: bool = False
    """Drawn below the others, dimmed: the values as they are, below smoothed ones."""
    legend: str = ""
    """Its word in the legend where that is not its name, which says what it is a curve of; then without a value."""


@dataclass(frozen=True, eq=False)
class Picture:
    """What a plot shows."""

    title: str
    curves: Sequence[Curve] = ()
    x_axis: Axis = WHOLE
    x_label: Callable[[float, float], str] = number
    x_unit: str = ""
    percent: bool = False
    empty: str = "nothing yet"
    """Said in place of the curves while they have no points."""


@dataclass
class _Drawn:
    """A picture drawn for one size: the canvas, ticks by row, the x axis, and what has to be said."""

    canvas: Canvas
    styles: list[str]
    y_ticks: dict[int, str]
    x_axis: Axis
    remarks: list[str] = field(default_factory=list)

    def rows_that_differ(self, other: _Drawn) -> list[int] | None:
        """The rows of the canvas that look different, when nothing else but the title does; None otherwise."""
        if (self.styles, self.y_ticks, self.x_axis) != (other.styles, other.y_ticks, other.x_axis):
            return None
        return self.canvas.rows_that_differ(other.canvas)


class CurvePlot(Widget):
    """Draws a `Picture`; `log` puts its values on a logarithmic axis."""

    DEFAULT_CSS = """
    CurvePlot {
        height: 1fr;
        & > .curve-plot--title { text-style: bold; }
        & > .curve-plot--quiet { color: $foreground 60%; }
        & > .curve-plot--grid { color: $foreground 16%; }
        & > .curve-plot--remark { color: $warning; }
        & > .curve-plot--bad { color: $error; text-style: bold; }
        & > .curve-plot--train { color: $primary; }
        & > .curve-plot--raw { color: $primary 38%; }
        & > .curve-plot--validation { color: $accent; }
        & > .curve-plot--other { color: $secondary; }
        & > .curve-plot--run-0 { color: $weights; }
        & > .curve-plot--run-1 { color: $activations; }
        & > .curve-plot--run-2 { color: $optimizer; }
        & > .curve-plot--run-3 { color: $gradients; }
        & > .curve-plot--run-4 { color: $data; }
        & > .curve-plot--run-5 { color: $error; }
        & > .curve-plot--run-6 { color: $success; }
        & > .curve-plot--run-7 { color: $foreground; }
    }
    """
    COMPONENT_CLASSES = {
        f"curve-plot--{name}"
        for name in ("title", "quiet", "grid", "remark", "bad", "train", "raw", "validation", "other")
    } | {f"curve-plot--run-{index}" for index in range(8)}

    log = reactive(False)

    def __init__(self, title: str, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.picture = Picture(title)
        self._drawn: tuple[Size, _Drawn] | None = None
        self._title: tuple[int, Words] | None = None

    def show(self, picture: Picture) -> None:
        """Draw a picture from now on. What looks as before is not sent to the terminal again."""
        before, self._drawn = self._drawn, None
        title_before, self._title = self._title, None
        self.picture = picture
        if self.border_title != picture.title:  # setting it draws everything anew
            self.border_title = picture.title
        rows = before[1].rows_that_differ(self._picture_drawn()) if before and before[0] == self.content_size else None
        if rows is None:
            self.refresh()
            return
        lines = [0] if title_before is None or title_before[1] != self._title_line() else []
        if lines := [*lines, *(row + 1 for row in rows)]:
            self.refresh(*(Region(0, line, self.content_size.width, 1) for line in lines))

    def watch_log(self) -> None:
        self._drawn = self._title = None

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawn = self._title = None

    def run_colour(self, index: int) -> str:
        """The colour of a run's curve in a comparison."""
        color = self._style(f"run-{index % 8}").color
        return color.name if color is not None else ""

    @property
    def remarks(self) -> list[str]:
        """What the plot has to say about values that it could not draw."""
        return self._picture_drawn().remarks

    def render_line(self, y: int) -> Strip:
        width, height = self.content_size
        if y == 0:
            pieces = self._title_line()
        elif y >= height - 1 or width <= GUTTER:
            pieces = self._x_axis_line(width) if y == height - 1 else []
        else:
            pieces = self._curve_line(y - 1)
        strip = Strip([Segment(text, style) for text, style in pieces])
        return strip.adjust_cell_length(width).apply_style(self.rich_style)

    # --- the three kinds of lines ---

    def _title_line(self) -> Words:
        width = self.content_size.width
        if self._title is None or self._title[0] != width:
            self._title = (width, self._build_title(width))
        return self._title[1]

    def _build_title(self, width: int) -> Words:
        """Title and legend; entries there is no room for are left out whole."""
        picture, quiet = self.picture, self._style("quiet")
        framed = bool(self.styles.border_top[0])  # then the frame has the title
        head: Words = [
            ("" if framed else f"{picture.title} ", self._style("title")),
            ("log " if self.log else "", self._style("remark")),
        ]
        curves: list[Words] = [
            [
                (f" {curve.marker or '━'} ", self._style(curve.style)),
                (f"{curve.name} ", quiet),
                (_last_value(curve.y, picture.percent).ljust(_VALUE_WIDTH), Style.null()),
            ]
            for curve in picture.curves
            if not curve.background
        ]
        remarks: list[Words] = [
            [(f"{'·' if index else ''} {remark} ", self._style("remark"))] for index, remark in enumerate(self.remarks)
        ]
        legends: list[Words] = [
            [(" ━ ", self._style(curve.style)), (curve.legend, quiet)] for curve in picture.curves if curve.legend
        ]
        # What is worth least goes first; what could not be drawn is told nowhere else.
        for entries, least in ((legends, 0), (curves, 1), (remarks, 0), (curves, 0)):
            while len(entries) > least and _width([head, *curves, *remarks, *legends]) > width:
                entries.pop()
        return [piece for entry in (head, *curves, *remarks, *legends) for piece in entry]

    def _curve_line(self, row: int) -> Words:
        drawn = self._picture_drawn()
        quiet, grid = self._style("quiet"), self._style("grid")
        if not any(curve.x.size for curve in self.picture.curves):
            text = self.picture.empty if row == drawn.canvas.rows // 2 else ""
            return [(" " * (GUTTER - 1), quiet), ("│", grid), (text.center(drawn.canvas.columns), quiet)]
        label = drawn.y_ticks.get(row)
        pieces = [((label or "").rjust(GUTTER - 2) + " ", quiet), ("┤" if label is not None else "│", grid)]
        for text, style in drawn.canvas.runs(row):
            if style == -1:
                pieces.append((("┈" if label is not None else " ") * len(text), grid))
            else:
                pieces.append((text, self._style("bad" if style == _BAD else drawn.styles[style])))
        return pieces

    def _x_axis_line(self, width: int) -> Words:
        picture = self.picture
        return [(label_line(picture.x_axis, width, GUTTER, picture.x_label, picture.x_unit), self._style("quiet"))]

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"curve-plot--{name}")

    # --- drawing ---

    def _picture_drawn(self) -> _Drawn:
        if self._drawn is None or self._drawn[0] != self.content_size:
            columns, rows = max(1, self.content_size.width - GUTTER), max(1, self.content_size.height - 2)
            self._drawn = (self.content_size, draw(self.picture, columns, rows, log=self.log))
        return self._drawn[1]


def draw(picture: Picture, columns: int, rows: int, *, log: bool) -> _Drawn:
    """Draw a picture on a canvas of `columns` x `rows` cells."""
    canvas = Canvas(columns, rows)
    x_axis = picture.x_axis
    views = [_view(curve, x_axis) for curve in picture.curves]
    y_axis = fitting(np.concatenate([y for _, y in views] or [np.empty(0)]), log=log, parts=_parts(rows))
    bad: set[int] = set()
    for style, (curve, (x, y)) in sorted(
        enumerate(zip(picture.curves, views, strict=True)), key=lambda item: not item[1][0].background
    ):
        dot_x = x_axis.share(x) * (2 * columns - 1)
        thin_x, thin_y = thinned(dot_x, y, 2 * columns)
        dot_y = y_axis.share(thin_y) * (4 * rows - 1)
        canvas.line(thin_x, dot_y, style, replace=not curve.background)
        bad.update(np.unique(np.rint(dot_x[~np.isfinite(y)]).astype(int) // 2).tolist())
        if curve.marker:
            _draw_markers(canvas, curve, dot_x, y_axis.share(y) * (4 * rows - 1), style)
    for column in bad:
        canvas.glyph(column, 0, "✗", _BAD)
    return _Drawn(
        canvas,
        [curve.style for curve in picture.curves],
        _y_ticks(y_axis, rows, percent=picture.percent),
        x_axis,
        _remarks(picture.curves, views, log=log),
    )


def _view(curve: Curve, axis: Axis) -> tuple[Floats, Floats]:
    """The points in view, with one neighbour on each side so that lines go on to the edges."""
    first = max(0, int(np.searchsorted(curve.x, axis.low, "left")) - 1)
    last = int(np.searchsorted(curve.x, axis.high, "right")) + 1
    return curve.x[first:last], curve.y[first:last]


def _draw_markers(canvas: Canvas, curve: Curve, dot_x: Floats, dot_y: Floats, style: int) -> None:
    good = np.flatnonzero(np.isfinite(dot_y))
    if not good.size:
        return
    crowded = good.size * 4 > canvas.columns
    for index in good[-1:] if crowded else good:
        column, row = round(dot_x[index]) // 2, canvas.rows - 1 - round(dot_y[index]) // 4
        canvas.glyph(column, row, curve.marker, style)


def _parts(rows: int) -> int:
    """How many parts the y axis is divided into: ticks are at least two rows apart."""
    return max(2, min(6, (rows - 1) // 2))


def _y_ticks(axis: Axis, rows: int, *, percent: bool) -> dict[int, str]:
    def label(value: float, step: float) -> str:
        return f"{number(100 * value, 100 * step)}%" if percent else number(value, step)

    ticks: dict[int, str] = {}
    most = max(2, 2 * rows // 3) if axis.log else _parts(rows)
    for share, text in axis.ticks(most, label):
        row = rows - 1 - round(share * (4 * rows - 1)) // 4
        if 0 <= row < rows and text not in ticks.values():
            ticks.setdefault(row, text[: GUTTER - 2])
    return ticks


def _remarks(curves: Sequence[Curve], views: Sequence[tuple[Floats, Floats]], *, log: bool) -> list[str]:
    not_finite: dict[str, int] = {}
    left_out: dict[str, int] = {}
    for curve, (_, y) in zip(curves, views, strict=True):
        # A curve and its smoothed form have one name, and are counted once.
        not_finite[curve.name] = max(not_finite.get(curve.name, 0), int(np.count_nonzero(~np.isfinite(y))))
        left_out[curve.name] = max(left_out.get(curve.name, 0), logarithms(y)[1] if log else 0)
    remarks = []
    if bad := sum(not_finite.values()):
        remarks.append(f"✗ {bad:,} not finite")
    if none := sum(left_out.values()):
        remarks.append(f"{none:,} {'value' if none == 1 else 'values'} ≤ 0 left out")
    return remarks


def _width(entries: Sequence[Words]) -> int:
    """Cells of these one after the other, but for what is empty at the end."""
    return cell_len("".join(text for entry in entries for text, _ in entry).rstrip())


def _last_value(y: Floats, percent: bool) -> str:
    if not y.size:
        return ""
    value = float(y[-1])
    if not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf"
    return f"{100 * value:.2f}%" if percent else f"{value:.4g}"
