"""The troubleshooting checklist: each symptom with its state, and for the chosen one the numbers, causes and advice."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.geometry import Size
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from fnwork.checklist import FIRING, WATCH
from fnwork.text import harmless
from fnwork.tui.event_text import CHECK_MARKS
from fnwork.tui.theme import colour
from fnwork.tui.watch import Check

_NO_MARK = CHECK_MARKS["cannot tell yet"]
_GRAVITY = {WATCH: 1, FIRING: 2}


class _Details(Static):
    """The text of the highlighted entry, as high as the highest of all: what is below stays where it is."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._texts: Sequence[Text] = ()
        self._width = 0
        self._height = 0

    def show(self, texts: Sequence[Text], chosen: int | None) -> None:
        """Show the text with this number; the others are what may be shown next."""
        self._texts, before = texts, self._height
        # A new layout draws the whole screen anew.
        self.update(texts[chosen] if chosen is not None else "", layout=self._grown() != before)

    def forget(self) -> None:
        """Take no more lines than what is shown next needs."""
        self._height = 0

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if width != self._width:
            self._width, self._height = width, 0
        return self._grown()

    def _grown(self) -> int:
        """Lines, never fewer than before at this width."""
        if self._width:
            heights = (len(text.wrap(self.app.console, self._width)) for text in self._texts)
            self._height = max(self._height, *heights, 0)
        return self._height


class ChecklistView(Vertical):
    """The list of symptoms, and below it what is known about the highlighted one."""

    DEFAULT_CSS = """
    ChecklistView { height: auto; }
    ChecklistView > OptionList, ChecklistView > OptionList:focus {
        height: auto; border: none; padding: 0; background: transparent; scrollbar-size-vertical: 1;
    }
    ChecklistView > OptionList > .option-list--option-highlighted { background: $panel; text-style: none; }
    ChecklistView > OptionList:focus > .option-list--option-highlighted {
        background: $block-cursor-blurred-background; color: $foreground; text-style: none;
    }
    ChecklistView > VerticalScroll { height: auto; max-height: 12; margin: 1 0 0 2; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._checks: list[Check] = []
        self._proposed = 0  # what is highlighted until the person chooses

    def compose(self) -> ComposeResult:
        yield OptionList(markup=False)
        with VerticalScroll(can_focus=False):
            yield _Details()

    @property
    def chosen(self) -> Check | None:
        """The highlighted entry."""
        index = self.query_one(OptionList).highlighted
        return self._checks[index] if index is not None and index < len(self._checks) else None

    def forget(self) -> None:
        """Another run comes: what was chosen in the one before says nothing about it."""
        self._checks = []
        for place in self.query(_Details):  # none while the screen is being made
            place.forget()

    def show(self, checks: Sequence[Check]) -> None:
        """Show these entries."""
        if list(checks) == self._checks:
            return
        options = self.query_one(OptionList)
        old, self._checks = self._checks, list(checks)
        if len(old) != len(self._checks):
            options.clear_options()
            options.add_options(Option(self._line(check)) for check in self._checks)
            options.highlighted = self._proposed = 0 if self._checks else None
        else:
            for index, (before, now) in enumerate(zip(old, self._checks, strict=True)):
                if (before.title, before.state) != (now.title, now.state):
                    options.replace_option_prompt_at_index(index, self._line(now))
        if options.highlighted == self._proposed:
            options.highlighted = self._proposed = _worst(self._checks)
        self._show_chosen()

    def on_option_list_option_highlighted(self) -> None:
        self._show_chosen()

    def _show_chosen(self) -> None:
        muted = colour(self.app, "foreground-muted")
        texts = [details(check, muted) if check.state in _GRAVITY else evidence(check) for check in self._checks]
        self.query_one(_Details).show(texts, self.query_one(OptionList).highlighted if texts else None)

    def on_resize(self) -> None:
        options = self.query_one(OptionList)
        for index, check in enumerate(self._checks):
            options.replace_option_prompt_at_index(index, self._line(check))

    def _line(self, check: Check) -> Text:
        """Mark, title and state; the state that says nothing is left to its mark where there is no room."""
        mark, paint = CHECK_MARKS.get(check.state, _NO_MARK)
        unknown = (mark, paint) == _NO_MARK
        width = max(1, self.content_size.width)
        longest = max(len(each.title) for each in self._checks)
        tell = not unknown or longest + len(check.state) + 4 <= width
        head = Text.assemble((f"{mark} ", f"bold {colour(self.app, paint)}"))
        head.append(harmless(check.title), colour(self.app, "foreground-muted" if unknown else "foreground"))
        state = Text(check.state if tell else "", colour(self.app, paint))
        head.truncate(max(0, width - state.cell_len - 1), overflow="ellipsis", pad=True)
        return Text.assemble(head, " ", state)


def _worst(checks: Sequence[Check]) -> int | None:
    """The first entry of the worst state that there is."""
    return max(range(len(checks)), key=lambda index: _GRAVITY.get(checks[index].state, 0), default=None)


def evidence(check: Check) -> Text:
    """The numbers of one entry."""
    return Text(harmless(check.evidence) or "nothing can be said yet")


def details(check: Check, muted: str) -> Text:
    """The numbers, causes in order and advice of one entry, as a text of several lines."""
    text = evidence(check)
    if check.causes:
        text.append("\nlikely causes: ", muted)
        text.append(harmless("; ".join(check.causes)))
    if check.advice:
        text.append("\nadvice: ", muted)
        text.append(harmless("; ".join(check.advice)))
    return text
