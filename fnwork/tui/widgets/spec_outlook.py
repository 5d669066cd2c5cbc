"""What the spec in the editor comes to: parameters, memory of one window by category, updates."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table
from rich.text import Text
from textual.widgets import Static

from fnwork.outlook import Outlook
from fnwork.tui.theme import CATEGORIES, CATEGORY_LETTERS, colour

Paint = Callable[[str], str]
"""Name of a colour of the theme -> the colour."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """Bytes for people: "12.4 MiB"."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 or count >= 100 else f"{count:.1f} {_UNITS[unit]}"


class SpecOutlook(Static):
    """Shows an Outlook, or the sentence why there is none; `stale` dims the figures of a text that has changed since."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__("", id=id, markup=False)
        self.outlook: Outlook | None = None
        self.message = "Reading the spec ..."

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())

    def on_resize(self) -> None:
        self._draw()

    def show(self, outlook: Outlook | None, message: str = "") -> None:
        """Show these figures, or the message instead."""
        self.outlook, self.message = outlook, message
        self._draw()

    def _draw(self) -> None:
        if self.outlook is None:
            self.update(Text(self.message, colour(self.app, "foreground-muted")))
            return
        width = max(self.content_size.width, 1)
        self.update(_figures(self.outlook, width, lambda name: colour(self.app, name)))


def _figures(outlook: Outlook, width: int, paint: Paint) -> Table:
    muted = paint("foreground-muted")
    table = Table.grid(expand=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    total = outlook.peak["total"]
    shape = "×".join(str(side) for side in outlook.input_shape)
    for name, value in (
        ("Parameters", f"{outlook.parameters:,}"),
        ("Input → output", f"{shape} → {outlook.outputs}"),
        ("Train samples", f"{outlook.train_samples:,}"),
        ("Updates", f"{outlook.updates_per_epoch:,} × epoch = {outlook.updates:,}"),
    ):
        table.add_row(Text(name, muted), Text(value))
    table.add_row()
    table.add_row(Text("Memory of one window"), Text(size(total), "bold"))
    outer = Table.grid(expand=True)
    outer.add_column(no_wrap=True)
    outer.add_row(table)
    outer.add_row(_bar(outlook, width, paint))
    parts = Table.grid(expand=True)
    parts.add_column(width=2)
    parts.add_column(no_wrap=True)
    parts.add_column(justify="right", no_wrap=True)
    parts.add_column(justify="right", no_wrap=True, width=5)
    for category in CATEGORIES:
        count = outlook.peak.get(category, 0)
        share = f"{100 * count / total:.0f}%" if total else ""
        letter = Text(CATEGORY_LETTERS[category], f"bold {paint(category)}")
        parts.add_row(letter, Text(category), Text(size(count)), Text(share, muted))
    outer.add_row(parts)
    outer.add_row(_verdict(outlook, paint))
    return outer


def _bar(outlook: Outlook, width: int, paint: Paint) -> Text:
    """The categories side by side, each as long as its share of the peak (or of the budget, if that is larger)."""
    whole = max(outlook.peak["total"], outlook.budget, 1)
    bar = Text(no_wrap=True)
    end = filled = 0
    for category in CATEGORIES:
        end += outlook.peak.get(category, 0)
        cells = round(end / whole * width) - filled
        filled += cells
        bar.append(CATEGORY_LETTERS[category].center(cells)[:cells], f"{paint('background')} on {paint(category)}")
    bar.append("░" * (width - filled), paint("line"))
    return bar


def _verdict(outlook: Outlook, paint: Paint) -> Text:
    if not outlook.budget:
        return Text("\nNo budget set: all that the device has", paint("foreground-muted"))
    total = outlook.peak["total"]
    if total > outlook.budget:
        return Text(f"\n✗ {size(total - outlook.budget)} over the budget of {size(outlook.budget)}", paint("error"))
    return Text(f"\n✓ {100 * total / outlook.budget:.0f}% of the budget of {size(outlook.budget)}", paint("success"))
