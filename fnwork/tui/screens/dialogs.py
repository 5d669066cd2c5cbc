"""Questions over a place: a choice, a file name, the key help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Static

from fnwork.tui import keys
from fnwork.tui.theme import colour


@dataclass(frozen=True)
class Choice:
    """One answer of a question; `key` is a letter of its label."""

    id: str
    key: str
    label: str
    destructive: bool = False


CANCEL = Choice("cancel", "c", "Cancel")


class Ask(ModalScreen[str]):
    """A question with a few answers; gives the id of the one chosen, "cancel" for Escape."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel"),
        Binding("left,up", "app.focus_previous", "Previous", show=False),
        Binding("right,down", "app.focus_next", "Next", show=False),
        Binding("space", "press", "Press", show=False),
    ]

    def __init__(self, title: str, text: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self.title_text, self.text, self.choices = title, text, choices

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = Text(self.title_text)
            with VerticalScroll(classes="dialog-text", can_focus=False):
                yield Static(self.text, markup=False)
            with Horizontal(classes="dialog-buttons"):
                for choice in self.choices:
                    yield Button(
                        _underlined(choice),
                        id=choice.id,
                        variant="error" if choice.destructive else "default",
                        compact=True,
                    )

    def on_mount(self) -> None:
        """Enter must lose nothing: a destructive answer is never the one that is ready."""
        first = "cancel" if self.choices[0].destructive else self.choices[0].id
        self.query_one(f"#{first}", Button).focus()

    def on_key(self, event: Key) -> None:
        for choice in self.choices:
            if event.character is not None and event.character.lower() == choice.key:
                event.stop()
                self.dismiss(choice.id)

    @on(Button.Pressed)
    def choose(self, event: Button.Pressed) -> None:
        """Give the answer whose button was pressed."""
        self.dismiss(event.button.id or "cancel")

    def action_press(self) -> None:
        """Press the button that the keys go to."""
        if isinstance(self.focused, Button):
            self.focused.press()

    def action_cancel(self) -> None:
        """Leave everything as it is."""
        self.dismiss("cancel")


def _underlined(choice: Choice) -> Text:
    """The label with the letter underlined that chooses it."""
    label = Text(choice.label)
    at = choice.label.lower().index(choice.key)
    label.stylize("underline", at, at + 1)
    return label


class AskName(ModalScreen[str | None]):
    """Asks for a name; `complaint(name)` says what is wrong with it, or nothing. Gives None for Escape."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel")]

    def __init__(self, title: str, hint: str, value: str, complaint: Callable[[str], str]) -> None:
        super().__init__()
        self.title_text, self.hint, self.value, self.complaint = title, hint, value, complaint

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = Text(self.title_text)
            yield Static(self.hint, markup=False, classes="dialog-hint")
            yield Input(self.value, select_on_focus=True)
            yield Label("", markup=False, classes="dialog-complaint")
            yield Static("Enter to accept   Esc to cancel", classes="dialog-keys")

    @on(Input.Changed)
    def check(self, event: Input.Changed) -> None:
        """Say what is wrong while the name is typed."""
        self.query_one(".dialog-complaint", Label).update(self.complaint(event.value.strip()))

    @on(Input.Submitted)
    def accept(self, event: Input.Submitted) -> None:
        """Give the name, if nothing is wrong with it."""
        name = event.value.strip()
        if not self.complaint(name):
            self.dismiss(name)

    def action_cancel(self) -> None:
        """Give no name."""
        self.dismiss(None)


class Help(ModalScreen[None]):
    """All keys of a place and those that work everywhere."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,question_mark,q", "close", "Close")]

    def __init__(self, place: keys.Owner) -> None:
        super().__init__()
        self.place = place

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog help") as dialog:
            dialog.border_title = "Keys"
            dialog.border_subtitle = "Esc to close"
            yield Static(self.place.title(), classes="help-title")
            yield Static(self._table(keys.of_place(self.place)))
            yield Static("Everywhere", classes="help-title -later")
            yield Static(self._table(keys.of_place("everywhere")))

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def _table(self, actions: Sequence[keys.Action]) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(width=14, no_wrap=True, style=colour(self.app, "footer-key-foreground"))
        table.add_column(width=14, no_wrap=True)
        table.add_column(style=colour(self.app, "foreground-muted"))
        for action in actions:
            shown = "  ".join(self.app.get_key_display(binding) for binding in keys.each_key(action))
            table.add_row(Text(shown), Text(action.label), Text(action.tooltip))
        return table

    def action_close(self) -> None:
        """Back to the place."""
        self.dismiss()
