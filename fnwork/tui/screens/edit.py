"""Edit: the specs, their text with its errors, and what the text comes to."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on, work
from textual.containers import Container, Vertical, VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import OptionList, Static

from fnwork.text import harmless
from fnwork.tui import keys
from fnwork.tui.documents import Document, Documents
from fnwork.tui.judgement import Judgement, judge
from fnwork.tui.screens.spec_files import SpecFilesScreen
from fnwork.tui.theme import colour
from fnwork.tui.widgets.problem_list import ProblemList
from fnwork.tui.widgets.spec_editor import SpecEditor, as_shown
from fnwork.tui.widgets.spec_list import SpecList
from fnwork.tui.widgets.spec_outlook import SpecOutlook

if TYPE_CHECKING:
    from fnwork.spec import Problem

FIRST_SPEC = "fashion-cnn"
TYPING_PAUSE = 0.15
"""Seconds without a key after which the text is judged."""

_WIDE = 110
"""Columns from which the figures have a column of their own."""
_NARROW = 76
"""Columns from which list and figures share a column beside the text."""
_TALL = 24
"""Lines from which there is room for all figures."""
_COPY_IS_KEPT = "F5 trains it; the run keeps a copy"

_NEED_TEXT = ("launch", "save_as", "duplicate", "edit_text", "undo", "redo", "remove")


class EditScreen(SpecFilesScreen):
    """The place where experiments are written."""

    BINDINGS = keys.bindings("edit")
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [
        (0, "-slim"),
        (_NARROW, "-narrow"),
        (_WIDE, "-wide"),
        (150, "-widest"),
    ]
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [
        (0, "-flat"),
        (9, "-low"),
        (15, "-some"),
        (_TALL, "-tall"),
        (36, "-high"),
    ]

    class Judged(Message):
        """What a text turned out to be; comes from the worker thread."""

        def __init__(self, judgement: Judgement) -> None:
            super().__init__()
            self.judgement = judgement

    def __init__(self) -> None:
        super().__init__()
        self.problems = ProblemList(id="problems")
        self._remark = ""
        """What happened to the shown text from outside, until a key is typed."""
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
                yield self.problems
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
        self._hold_judging()
        self.set_interval(1.0, self.look_at_folder)

    def on_resize(self, event: Resize) -> None:
        short = event.size.width < _WIDE
        if short != self.specs.short:
            self.specs.short = short
            self.specs.show(self.documents, self.current)
        self.query_one(SpecOutlook).set_short(event.size.width < _NARROW or event.size.height < _TALL)

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
        self.current, self._remark = document, ""
        with self.prevent(SpecEditor.Changed):
            self.editor.load_text(document.text if document else "")
        if document is not None and document.history is not None:
            self.editor.history = document.history
        self.editor.read_only = document is None or bool(document.unreadable)
        self.specs.show(self.documents, document)
        self._show_problems(())
        self._show_notice()
        self._judge_soon()

    def _show_again(self, document: Document, remark: str) -> None:
        """Show a document whose text was replaced from outside, or the first one if it is gone; the remark says so."""
        self.current = None
        self.show_document(self.documents.get(document.path) or next(iter(self.documents), None))
        self._remark = remark
        self._show_notice()

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
            said = f"The file has changed on disk. {self._key('save')} asks whether to keep this text or the file's."
        notice.update(said)
        notice.set_class(bool(said), "-shown")
        pane = self.query_one("#text-pane")
        title = Text(harmless(document.path.name) if document else "")
        if document is not None and document.modified:
            title.append(" ●", colour(self.app, "accent"))
            title.append(" new" if document.saved is None else " unsaved")
        pane.border_title = title
        kept = _COPY_IS_KEPT if document is not None and document.modified else ""
        pane.border_subtitle = Text(self._remark, colour(self.app, "warning")) if self._remark else kept
        self.refresh_bindings()

    def _key(self, action: str) -> str:
        """The first key of an action, as it is shown."""
        return self.app.get_key_display(keys.each_key(next(a for a in keys.of_place("edit") if a.id == action))[0])

    def look_at_folder(self) -> None:
        """Take over what has changed on disk."""
        if not self.is_current:
            return
        changed, list_changed = self.documents.look()
        if self.current is not None and self.documents.get(self.current.path) is not self.current:
            self._show_again(self.current, f"{harmless(self.current.path.name)} is gone from the disk")
        elif self.current is None and len(self.documents):
            self.show_document(next(iter(self.documents)))
        elif self.current in changed and not self.current.modified:
            self._show_again(self.current, "changed on disk and read again")
        elif list_changed or changed:
            self.show_files()

    def show_files(self) -> None:
        self.specs.show(self.documents, self.current)
        self._show_notice()

    def focus_list(self) -> None:
        self.specs.focus()

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
        if document.modified != before or self._remark:
            self._remark = ""
            self._show_notice()
            self.specs.update_entry(document)
        self._judge_soon()

    def _hold_judging(self) -> None:
        """Judge nothing, which imports the engine, before the first picture is on the screen."""
        if self._pause is not None:
            self._pause.stop()
        self.call_after_refresh(self._judge_soon)

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
            self._judge(self.current.text, self.current.path.parent)

    @work(thread=True, group="judge", exit_on_error=False)
    def _judge(self, text: str, folder: Path) -> None:
        """Judge away from the keys."""
        self.post_message(self.Judged(judge(text, folder)))

    @on(Judged)
    def take_judgement(self, message: Judged) -> None:
        """Show errors and figures, unless the text has changed since."""
        self._judging = False
        judgement = message.judgement
        if self.current is None or judgement.text != self.current.text:
            self._judge_soon()
            return
        self.specs.update_entry(self.current)
        self._show_problems(judgement.problems)
        self.query_one(SpecOutlook).show(judgement.outlook, harmless(judgement.why_not, keep_lines=True))

    def _show_problems(self, problems: Sequence[Problem], remark: str = "") -> None:
        if self.problems.show(problems, remark):
            self.editor.show_problems(problems)
            self.refresh_bindings()

    @on(OptionList.OptionSelected, "#problems")
    def go_to_problem(self, event: OptionList.OptionSelected) -> None:
        """Put the cursor where the error is."""
        problem = self.problems.problems[event.option_index]
        self.editor.go_to(problem.line, problem.column)

    @on(OptionList.OptionHighlighted, "#specs")
    def show_highlighted(self) -> None:
        """Show the spec that the list's cursor is on, which may have moved on since the message."""
        document = self.documents.get(self.specs.chosen) if self.specs.chosen else None
        if document is not None and document is not self.current:
            self.show_document(document)

    @on(OptionList.OptionSelected, "#specs")
    def edit_selected(self) -> None:
        """Go from the list to the text."""
        self.action_edit_text()

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        document = self.current
        if action in _NEED_TEXT and (document is None or document.unreadable):
            return None
        if action in ("save", "revert") and (document is None or not document.modified):
            return None
        return action != "next_problem" or bool(self.problems.problems)

    def action_edit_text(self) -> None:
        """Go to the text of the highlighted spec, at once: what is typed next belongs there."""
        self.show_highlighted()
        self.set_focus(self.editor)

    def action_to_list(self) -> None:
        self.focus_list()

    def action_undo(self) -> None:
        """Take back the last change of the text, also while the list has the keys."""
        self.editor.undo()

    def action_redo(self) -> None:
        self.editor.redo()

    def action_next_problem(self) -> None:
        """Go to the first error behind the cursor, or to the first of all."""
        row, column = self.editor.cursor_location
        places = [(problem.line, problem.column) for problem in self.problems.problems]
        if places:
            place = min((place for place in places if place > (row + 1, column + 1)), default=min(places))
            self.problems.highlighted = places.index(place)  # what it says may be out of view
            self.editor.go_to(*place)

    def action_launch(self) -> None:
        """Train the text as it stands; it need not be saved, the archive keeps what was trained."""
        from fnwork.spec import SpecError, parse

        document = self.current
        if document is None:
            return
        try:
            spec = parse(document.text, document.path.name)
        except SpecError as error:
            self._show_problems(error.problems, "nothing was started")
            self.editor.go_to(error.problems[0].line, error.problems[0].column)
            return
        if not self.fnwork.launch(spec, document.text, document.path.parent, document.name):
            self.notify("A run is going on: stop it in Live first (s)", severity="warning")
