"""The two lines on top of Live: which run, its state, how far it is and how fast it goes."""

from __future__ import annotations

import math

from rich.text import Text
from textual.widget import Widget

from fnwork.text import harmless
from fnwork.tui.figures import clock, time_left
from fnwork.tui.theme import STATE_MARKS, colour
from fnwork.tui.watch import Progress

_STATE_WIDTH = 15
_GAP = 3  # cells between two figures
_NARROW = 72  # columns, below which there is no room for a bar


class RunHeader(Widget):
    """Shows a `Progress`. Every figure has its own fixed place, so that nothing moves when numbers change."""

    DEFAULT_CSS = "RunHeader { height: 2; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._progress = Progress()
        self._asked = ""

    def show(self, progress: Progress, asked: str) -> None:
        """Show where a run is, and in place of its state what it has been asked for ("stopping"), if anything."""
        if (progress, asked) != (self._progress, self._asked):
            self._progress, self._asked = progress, asked
            self.refresh()

    def render(self) -> Text:
        return Text("\n").join([self._where(), self._figures()])

    def _where(self) -> Text:
        progress, muted = self._progress, colour(self.app, "foreground-muted")
        state = self._asked or progress.state
        mark, name = STATE_MARKS.get("stopping" if self._asked else state, ("·", "foreground"))
        width = self.content_size.width
        narrow = width < _NARROW
        head = Text(f"{mark} {state}".ljust(0 if narrow else _STATE_WIDTH) + "  ", f"bold {colour(self.app, name)}")
        digits = len(f"{progress.epochs}")
        tail = Text.assemble(
            ("  epoch ", muted),
            f"{progress.epoch:>{digits}}/{progress.epochs or '?'}  ",
            self._bar(0 if narrow else min(40, width // 5)),
            f" {math.floor(100 * progress.share):>3}%  ",
            ("left ", muted),
            time_left(progress.left).rjust(6),
        )
        title = Text(harmless(progress.name), "bold")
        title.truncate(max(1, width - head.cell_len - tail.cell_len), overflow="ellipsis", pad=True)
        line = Text.assemble(head, title, tail)
        line.truncate(width, overflow="ellipsis")
        return line

    def _bar(self, width: int) -> Text:
        filled = round(width * self._progress.share)
        return Text.assemble(
            ("━" * filled, colour(self.app, "primary")), ("━" * (width - filled), colour(self.app, "line"))
        )

    def _figures(self) -> Text:
        progress, muted = self._progress, colour(self.app, "foreground-muted")
        digits = max(4, len(f"{progress.steps:,}"))
        figures: list[tuple[str, str | Text]] = [
            ("update ", f"{progress.step:>{digits},}/{progress.steps:,}"),
            ("", f"{_or_dash(progress.samples_per_s, ',.0f'):>7} samples/s"),
            ("lr ", f"{_or_dash(progress.lr, '.2e'):>8}"),
            ("waiting for data ", f"{_or_dash(100 * progress.data_wait, '.0f'):>3}%"),
            ("trained ", clock(progress.elapsed).rjust(7)),
            ("on ", harmless(" ".join(filter(None, (progress.device, progress.precision))))),
        ]
        if progress.outcome:
            outcome = Text(harmless(progress.outcome))
            outcome.truncate(max(1, self.content_size.width - _GAP), overflow="ellipsis")
            figures = [("", outcome), figures[0], figures[4]]
        line = Text()
        for label, figure in figures:
            piece = Text.assemble((label, muted), figure)
            if line.cell_len + piece.cell_len + _GAP > self.content_size.width:
                continue
            line.append(" " * _GAP if line else "")
            line.append_text(piece)
        return line


def _or_dash(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "-"
