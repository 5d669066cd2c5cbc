"""The text of a spec: TOML colours, and its errors marked at their lines."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.document._document import Document as TextDocument
from textual.events import Key, Resize
from textual.geometry import Offset, Region
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, TextAreaTheme

from fnwork.text import harmless
from fnwork.tui.theme import colour

if TYPE_CHECKING:
    from fnwork.spec import Problem

_HIGHLIGHTS = """
(comment) @comment
(string) @string
(integer) @number
(float) @number
(boolean) @boolean
(offset_date_time) @number
(local_date_time) @number
(local_date) @number
(local_time) @number
(pair (bare_key) @key)
(pair (dotted_key) @key)
(pair (quoted_key) @key)
(table (bare_key) @table)
(table (dotted_key) @table)
(table (quoted_key) @table)
(table_array_element (bare_key) @table)
(table_array_element (dotted_key) @table)
(table_array_element (quoted_key) @table)
["=" "." "," "[" "]" "[[" "]]" "{" "}"] @punctuation
"""


KEPT_LINES = 2000
"""Lines of the screen that are kept as they were drawn."""


def as_shown(text: str) -> str:
    """The text as the editor gives it back unchanged (line ends of one kind)."""
    return TextDocument(text).text


class SpecEditor(TextArea):
    """A text area for TOML; `problems` are marked in the gutter and underlined."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+home", "text_start", "Start of the text", show=False),
        Binding("ctrl+end", "text_end", "End of the text", show=False),
        Binding("ctrl+shift+home", "text_start(True)", "Select to the start", show=False),
        Binding("ctrl+shift+end", "text_end(True)", "Select to the end", show=False),
    ]

    def __init__(self, id: str | None = None) -> None:
        self._drawn: dict[Hashable, Strip] = {}
        self._height = 0
        self._height_before = 0
        super().__init__("", id=id, soft_wrap=True, show_line_numbers=True, tab_behavior="focus", compact=True)
        self.update_highlight_query("toml", _HIGHLIGHTS)
        self.language = "toml"
        self.problems: Sequence[Problem] = ()

    def on_mount(self) -> None:
        self._take_colours()
        self.app.theme_changed_signal.subscribe(self, lambda _: self._take_colours())

    def _take_colours(self) -> None:
        style = {name: Style(color=colour(self.app, variable)) for name, variable in _COLOURS.items()}
        style["comment"] += Style(italic=True)
        style["table"] += Style(bold=True)
        self.register_theme(TextAreaTheme(name="spec", syntax_styles=style))
        self.theme = "spec"
        self._set_theme("spec")
        self.notify_style_update()

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Mark these and no others."""
        self.problems = problems
        self.notify_style_update()
        self.refresh()

    def go_to(self, line: int, column: int) -> None:
        """Put the cursor at a 1-based line and column, or at the nearest place that there is."""
        row = min(max(line - 1, 0), self.document.line_count - 1)
        self.move_cursor((row, min(max(column - 1, 0), len(self.document.get_line(row)))), center=True)
        self.focus()

    def on_resize(self, event: Resize) -> None:
        """Keep the cursor's line in view, if it was, when the errors or a notice take lines from the text."""
        row = self.wrapped_document.location_to_offset(self.cursor_location).y - self.scroll_offset.y
        if 0 <= row < self._height_before:
            self.call_after_refresh(self.scroll_cursor_visible)
        self._height_before = event.size.height

    def edit(self, edit: Edit) -> EditResult:
        """Show the cursor also where the edit made the text longer: a text area scrolls before it knows that it is."""
        result = super().edit(edit)
        self.scroll_cursor_visible()
        return result

    async def _on_key(self, event: Key) -> None:
        """Does what the key is bound to here and now; by way of the screen it would come after letters typed later."""
        bound = None if event.is_printable else self._bindings.key_to_bindings.get(event.key)
        if not bound:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        self._restart_blink()
        await self.run_action(bound[0].action)

    def action_text_start(self, select: bool = False) -> None:
        self.move_cursor((0, 0), select=select)

    def action_text_end(self, select: bool = False) -> None:
        self.move_cursor(self.document.end, select=select)

    def get_line(self, line_index: int) -> Text:
        raw = self.document.get_line(line_index)
        line = Text("\t".join(harmless(part) for part in raw.split("\t")), end="", no_wrap=True)
        mark = Style(color=colour(self.app, "error"), underline=True)
        for problem in self.problems:
            if problem.line == line_index + 1:
                start = min(max(problem.column - 1, 0), max(len(raw) - 1, 0))
                line.stylize(mark, start, start + _word_length(raw[start:]))
        return line

    def notify_style_update(self) -> None:
        self._drawn.clear()
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._height = self.wrapped_document.height
        if len(self._drawn) > KEPT_LINES:
            self._drawn.clear()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One line of the screen; those that look as before are kept, where a text area draws all anew at every key."""
        row = self.scroll_offset.y + y
        if row >= self._height:
            return super().render_line(y)
        line, column = self.wrapped_document.offset_to_location(Offset(0, row))
        if self._is_touched(line):
            return self._marked(super().render_line(y), line, column)
        looks = (
            self.document.get_line(line),
            line,
            column,
            tuple(self.wrapped_document.get_offsets(line)),  # on a resize the size changes before the wrap does
            tuple(self._highlights[line]),
            self.size,
            self.scroll_offset.x,
        )
        strip = self._drawn.get((*looks, self.gutter_width))
        if strip is None:
            strip = self._drawn[(*looks, self.gutter_width)] = self._marked(super().render_line(y), line, column)
        return strip

    def _is_touched(self, line: int) -> bool:
        """Whether cursor, selection or a matching bracket are on the line."""
        first, last = sorted((self.selection.start[0], self.selection.end[0]))
        bracket = self.matching_bracket_location
        return first <= line <= last or (bracket is not None and bracket[0] == line)

    def _marked(self, strip: Strip, line: int, column: int) -> Strip:
        """The line with a mark beside its number if it has a problem."""
        if column or not any(problem.line == line + 1 for problem in self.problems):
            return strip
        width = self.gutter_width
        gutter = strip.crop(0, width)
        style = next((segment.style for segment in gutter if segment.style), Style())
        number = gutter.text[: width - 2]
        marked = Segment(f"{number}✗ ", style + Style(color=colour(self.app, "error"), bold=True))
        return Strip.join([Strip([marked], width), strip.crop(width)])


_COLOURS = {
    "comment": "foreground-muted",
    "string": "success",
    "number": "activations",
    "boolean": "gradients",
    "key": "primary",
    "table": "accent",
    "punctuation": "foreground-muted",
}


def _word_length(text: str) -> int:
    """How many characters belong to the key or value at the start of `text`; at least 1."""
    for length, character in enumerate(text):
        if length and character in " =,]}\t#":
            return length
    return max(len(text), 1)
