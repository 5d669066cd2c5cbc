"""What a person does with the files of specs in Edit: save, name, copy, give up, delete."""

from __future__ import annotations

import re

from textual import work

from fnwork.files import reason
from fnwork.text import harmless
from fnwork.tui.documents import Document, Documents
from fnwork.tui.place import PlaceScreen
from fnwork.tui.screens.dialogs import CANCEL, Ask, AskName, Choice

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9_-])?")
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


class SpecFilesScreen(PlaceScreen):
    """The part of Edit that writes and removes files; what is shown is the other part's."""

    PLACE = "edit"

    documents: Documents
    current: Document | None = None
    """What is in the editor."""

    def show_document(self, document: Document | None) -> None:
        """Put a document into the editor, and mark it in the list."""
        raise NotImplementedError

    def open_text(self, text: str, name: str) -> None:
        """Show a text as a new spec that is not saved yet."""
        raise NotImplementedError

    def show_files(self) -> None:
        """Show anew which files there are, and what has to be said about them."""
        raise NotImplementedError

    def focus_list(self) -> None:
        """Let the keys go to the list of specs."""
        raise NotImplementedError

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
        self.show_files()
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
        """Back to the file's text; without a file to the neighbour in the list."""
        neighbour = self.documents.neighbour(document)
        self.documents.discard(document)
        kept = self.documents.get(document.path)
        self.current = None
        self.show_document(kept or neighbour)
        if kept is None:
            self.focus_list()

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
