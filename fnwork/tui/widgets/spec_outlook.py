"""What the spec in the editor comes to: parameters, memory of one window by category, updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Group, JustifyMethod
from rich.table import Table
from rich.text import Text
from textual.widgets import Static

from fnwork.outlook import Outlook
from fnwork.text import harmless, size
from fnwork.tui.theme import CATEGORIES, CATEGORY_LETTERS, colour

Paint = Callable[[str], str]
"""Name of a colour of the theme -> the colour."""

ROOMY = 28
"""Columns from which the figures are set with air between them."""


class SpecOutlook(Static):
    """Shows an Outlook, or the sentence why there is none."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__("", id=id, markup=False)
        self.outlook: Outlook | None = None
        self.message = "Looking at the spec ..."
        self._short = False

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())

    def on_resize(self) -> None:
        self._draw()

    def show(self, outlook: Outlook | None, message: str = "") -> None:
        """Show these figures, or the message instead."""
        self.outlook, self.message = outlook, message
        self._draw()

    def set_short(self, short: bool) -> None:
        """Only what matters most, for small screens."""
        if short != self._short:
            self._short = short
            self._draw()

    def _draw(self) -> None:
        if self.outlook is None:
            self.update(Text(self.message, colour(self.app, "foreground-muted")))
        else:
            width = max(self.content_size.width, 1)
            figures = _essence if self._short else _figures
            self.update(figures(self.outlook, width, lambda name: colour(self.app, name)))


def _figures(outlook: Outlook, width: int, paint: Paint) -> Group:
    gap: tuple[Text, ...] = (Text(),) if width >= ROOMY else ()
    parts = (*gap, _memory(outlook), _bar(outlook, width, paint), *gap, _categories(outlook, paint), *gap)
    return Group(_plan(outlook, width, paint), *parts, _verdict(outlook, paint))


def _essence(outlook: Outlook, width: int, paint: Paint) -> Group:
    parameters = (Text("Parameters", paint("foreground-muted")), Text(f"{outlook.parameters:,}"))
    return Group(
        _columns(("left", "right"), [parameters]),
        _memory(outlook),
        _bar(outlook, width, paint),
        _verdict(outlook, paint),
    )


def _memory(outlook: Outlook) -> Table:
    return _columns(("left", "right"), [(Text("Memory, peak"), Text(size(outlook.peak["total"]), "bold"))])


def _plan(outlook: Outlook, width: int, paint: Paint) -> Table:
    """How large the network is, and how long it will be trained."""
    rows = [("Parameters", f"{outlook.parameters:,}")]
    if width >= ROOMY:
        rows += [
            ("Input → output", f"{'×'.join(map(str, outlook.input_shape))} → {outlook.outputs}"),
            ("Train samples", f"{outlook.train_samples:,}"),
            ("Effective batch", f"{outlook.effective_batch:,}"),
            ("Updates an epoch", f"{outlook.updates_per_epoch:,}"),
        ]
    rows.append(("Updates", f"{outlook.updates:,}"))
    if width >= ROOMY and outlook.device:
        rows.append(("Device", harmless(outlook.device)))
    return _columns(("left", "right"), [(Text(name, paint("foreground-muted")), Text(value)) for name, value in rows])


def _categories(outlook: Outlook, paint: Paint) -> Table:
    total = outlook.peak["total"]
    rows = []
    for category in CATEGORIES:
        count = outlook.peak.get(category, 0)
        share = f"{100 * count / total:.0f}%" if total else ""
        letter = Text(CATEGORY_LETTERS[category], f"bold {paint(category)}")
        rows.append((letter, Text(f" {category}"), Text(size(count)), Text(share.rjust(4), paint("foreground-muted"))))
    return _columns(("left", "left", "right", "right"), rows)


def _columns(justify: tuple[JustifyMethod, ...], rows: Iterable[tuple[Text, ...]]) -> Table:
    table = Table.grid(expand=True)
    for number, method in enumerate(justify):
        widest = number == len(justify) - 2
        table.add_column(justify=method, no_wrap=True, ratio=1 if widest else None)
    for row in rows:
        table.add_row(*row)
    return table


def _bar(outlook: Outlook, width: int, paint: Paint) -> Text:
    """The categories side by side, each as long as its share of the peak, with its letter in the middle."""
    whole = max(outlook.peak["total"], 1)
    bar = Text(no_wrap=True)
    end = filled = 0
    for category in CATEGORIES:
        end += outlook.peak.get(category, 0)
        cells = round(end / whole * width) - filled
        filled += cells
        bar.append(CATEGORY_LETTERS[category].center(cells)[:cells], f"{paint('background')} on {paint(category)}")
    return bar


def _verdict(outlook: Outlook, paint: Paint) -> Text:
    total, budget = outlook.peak["total"], outlook.budget
    if not budget:
        return Text("No memory budget set", paint("foreground-muted"))
    if total > budget:
        return Text(f"✗ {size(total - budget)} above the budget of {size(budget)}", paint("error"))
    return Text(f"✓ {100 * total / budget:.0f}% of {size(budget)} budget", paint("success"))
