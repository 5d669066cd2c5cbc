"""The list of specs in Edit."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from fnwork.text import harmless
from fnwork.tui.documents import Document
from fnwork.tui.theme import colour

_MOVES = {
    "up": "cursor_up",
    "down": "cursor_down",
    "home": "first",
    "end": "last",
    "pageup": "page_up",
    "pagedown": "page_down",
}


class SpecList(OptionList):
    """One entry a spec: its name, a dot if it has unsaved changes, and under it the data set and the network."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # At once: keys that come in a burst act in their order, and those after Enter in the text.
        *(Binding(key, action, show=False, priority=True) for key, action in _MOVES.items()),
        Binding("enter,e", "screen.edit_text", show=False, priority=True),
    ]

    short = False
    """Names alone, for small screens."""

    @property
    def chosen(self) -> Path | None:
        """The file of the highlighted entry."""
        return Path(self.highlighted_option.id or "") if self.highlighted_option is not None else None

    def show(self, documents: Iterable[Document], current: Document | None) -> None:
        """Show these, with `current` highlighted."""
        documents = list(documents)
        with self.prevent(OptionList.OptionHighlighted):
            self.clear_options()
            self.add_options(Option(self._entry(document), id=str(document.path)) for document in documents)
            if current in documents:
                self.highlighted = documents.index(current)

    def update_entry(self, document: Document) -> None:
        """Show a document's name and dot anew."""
        self.replace_option_prompt(str(document.path), self._entry(document))

    def _entry(self, document: Document) -> Text:
        mark, style = " ", ""
        if document.unreadable:
            mark, style = "✗", colour(self.app, "error")
        elif document.changed_on_disk:
            mark, style = "!", colour(self.app, "warning")
        elif document.modified:
            mark, style = "●", colour(self.app, "accent")
        entry = Text(no_wrap=True, overflow="ellipsis")
        entry.append(f"{mark} ", style)
        entry.append(harmless(document.name))
        if not self.short:
            entry.append(f"\n  {_summary(document)}", "dim")
        return entry


def _summary(document: Document) -> str:
    """Data set and network of a spec, as far as the text tells."""
    if document.unreadable:
        return "cannot be shown"
    try:
        tables = tomllib.loads(document.text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return "not TOML yet"
    data, model = tables.get("data"), tables.get("model")
    dataset = data.get("dataset") if isinstance(data, dict) else None
    network = model.get("preset", "layers" if "layers" in model else None) if isinstance(model, dict) else None
    words = [harmless(word) for word in (dataset, network) if isinstance(word, str)]
    return " · ".join(words) or "empty"
