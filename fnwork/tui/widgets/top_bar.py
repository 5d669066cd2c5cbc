"""The bar on top of every place: where one is, and what the run is doing."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from fnwork.tui.keys import PLACES, Place


class TopBar(Static):
    """One line: the three places with the current one marked."""

    def __init__(self, place: Place) -> None:
        super().__init__(markup=False)
        self.place = place

    def on_mount(self) -> None:
        text = Text(" fnwork ")
        for number, place in enumerate(PLACES, start=1):
            text.append(f" {number} {place.title()} ", "reverse" if place == self.place else "")
        self.update(text)
