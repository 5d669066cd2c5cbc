"""What happened in a run, but for its updates: epochs, saved files, values that were not finite, warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from fnwork.tui.event_text import describe
from fnwork.tui.figures import clock
from fnwork.tui.theme import colour

_MOST = 500
_INDENT = 10


class EventLog(OptionList):
    """The newest events, one an entry; it follows the end as long as its end is in view."""

    DEFAULT_CSS = """
    EventLog, EventLog:focus {
        height: 1fr; border: none; padding: 0; background: transparent;
        scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    EventLog > .option-list--option { padding: 0; }
    EventLog > .option-list--option-highlighted { background: transparent; text-style: none; }
    EventLog:focus > .option-list--option-highlighted {
        background: $block-cursor-blurred-background; color: $foreground; text-style: none;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._shown: list[Mapping[str, Any]] = []
        self._width = 0
        self._follows = True
        """Whether the end was in view when the person last scrolled."""

    def show(self, log: Sequence[Mapping[str, Any]]) -> None:
        """Show these events; those that are shown already stay."""
        newest = list(_worth_telling(log[-_MOST:]))
        if newest == self._shown:
            return
        follows = self._follows
        if self._shown and newest[: len(self._shown)] == self._shown:
            self.add_options([self._entry(event) for event in newest[len(self._shown) :]])
        else:
            self.clear_options()
            self.add_options([self._entry(event) for event in newest])
        self._shown = newest
        self._follows = follows  # whatever the scrolling that comes with new entries was
        if follows:
            self.call_after_refresh(self.scroll_end, animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._follows = new_value >= self.max_scroll_y - 1

    def on_resize(self) -> None:
        width = self.scrollable_content_region.width
        if width != self._width:
            self._width, self._follows = width, True
            shown, self._shown = self._shown, []
            self.show(shown)
        if self._follows:
            self.call_after_refresh(self.scroll_end, animate=False)

    def _entry(self, event: Mapping[str, Any]) -> Option:
        """A line that is folded below its text, not below its time."""
        room = max(12, self._width - _INDENT)
        mark, paint, text = describe(event, room)
        muted = colour(self.app, "foreground-muted")
        words = ("\n" + " " * _INDENT).join(wrap(text, room))
        return Option(
            Text.assemble(
                (f"{clock(event['t']):>7} ", muted),
                (f"{mark} ", colour(self.app, paint)),
                (words, muted if paint == "foreground-muted" else colour(self.app, "foreground")),
            )
        )


def _worth_telling(log: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """All but what goes without saying: the checkpoints at each epoch's end, and a symptom that was never there."""
    at_end = None
    alarmed: set[Any] = set()
    for event in log:
        kind, symptom, state = event["kind"], str(event.get("symptom")), event.get("state")
        if kind == "epoch":
            at_end = event.get("step")
        if kind == "checkpoint" and event.get("step") == at_end:
            continue
        if kind == "check" and state not in ("watch", "firing") and symptom not in alarmed:
            continue
        if kind == "check":
            alarmed.add(symptom)
        yield event
