"""Edit: the specs, their text with its errors, and what the text comes to."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.table import Table
from rich.text import Text
from textual import on, work
from textual.containers import Container, Vertical, VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.errors import InputError
from fnwork.files import reason
from fnwork.text import harmless
from fnwork.tui import keys
from fnwork.tui.documents import Document, Documents
from fnwork.tui.place import PlaceScreen
from fnwork.tui.screens.dialogs import CANCEL, Ask, AskName, Choice
from fnwork.tui.theme import colour
from fnwork.tui.widgets.spec_editor import SpecEditor, as_shown
from fnwork.tui.widgets.spec_list import SpecList
from fnwork.tui.widgets.spec_outlook import SpecOutlook

if TYPE_CHECKING:
    from fnwork.outlook import Outlook
    from fnwork.spec import Problem

FIRST_SPEC = "fashion-cnn"
TYPING_PAUSE = 0.15
"""Seconds without a key after which the text is judged."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9_-])?")
_WIDE = 110
"""Columns from which the figures have a column of their own."""

_NEED_TEXT = ("launch", "save_as", "duplicate", "edit_text", "remove")
_TEMPLATE = """\
# Every key has a default but these two. F5 trains this spec.

[data]
dataset = "fashion-mini"

[model]
preset = "mlp"

[train]
epochs = 10
lr = 1e-3
"""


class EditScreen(PlaceScreen):
    """The place where experiments are written."""

    PLACE = "edit"
    CSS_PATH = "edit.tcss"
    BINDINGS = keys.bindings("edit")
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [(0, "-narrow"), (_WIDE, "-wide"), (150, "-widest")]

    class Judged(Message):
        """What a text turned out to be; comes from the worker thread."""

        def __init__(self, text: str, problems: Sequence[Problem], outlook: Outlook | None, why_not: str) -> None:
            super().__init__()
            self.text, self.problems, self.outlook, self.why_not = text, problems, outlook, why_not

    def __init__(self) -> None:
        super().__init__()
        self.current: Document | None = None
        self._problems: Sequence[Problem] = ()
        self._to_open: tuple[str, str] | None = None
        """Text and name of a new spec that was asked for before the place was there."""
        self._judging = False
        self._pause: Timer | None = None

    def compose_place(self) -> Iterable[Widget]:
        with Container(id="areas"):
            yield SpecList(id="specs", classes="pane")
            with Vertical(id="text-pane", classes="pane"):
                yield Static("", id="notice", markup=False)
                yield SpecEditor(id="text")
                yield OptionList(id="problems")
            with VerticalScroll(id="outlook-pane", classes="pane"):
                yield SpecOutlook(id="outlook")

    def on_mount(self) -> None:
        self.documents = Documents(self.fnwork.archive.specs)
        self.specs.border_title = "Specs"
        self.query_one("#outlook-pane").border_title = "Before training"
        self.documents.look()
        first = self.documents.get(self.documents.folder / f"{FIRST_SPEC}.toml")
        self.show_document(first or next(iter(self.documents), None))
        self.specs.focus()
        if self._to_open is not None:
            self.open_text(*self._to_open)
        self.set_interval(1.0, self.look_at_folder)

    def on_resize(self, event: Resize) -> None:
        short = event.size.width < _WIDE
        if short != self.specs.short:
            self.specs.short = short
            self.specs.show(self.documents, self.current)

    @property
    def editor(self) -> SpecEditor:
        """The text."""
        return self.query_one(SpecEditor)

    @property
    def specs(self) -> SpecList:
        """The list."""
        return self.query_one(SpecList)

    # What is shown

    def show_document(self, document: Document | None) -> None:
        """Put a document into the editor, and mark it in the list."""
        if self.current is not None:
            self.current.history = copy.deepcopy(self.editor.history)
        self.current = document
        with self.prevent(SpecEditor.Changed):
            self.editor.load_text(document.text if document else "")
        if document is not None and document.history is not None:
            self.editor.history = document.history
        self.editor.read_only = document is None or bool(document.unreadable)
        self.specs.show(self.documents, document)
        self._show_problems(())
        self._show_notice()
        self._judge_soon()

    def _show_again(self, document: Document) -> None:
        """Show a document whose text was replaced from outside the editor, or the first one if it is gone."""
        self.current = None
        self.show_document(self.documents.get(document.path) or next(iter(self.documents), None))

    def _show_notice(self) -> None:
        """Name, dot and whatever has to be said about the file itself."""
        document = self.current
        notice = self.query_one("#notice", Static)
        said = ""
        if document is None:
            said = "No spec here yet: n begins a new one."
        elif document.unreadable:
            said = document.unreadable
        elif document.changed_on_disk:
            said = "The file has changed on disk. Ctrl+s asks which text to keep, u takes the file's."
        notice.update(said)
        notice.set_class(bool(said), "-shown")
        pane = self.query_one("#text-pane")
        title = Text(harmless(document.path.name) if document else "")
        if document is not None and document.modified:
            title.append(" ●", colour(self.app, "accent"))
            title.append(" new" if document.saved is None else " unsaved")
        pane.border_title = title
        self.refresh_bindings()

    def look_at_folder(self) -> None:
        """Take over what has changed on disk."""
        if not self.is_current:
            return
        changed, list_changed = self.documents.look()
        if self.current is not None and self.documents.get(self.current.path) is not self.current:
            self.notify(f"{harmless(self.current.path.name)} is gone from the disk", markup=False)
            self._show_again(self.current)
        elif self.current is None and len(self.documents):
            self.show_document(next(iter(self.documents)))
        elif self.current in changed and not self.current.modified:
            self.notify(f"{harmless(self.current.path.name)} has changed on disk and was read again", markup=False)
            self._show_again(self.current)
        elif list_changed or changed:
            self.specs.show(self.documents, self.current)
            self._show_notice()

    def open_text(self, text: str, name: str) -> None:
        """Show a text as a new spec that is not saved yet; waits for the place to be there."""
        if not self.query(SpecEditor):
            self._to_open = (text, name)
            return
        self.show_document(self.documents.add(text, name))
        self.editor.focus()

    # Typing, and what the text turns out to be

    @on(SpecEditor.Changed)
    def take_text(self) -> None:
        """Keep what was typed."""
        document = self.current
        if document is None:
            return
        before = document.modified
        shown = self.editor.text
        same = document.saved is not None and shown == as_shown(document.saved)
        document.text = document.saved if same and document.saved is not None else shown
        if document.modified != before:
            self._show_notice()
            self.specs.update_entry(document)
        self._judge_soon()

    def _judge_soon(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(TYPING_PAUSE, self._judge_now)

    def _judge_now(self) -> None:
        if self.current is None or self.current.unreadable:
            self.query_one(SpecOutlook).show(None, "Nothing to look at.")
            self._show_problems(())
        elif not self._judging:
            self._judging = True
            self.judge(self.current.text, self.current.path.parent)

    @work(thread=True, group="judge", exit_on_error=False)
    def judge(self, text: str, folder: Path) -> None:
        """Find the errors and figures of a text, away from the keys."""
        problems: Sequence[Problem] = ()
        outlook, why_not = None, ""
        try:
            from fnwork.outlook import outlook as figures
            from fnwork.spec import problems as problems_of

            problems = problems_of(text)
            if not problems:
                outlook = figures(text, folder)
        except InputError as error:
            problems, why_not = getattr(error, "problems", ()), str(error)
        except BaseException as error:
            why_not = f"The figures cannot be told: {type(error).__name__}: {error}"
        self.post_message(self.Judged(text, problems, outlook, why_not))

    @on(Judged)
    def take_judgement(self, message: Judged) -> None:
        """Show errors and figures, unless the text has changed since."""
        self._judging = False
        if self.current is None or message.text != self.current.text:
            self._judge_soon()
            return
        self.specs.update_entry(self.current)
        self._show_problems(message.problems)
        if message.problems:
            message.why_not = "Figures come when the spec is right."
        self.query_one(SpecOutlook).show(message.outlook, harmless(message.why_not, keep_lines=True))

    def _show_problems(self, problems: Sequence[Problem]) -> None:
        if tuple(problems) == tuple(self._problems):
            return
        self._problems = problems
        self.editor.show_problems(problems)
        listed = self.query_one("#problems", OptionList)
        listed.clear_options()
        listed.add_options(Option(self._problem_line(problem)) for problem in problems)
        listed.highlighted = 0 if problems else None
        listed.set_class(bool(problems), "-shown")
        listed.border_title = f"{len(problems)} error{'s' if len(problems) != 1 else ''}"
        self.refresh_bindings()

    def _problem_line(self, problem: Problem) -> Table:
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(justify="right", min_width=5, no_wrap=True, style=colour(self.app, "error"))
        line.add_column()
        line.add_row(f"{problem.line}:{problem.column}", Text(harmless(problem.message)))
        return line

    @on(OptionList.OptionSelected, "#problems")
    def go_to_problem(self, event: OptionList.OptionSelected) -> None:
        """Put the cursor where the error is."""
        problem = self._problems[event.option_index]
        self.editor.go_to(problem.line, problem.column)

    @on(OptionList.OptionHighlighted, "#specs")
    def show_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the spec that the list's cursor is on."""
        document = self.documents.get(Path(event.option.id or ""))
        if document is not None and document is not self.current:
            self.show_document(document)

    @on(OptionList.OptionSelected, "#specs")
    def edit_selected(self) -> None:
        """Go from the list to the text."""
        self.editor.focus()

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        document = self.current
        if action in _NEED_TEXT and (document is None or document.unreadable):
            return None
        if action in ("save", "revert") and (document is None or not document.modified):
            return None
        return action != "next_problem" or bool(self._problems)

    def action_edit_text(self) -> None:
        self.editor.focus()

    def action_to_list(self) -> None:
        self.specs.focus()

    def action_next_problem(self) -> None:
        """Go to the first error behind the cursor, or to the first of all."""
        row, column = self.editor.cursor_location
        places = sorted((problem.line, problem.column) for problem in self._problems)
        if places:
            self.editor.go_to(*next((place for place in places if place > (row + 1, column + 1)), places[0]))

    def action_launch(self) -> None:
        """Train the text as it stands; it need not be saved, the archive keeps what was trained."""
        from fnwork.spec import SpecError, parse

        document = self.current
        if document is None:
            return
        try:
            spec = parse(document.text, document.path.name)
        except SpecError as error:
            self._show_problems(error.problems)
            self.editor.go_to(error.problems[0].line, error.problems[0].column)
            self.notify("This spec has errors: nothing was started", severity="error")
            return
        if not self.fnwork.launch(spec, document.text, document.path.parent, document.name):
            self.notify("A run is going on: stop it in Live first (s)", severity="warning")

    def action_save(self) -> None:
        """Write the text to its file; asks if somebody else has changed that."""
        if self.current is not None and self.current.changed_on_disk:
            self._save_over()
        elif self.current is not None:
            self.save(self.current)

    @work
    async def _save_over(self) -> None:
        document = self.current
        if document is None:
            return
        answer = await self.app.push_screen_wait(
            Ask(
                "Changed on disk",
                f"{harmless(document.path.name)} was changed by something else since it was opened here.",
                [Choice("mine", "m", "Keep mine", destructive=True), Choice("theirs", "f", "Take the file's"), CANCEL],
            )
        )
        if answer == "mine":
            self.save(document)
        elif answer == "theirs":
            self._discard(document)

    def save(self, document: Document) -> bool:
        """Write a document; says so, and says why if it cannot be done."""
        try:
            self.documents.save(document)
        except OSError as error:
            self.notify(
                f"{harmless(document.path.name)} could not be written: {reason(error)}. The text is still here.",
                severity="error",
                markup=False,
            )
            return False
        self.specs.show(self.documents, self.current)
        self._show_notice()
        return True

    @work
    async def action_save_as(self) -> None:
        """Write the text to another file."""
        document = self.current
        name = await self._ask_name("Save as", document.name if document else "")
        if document is None or name is None:
            return
        try:
            copy = self.documents.save_as(document, self.documents.folder / f"{name}.toml")
        except OSError as error:
            self.notify(f"{name}.toml could not be written: {reason(error)}", severity="error", markup=False)
            return
        self.show_document(copy)

    @work
    async def action_new(self) -> None:
        """Begin a new spec."""
        name = await self._ask_name("New spec", "")
        if name is not None:
            self.open_text(_TEMPLATE, name)

    def action_duplicate(self) -> None:
        """Begin a new spec from a copy of this one."""
        if self.current is not None:
            self.open_text(self.current.text, self.current.name)

    async def _ask_name(self, title: str, value: str) -> str | None:
        hint = f"A name in {harmless(self.documents.folder)}, without .toml"
        return await self.app.push_screen_wait(AskName(title, hint, value, self._complaint))

    def _complaint(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            return "a-z 0-9 . _ - only, beginning with a letter or digit"
        path = self.documents.folder / f"{name}.toml"
        if self.documents.get(path) is not None or path.exists():
            return f"{name}.toml is there already"
        return ""

    @work
    async def action_revert(self) -> None:
        """Give up the unsaved changes, after asking."""
        document = self.current
        if document is None:
            return
        what = "It was never saved, so it will be gone." if document.saved is None else "The file's text comes back."
        choices = [Choice("discard", "d", "Discard changes", destructive=True), CANCEL]
        answer = await self.app.push_screen_wait(Ask(f"Discard changes of {harmless(document.name)}?", what, choices))
        if answer == "discard":
            self._discard(document)

    def _discard(self, document: Document) -> None:
        self.documents.discard(document)
        self._show_again(document)

    @work
    async def action_remove(self) -> None:
        """Delete the spec's file, after asking."""
        document = self.current
        if document is None:
            return
        text = "Runs that were made from it keep their own copy."
        choices = [Choice("delete", "d", "Delete", destructive=True), CANCEL]
        if await self.app.push_screen_wait(Ask(f"Delete {harmless(document.path.name)}?", text, choices)) != "delete":
            return
        try:
            document.path.unlink(missing_ok=True)
        except OSError as error:
            self.notify(f"It could not be deleted: {reason(error)}", severity="error", markup=False)
            return
        document.saved = None
        self._discard(document)
