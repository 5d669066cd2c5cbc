"""The line at the bottom: the keys that work now."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding
from textual.events import Click
from textual.screen import Screen
from textual.widgets import Static

from fnwork.tui.theme import colour


class KeyBar(Static):
    """The keys of the actions that the table marks for the footer; those that cannot be done now are dim.

    One widget that draws one line, where Textual's footer mounts a widget a key whenever the focus moves.
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._shown: list[tuple[Binding, bool]] = []
        self._ends: list[tuple[int, Binding, bool]] = []

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())
        self._bindings_changed(self.screen)

    def _bindings_changed(self, screen: Screen[object]) -> None:
        first: dict[str, tuple[Binding, bool]] = {}
        for active in screen.active_bindings.values():
            if active.binding.show:
                first.setdefault(active.binding.action, (active.binding, active.enabled))
        if list(first.values()) != self._shown:
            self._shown = list(first.values())
            self._draw()

    def _draw(self) -> None:
        line = Text(no_wrap=True, overflow="ellipsis")
        self._ends = []
        for binding, enabled in self._fitting():
            dim = "" if enabled else " dim"
            line.append(
                f" {self.app.get_key_display(binding)}", f"bold {colour(self.app, 'footer-key-foreground')}{dim}"
            )
            line.append(f" {binding.description} ", f"{colour(self.app, 'footer-description-foreground')}{dim}")
            self._ends.append((line.cell_len, binding, enabled))
        self.update(line)

    def on_resize(self) -> None:
        self._draw()

    def _fitting(self) -> list[tuple[Binding, bool]]:
        """Those there is room for; the keys that work everywhere, Help among them, stay."""
        shown = list(self._shown)
        others = [pair for pair in shown if not (pair[0].id or "").startswith("everywhere.")]
        while others and sum(map(self._width, shown)) > self.size.width:
            shown.remove(others.pop())
        return shown

    def _width(self, shown: tuple[Binding, bool]) -> int:
        return cell_len(f" {self.app.get_key_display(shown[0])} {shown[0].description} ")

    def on_click(self, event: Click) -> None:
        """Press the key that was clicked."""
        for end, binding, enabled in self._ends:
            if event.x < end:
                if enabled:
                    self.app.simulate_key(binding.key)
                return
