"""The bar on top of every place: where one is, and what the run is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from fnwork.text import harmless
from fnwork.tui.keys import PLACES, Place, each_key, of_place
from fnwork.tui.theme import STATE_MARKS, colour

if TYPE_CHECKING:
    from fnwork.tui.app import FnworkApp


class PlaceTab(Static):
    """The name of a place with its key; a click goes there."""

    def __init__(self, place: Place, current: bool) -> None:
        super().__init__("", classes="-current" if current else "")
        self.place: Place = place

    def on_mount(self) -> None:
        action = next(action for action in of_place("everywhere") if action.id == f"place_{self.place}")
        self.update(f"{self.app.get_key_display(each_key(action)[0])} {action.label}")
        self.tooltip = action.tooltip

    def on_click(self) -> None:
        cast("FnworkApp", self.app).show_place(self.place)


class TopBar(Horizontal):
    """One line: the three places with the current one marked, and the run of this process."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place

    def compose(self) -> ComposeResult:
        yield Static("fnwork", classes="title")
        for place in PLACES:
            yield PlaceTab(place, place == self.place)
        yield Static("", classes="run", markup=False)

    def on_mount(self) -> None:
        self.watch(self.app, "run_line", self.show_run)

    def show_run(self, line: tuple[str, str]) -> None:
        """Show state and progress of the run."""
        state, words = line
        mark, paint = STATE_MARKS.get(state, ("", "foreground"))
        text = Text(justify="right", no_wrap=True, overflow="ellipsis")
        text.append(f"{mark} ", colour(self.app, paint))
        text.append(harmless(words))
        self.query_one(".run", Static).update(text)
