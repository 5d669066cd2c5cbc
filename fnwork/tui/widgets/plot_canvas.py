"""A picture of lines made of braille characters: two by four dots a cell, one colour a cell."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fnwork.curves import Floats

# The bit of each dot of a braille cell, by its row (from the top) and column.
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint8)
_MOST_DOTS = 4096


class Canvas:
    """`columns` x `rows` cells; dots are counted from the left and from the bottom, 2 a column and 4 a row.

    A style is a small number that the caller gives a meaning to; -1 means that a cell is empty.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._dots = np.zeros((rows, columns), dtype=np.uint8)
        self._style = np.full((rows, columns), -1, dtype=np.int16)
        self._glyphs: dict[tuple[int, int], str] = {}

    def line(self, x: Floats, y: Floats, style: int, *, replace: bool = False) -> None:
        """Draw a line through dots; a value that is not finite is a gap. `replace` clears the cells it enters."""
        dot_x, dot_y = _rasterise(x, y)
        inside = (dot_x >= 0) & (dot_x < 2 * self.columns) & (dot_y >= 0) & (dot_y < 4 * self.rows)
        dot_x, dot_y = dot_x[inside], 4 * self.rows - 1 - dot_y[inside]
        cells = (dot_y // 4, dot_x // 2)
        if replace:
            self._dots[cells] = 0
        np.bitwise_or.at(self._dots, cells, _BITS[dot_y % 4, dot_x % 2])
        self._style[cells] = style

    def glyph(self, column: int, row: int, character: str, style: int) -> None:
        """Put a character into a cell (rows counted from the top), over any dots."""
        if 0 <= column < self.columns and 0 <= row < self.rows:
            self._glyphs[row, column] = character
            self._style[row, column] = style

    def rows_that_differ(self, other: Canvas) -> list[int]:
        """The rows that look different on another canvas of the same size."""
        cells = (self._dots != other._dots) | (self._style != other._style)
        glyphs = {row for row, _ in dict(self._glyphs.items() ^ other._glyphs.items())}
        return sorted(glyphs.union(np.flatnonzero(cells.any(axis=1)).tolist()))

    def runs(self, row: int) -> list[tuple[str, int]]:
        """One row, from the top, as (text, style) pieces that together are `columns` wide."""
        characters = [chr(0x2800 + int(bits)) if bits else " " for bits in self._dots[row]]
        for (glyph_row, column), character in self._glyphs.items():
            if glyph_row == row:
                characters[column] = character
        styles = self._style[row]
        edges = [0, *(np.flatnonzero(np.diff(styles)) + 1).tolist(), self.columns]
        return [("".join(characters[a:b]), int(styles[a])) for a, b in pairwise(edges) if b > a]


def _rasterise(x: Floats, y: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The dots of all segments between neighbours that are both finite, and of lone points."""
    finite = np.isfinite(x) & np.isfinite(y)
    joined = finite[:-1] & finite[1:]
    x_from, y_from = x[:-1][joined], y[:-1][joined]
    x_way, y_way = x[1:][joined] - x_from, y[1:][joined] - y_from
    count = np.clip(np.ceil(np.maximum(np.abs(x_way), np.abs(y_way))), 1, _MOST_DOTS).astype(np.int64) + 1
    index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    share = index / np.repeat(count - 1, count)
    all_x = np.concatenate([np.repeat(x_from, count) + share * np.repeat(x_way, count), x[finite]])
    all_y = np.concatenate([np.repeat(y_from, count) + share * np.repeat(y_way, count), y[finite]])
    limit = 1e6  # far outside of any canvas, yet safe to turn into an integer
    return (
        np.rint(np.clip(all_x, -limit, limit)).astype(np.int64),
        np.rint(np.clip(all_y, -limit, limit)).astype(np.int64),
    )
