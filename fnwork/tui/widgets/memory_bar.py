"""Memory by category as a bar against the budget."""

from __future__ import annotations

import math

from rich.text import Text
from textual.widget import Widget

from fnwork.tui.figures import MIB
from fnwork.tui.theme import CATEGORIES, CATEGORY_LETTERS, colour
from fnwork.tui.watch import Memory

_NEAR = 0.9


class MemoryBar(Widget):
    """One stacked bar from 0 to the budget (or to the peak, without one), and below it the categories in MiB."""

    DEFAULT_CSS = """
    MemoryBar { height: 2; }
    MemoryBar.tall { height: 3; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._memory = Memory()

    def show(self, memory: Memory) -> None:
        """Show the latest figures."""
        if memory != self._memory:
            self._memory = memory
            self.refresh()

    def on_resize(self) -> None:
        self.set_class(self._per_line < len(CATEGORIES), "tall")

    @property
    def _per_line(self) -> int:
        return len(CATEGORIES) if self.content_size.width >= 130 else len(CATEGORIES) // 2

    def render(self) -> Text:
        legend = [self._legend_entry(name) for name in CATEGORIES]
        lines = [self._bar_line()]
        for start in range(0, len(legend), self._per_line):
            line = Text(" " * 8)
            for entry in legend[start : start + self._per_line]:
                line.append_text(entry)
            lines.append(line)
        return Text("\n").join(lines)

    def _legend_entry(self, category: str) -> Text:
        held = self._memory.categories.get(category)
        figure = "-" if held is None else f"{held / MIB:,.1f}"
        width = max(23, (self.content_size.width - 8) // self._per_line)
        entry = Text.assemble(
            (f"■ {CATEGORY_LETTERS[category]} ", colour(self.app, category)),
            category.ljust(11),
            figure.rjust(min(9, width - 16)),
        )
        entry.pad_right(width - entry.cell_len)
        return entry

    def _bar_line(self) -> Text:
        memory, muted = self._memory, colour(self.app, "foreground-muted")
        share = memory.total / memory.budget if memory.budget else 0.0
        of = f" of {memory.budget / MIB:,.0f} MiB" if memory.budget else " MiB"
        figures = Text.assemble(
            (f"  {memory.total / MIB:>7,.0f}", f"bold {colour(self.app, 'warning')}" if share >= _NEAR else "bold"),
            of,
            ("  peak ", muted),
            f"{memory.peak / MIB:>7,.0f}",
        )
        if share >= _NEAR:
            figures.append("  near the budget!" if share <= 1 else "  over the budget!", colour(self.app, "error"))
        bar = self._bar(max(1, self.content_size.width - 8 - figures.cell_len), *_scale(memory))
        return Text.assemble(("Memory  ", "bold"), bar, figures)

    def _bar(self, width: int, limit: int, scale: str) -> Text:
        bar = Text()
        below = 0
        for category in CATEGORIES:
            start = min(width, round(width * below / limit))
            below += self._memory.categories.get(category, 0)
            stop = min(width, round(width * below / limit))
            letter = CATEGORY_LETTERS[category] if stop - start > 1 else " "
            paint = f"{colour(self.app, 'background')} on {colour(self.app, category)}"
            bar.append(letter.ljust(stop - start)[: stop - start], paint)
        rest = width - len(bar)
        bar.append("░" * rest if len(scale) >= rest else "░" * (rest - len(scale)), colour(self.app, "line"))
        bar.append(scale if len(scale) < rest else "", colour(self.app, "foreground-muted"))
        return bar


def _scale(memory: Memory) -> tuple[int, str]:
    """The bytes at the bar's end, and what to say about it: a budget of which next to nothing is used shows nothing."""
    most = max(memory.peak, memory.total, 1)
    if memory.budget and most * 16 >= memory.budget:
        return memory.budget, ""
    limit = 2 ** math.ceil(math.log2(most * 1.2))
    return limit, f" 0-{limit / MIB:,.0f} MiB" if limit >= MIB else ""
