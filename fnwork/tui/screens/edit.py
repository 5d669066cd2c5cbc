"""Edit."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget
from textual.widgets import Static

from fnwork.tui import keys
from fnwork.tui.place import PlaceScreen


class EditScreen(PlaceScreen):
    """Edit."""

    PLACE = "edit"
    BINDINGS = keys.bindings("edit")

    def compose_place(self) -> Iterable[Widget]:
        yield Static("edit")
