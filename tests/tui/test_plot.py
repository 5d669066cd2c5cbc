"""Curves and axes: what is drawn, and what is left out and said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fnwork.tui.figures import common_unit
from fnwork.tui.pictures import Zoom
from fnwork.tui.widgets.curve_plot import Curve, Picture, draw
from fnwork.tui.widgets.memory_bar import _cells
from fnwork.tui.widgets.memory_history import _cell
from fnwork.tui.widgets.plot_axis import Axis, duration, fitting, label_line, number
from fnwork.tui.widgets.plot_canvas import Canvas


def picture(y: list[float], *, last: float | None = None, marker: str = "") -> Picture:
    """A picture of one curve over 0, 1, 2, ..."""
    x = np.arange(len(y), dtype=float)
    high = float(len(y) - 1) if last is None else last
    return Picture("Loss", [Curve("train", x, np.array(y, dtype=float), "train", marker)], Axis(0.0, high))


def drawn_columns(canvas: Canvas) -> list[bool]:
    """In which columns there is a dot of a curve."""
    rows = ["".join(text for text, _ in canvas.runs(row)) for row in range(canvas.rows)]
    return [any("\u2800" < row[column] <= "\u28ff" for row in rows) for column in range(canvas.columns)]


def test_values_that_are_not_finite_are_a_gap_and_a_mark() -> None:
    drawn = draw(picture([1, math.nan, 0.9, math.inf, 0.8]), 41, 8, log=False)
    top = "".join(text for text, _ in drawn.canvas.runs(0))
    assert [column for column, character in enumerate(top) if character == "✗"] == [10, 30]
    dots = drawn_columns(drawn.canvas)
    assert dots[0] and dots[20] and dots[40]
    assert not any(dots[1:20]) and not any(dots[21:40])  # never bridged
    assert drawn.remarks == ["✗ 2 not finite"]


def test_not_finite_values_are_out_of_the_bounds() -> None:
    drawn = draw(picture([1, math.nan, 0.9, math.inf, 0.8, -math.inf]), 40, 11, log=False)
    assert set(drawn.y_ticks.values()) == {"0.80", "0.85", "0.90", "0.95", "1.00"}


def test_log_axis_leaves_out_what_has_no_logarithm_and_says_so() -> None:
    drawn = draw(picture([1, 0, -1, 0.5]), 31, 9, log=True)
    assert drawn.remarks == ["2 values ≤ 0 left out"]
    dots = drawn_columns(drawn.canvas)
    assert dots[0] and dots[30] and not any(dots[1:30])
    assert draw(picture([1, 0, -1, 0.5]), 31, 9, log=False).remarks == []


def test_a_log_axis_without_any_positive_value_is_drawn_empty() -> None:
    drawn = draw(picture([0, -1, -math.inf]), 30, 8, log=True)
    assert not any(drawn_columns(drawn.canvas))
    assert drawn.remarks == ["✗ 1 not finite", "2 values ≤ 0 left out"]


def test_a_smoothed_curve_is_not_counted_twice() -> None:
    x, y = np.arange(3.0), np.array([1, math.nan, 2])
    both = [Curve("train", x, y, "raw", background=True), Curve("train", x, y, "train")]
    assert draw(Picture("Loss", both, Axis(0, 2)), 30, 8, log=False).remarks == ["✗ 1 not finite"]


def test_a_line_is_joined_between_neighbours() -> None:
    assert all(drawn_columns(draw(picture([0, 5, 2]), 40, 8, log=False).canvas))


def test_every_spike_of_a_long_curve_is_seen() -> None:
    y = np.ones(100_000)
    y[54_321] = 9.0
    drawn = draw(picture(list(y)), 80, 20, log=False)
    column = round(54_321 / 99_999 * 159) // 2
    assert any("".join(text for text, _ in drawn.canvas.runs(row))[column] > "\u2800" for row in range(3))


def test_a_zoomed_view_goes_to_its_edges_and_fits_what_is_in_it() -> None:
    zoomed = Picture("Loss", picture([100, 3, 2, 1, 50]).curves, Axis(1.5, 2.5))
    drawn = draw(zoomed, 40, 9, log=False)
    assert all(drawn_columns(drawn.canvas)[:39])


def test_markers_tell_curves_apart_without_colours() -> None:
    drawn = draw(picture([1, 2, 3], marker="A"), 40, 8, log=False)
    assert sum("".join(text for text, _ in drawn.canvas.runs(row)).count("A") for row in range(8)) == 3
    crowded = draw(picture(list(range(100)), marker="A"), 40, 8, log=False)
    assert sum("".join(text for text, _ in crowded.canvas.runs(row)).count("A") for row in range(8)) == 1


any_number = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1e-308, 1.7e308, -1.7e308])


@settings(max_examples=200, deadline=None)
@given(st.lists(any_number, max_size=30), st.booleans(), st.integers(1, 90), st.integers(1, 30))
def test_no_curve_breaks_the_plot(y: list[float], log: bool, columns: int, rows: int) -> None:
    drawn = draw(picture(y, last=max(1.0, len(y) - 1.0)), columns, rows, log=log)
    for row in range(rows):
        assert sum(len(text) for text, _ in drawn.canvas.runs(row)) == columns
    assert all(len(label) <= 6 for label in drawn.y_ticks.values())


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (0.31, 2.28, (0.0, 2.5)),
        (7.0, 7.0, (6.0, 8.0)),
        (0.0, 0.0, (-1.0, 1.0)),
        (0.0, 5e-324, (-1.0, 1.0)),
        (0.0652, 0.0654, (0.0652, 0.0654)),
    ],
)
def test_bounds_are_rounded_so_that_new_values_move_them_rarely(
    low: float, high: float, ends: tuple[float, float]
) -> None:
    axis = fitting(np.array([low, math.nan, high]), log=False, parts=5)
    assert (axis.low, axis.high) == pytest.approx(ends)


def test_numbers_on_an_axis_have_the_decimals_of_its_step() -> None:
    assert [number(value, 0.5) for value in (0.0, 0.5, 1.0)] == ["0.0", "0.5", "1.0"]
    assert number(-1e-17, 0.1) == "0.0"
    assert number(2_500_000, 500_000) == "2.5e6"
    assert duration(75, 15) == "1:15" and duration(3675, 15) == "1:01:15"


def test_labels_below_an_axis_never_overlap() -> None:
    for width in range(1, 120):
        line = label_line(Axis(0, 1e6), width, 8, number, "update")
        assert len(line) == width
        assert all(word == "update" or word.replace(",", "").replace("e", "").isdigit() for word in line.split())


def test_the_zoom_stays_in_the_run_and_stays_when_new_values_come() -> None:
    zoom, whole = Zoom(), Axis(0, 100)
    zoom.scale(0.5, whole)
    assert (zoom.axis(whole).low, zoom.axis(whole).high) == (25, 75)
    zoom.pan(9, whole)
    assert zoom.axis(whole).high == 100
    assert zoom.axis(Axis(0, 200)).high == 100
    zoom.scale(9, whole)
    assert zoom.axis(whole) == whole


def test_a_cell_of_the_memory_history_shows_two_categories() -> None:
    paints = ["#000001", "#000002", "#000003"]
    assert _cell(np.array([3.0, 9.0, 12.0]), paints)[0] == "▃"
    assert _cell(np.array([3.0, 9.0, 12.0]), paints)[1].bgcolor.name == "#000002"
    assert _cell(np.array([-5.0, -2.0, 4.2]), paints)[0] == "▄"
    assert _cell(np.array([-5.0, -2.0, -1.0]), paints)[0] == " "


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [(0.06, 2.3, {"0.05", "0.10", "0.20", "0.50", "1.00", "2.00"}), (1.0, 40.0, {"1", "2", "5", "10", "20", "50"})],
)
def test_a_log_axis_has_ticks_at_1_2_5_and_no_empty_part(low: float, high: float, labels: set[str]) -> None:
    drawn = draw(picture([high, low]), 40, 14, log=True)
    values = {float(label) for label in drawn.y_ticks.values()}
    assert values == {float(label) for label in labels}
    axis = fitting(np.array([low, high]), log=True, parts=5)
    covered = math.log(high / low) / math.log(axis.high / axis.low)
    assert covered > 0.8


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.72, 1.1, ["0.7", "1", "1.5"]),
        (0.75, 0.95, ["0.7", "1"]),
        (1.1, 1.4, ["1", "1.5"]),
        (12.0, 14.0, ["10", "15"]),
        (0.0011, 0.0014, ["0.001", "0.0015"]),
    ],
)
def test_a_log_axis_over_a_short_range_has_ticks_at_its_ends(low: float, high: float, labels: list[str]) -> None:
    drawn = draw(picture([high, low]), 40, 14, log=True)
    assert [drawn.y_ticks[row] for row in sorted(drawn.y_ticks, reverse=True)] == labels


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(1.0, 1e6), st.integers(5, 40))
def test_a_log_axis_has_never_one_tick_alone(low: float, factor: float, rows: int) -> None:
    assert len(draw(picture([low, low * factor]), 40, rows, log=True).y_ticks) >= 2


def test_sizes_that_are_compared_have_the_unit_of_the_largest() -> None:
    kib, mib = common_unit(55 * 1024), common_unit(598 * 2**20)
    assert (kib.name, kib.count(55 * 1024), kib.count(20), kib.count(0)) == ("KiB", "55.0", "<0.1", "0.0")
    assert (mib.name, mib.count(2**30)) == ("MiB", "1,024")
    assert common_unit(24_106 * 2**20).count(24_106 * 2**20) == "23.5"
    assert (common_unit(0).name, common_unit(0).count(0)) == ("B", "0")


def test_every_category_of_memory_has_a_cell_for_its_letter() -> None:
    assert _cells([1, 1, 1, 960, 0, 1], 40, 1000) == [1, 1, 1, 35, 0, 1]
    assert _cells([500, 500, 500], 30, 2000) == [7, 7, 8]
    assert sum(_cells([1, 1, 1, 1, 1, 1], 3, 6)) <= 3
    assert _cells([0, 0], 10, 1) == [0, 0]
