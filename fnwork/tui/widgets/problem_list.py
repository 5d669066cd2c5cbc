"""The errors of the spec in the editor, one a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from fnwork.text import harmless
from fnwork.tui.theme import colour

if TYPE_CHECKING:
    from fnwork.spec import Problem


class ProblemList(OptionList):
    """There while there are errors; `problems` in the order of the list."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.problems: Sequence[Problem] = ()

    def show(self, problems: Sequence[Problem], remark: str = "") -> bool:
        """Show these, with a remark beside their number; False if these were shown already."""
        same = tuple(problems) == tuple(self.problems)
        if remark or not same:
            count = f"{len(problems)} error{'s' if len(problems) != 1 else ''}"
            self.border_title = f"{count}: {remark}" if remark else count
        if same:
            return False
        self.problems = problems
        self.clear_options()
        self.add_options(Option(self._line(problem)) for problem in problems)
        self.highlighted = 0 if problems else None
        self.set_class(bool(problems), "-shown")
        return True

    def _line(self, problem: Problem) -> Table:
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(justify="right", min_width=5, no_wrap=True, style=colour(self.app, "error"))
        line.add_column()
        line.add_row(f"{problem.line}:{problem.column}", Text(harmless(problem.message)))
        return line
