"""What the three places have in common: the bar on top, the footer, and the way to the app."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from fnwork.tui.keys import Owner, Place
from fnwork.tui.widgets.key_bar import KeyBar
from fnwork.tui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from fnwork.tui.app import FnworkApp


class PlaceScreen(Screen[None]):
    """A place of the workbench; subclasses set PLACE and BINDINGS and yield their widgets from `compose_place`."""

    PLACE: ClassVar[Owner]
    TAB: ClassVar[Place | None] = None
    """The place that is marked in the bar on top; its own name when not set."""
    AUTO_FOCUS = None

    @property
    def fnwork(self) -> FnworkApp:
        """The app, with its own type."""
        return cast("FnworkApp", self.app)

    def compose(self) -> ComposeResult:
        yield TopBar(self.TAB or cast(Place, self.PLACE))
        yield from self.compose_place()
        yield KeyBar()

    def compose_place(self) -> Iterable[Widget]:
        """The widgets between the bar on top and the footer."""
        raise NotImplementedError
