"""Memory by category as a bar against the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text
from textual.widget import Widget

from fnwork.tui.figures import Unit, common_unit
from fnwork.tui.theme import CATEGORIES, CATEGORY_LETTERS, colour
from fnwork.tui.watch import Memory

_NEAR = 0.9
_FILLS = "▓▒"
_LABEL = 8  # cells of the word at the bar's left


class MemoryBar(Widget):
    """One stacked bar from 0 to the budget (or to the peak, without one), and below it the categories in its unit."""

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
        unit = common_unit(max(self._memory.total, self._memory.peak))
        legend = [self._legend_entry(name, unit) for name in CATEGORIES]
        lines = [self._bar_line(unit)]
        for start in range(0, len(legend), self._per_line):
            line = Text("" if self._is_narrow else " " * _LABEL)
            for entry in legend[start : start + self._per_line]:
                line.append_text(entry)
            lines.append(line)
        return Text("\n").join(lines)

    def _legend_entry(self, category: str, unit: Unit) -> Text:
        held = self._memory.categories.get(category)
        figure = "-" if held is None else unit.count(held)
        narrow = self._is_narrow
        width = (self.content_size.width - (0 if narrow else _LABEL)) // self._per_line
        entry = Text.assemble(
            (f"{'' if narrow else '■ '}{CATEGORY_LETTERS[category]} ", colour(self.app, category)),
            category.ljust(11),
            figure.rjust(min(9, width - (13 if narrow else 16))),
        )
        entry.truncate(max(1, width), pad=True)
        return entry

    @property
    def _is_narrow(self) -> bool:
        return self.content_size.width < _LABEL + 23 * self._per_line

    def _bar_line(self, unit: Unit) -> Text:
        memory, muted = self._memory, colour(self.app, "foreground-muted")
        share = memory.total / memory.budget if memory.budget else 0.0
        whole = common_unit(memory.budget) if memory.budget else unit
        figures = Text.assemble(
            (f"  {unit.count(memory.total):>5}", f"bold {colour(self.app, 'warning')}" if share >= _NEAR else "bold"),
            "" if whole == unit else f" {unit.name}",
            f" of {whole.count(memory.budget)}" if memory.budget else "",
            f" {whole.name}",
            ("  peak ", muted),
            f"{unit.count(memory.peak):>5}",
            "" if whole == unit else f" {unit.name}",
        )
        if share >= _NEAR:
            figures.append("  near the budget!" if share <= 1 else "  over the budget!", colour(self.app, "error"))
        bar = self._bar(max(1, self.content_size.width - _LABEL - figures.cell_len), *_scale(memory, unit))
        return Text.assemble(("Memory  ", "bold"), bar, figures)

    def _bar(self, width: int, limit: int, scale: str) -> Text:
        bar = Text()
        held = [self._memory.categories.get(category, 0) for category in CATEGORIES]
        for index, (category, cells) in enumerate(zip(CATEGORIES, _cells(held, width, limit), strict=True)):
            letter = CATEGORY_LETTERS[category][:cells]
            if self.app.no_color:  # greys would be all alike
                bar.append(letter.ljust(cells, _FILLS[index % 2]))
            else:
                paint = f"{colour(self.app, 'background')} on {colour(self.app, category)}"
                bar.append(letter.ljust(cells), paint)
        rest = width - len(bar)
        bar.append("░" * rest if len(scale) >= rest else "░" * (rest - len(scale)), colour(self.app, "line"))
        bar.append(scale if len(scale) < rest else "", colour(self.app, "foreground-muted"))
        return bar


def _cells(held: Sequence[int], width: int, limit: int) -> list[int]:
    """How many cells each category takes: at least one for its letter, where the largest one can spare it."""
    total = min(width, round(width * sum(held) / limit))
    cells = [max(1, round(width * size / limit)) if size else 0 for size in held]
    while sum(cells) > total:
        largest = max(range(len(cells)), key=lambda index: (cells[index], held[index]))
        if cells[largest] <= 1 and sum(cells) <= width:
            break
        cells[largest] -= 1
    return cells


def _scale(memory: Memory, unit: Unit) -> tuple[int, str]:
    """The bytes at the bar's end, and what to say about it: a budget of which next to nothing is used shows nothing."""
    most = max(memory.peak, memory.total, 1)
    if memory.budget and most * 16 >= memory.budget:
        return memory.budget, ""
    limit = 2 ** math.ceil(math.log2(most * 1.2))
    return limit, f" 0-{limit // unit.bytes:,} {unit.name}" if memory.peak or memory.total else ""
