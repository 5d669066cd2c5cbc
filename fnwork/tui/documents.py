"""The specs that are open in Edit: their text on disk, and the text as it stands in the editor."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fnwork import files
from fnwork.text import harmless

LARGEST = 1 << 20
"""Bytes; a file above this is no spec and is not opened."""


@dataclass
class Document:
    """One spec: `saved` is what the file holds (None: not written yet), `text` what the person has made of it."""

    path: Path
    saved: str | None
    text: str
    stamp: tuple[int, int] | None = None
    """Modification time and size of the file when it was last read or written."""
    unreadable: str = ""
    """Why the file cannot be shown, or nothing."""
    changed_on_disk: bool = False
    """Somebody else has written the file while there are unsaved changes here."""
    history: object = field(default=None, repr=False)
    """The editor's undo history while another document is shown."""

    @property
    def name(self) -> str:
        """The file's stem, as it is."""
        return self.path.stem

    @property
    def modified(self) -> bool:
        """Whether leaving now would lose something."""
        return not self.unreadable and self.text != self.saved


class Documents:
    """The specs of one folder, those not written yet included."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._by_path: dict[Path, Document] = {}

    def __iter__(self) -> Iterator[Document]:
        return iter(sorted(self._by_path.values(), key=lambda document: document.name.lower()))

    def __len__(self) -> int:
        return len(self._by_path)

    def get(self, path: Path) -> Document | None:
        """The document of a path, if there is one."""
        return self._by_path.get(path)

    @property
    def modified(self) -> list[Document]:
        """Those with unsaved changes."""
        return [document for document in self if document.modified]

    def look(self) -> tuple[list[Document], bool]:
        """Compare with the folder: the documents whose text or warning changed, and whether the list did."""
        found = set(self._spec_files())
        gone = [path for path, document in self._by_path.items() if path not in found and document.saved is not None]
        changed: list[Document] = []
        for path in gone:
            document = self._by_path[path]
            if document.modified:
                document.saved, document.stamp, document.changed_on_disk = None, None, False
                changed.append(document)
            else:
                del self._by_path[path]
        new = [path for path in found if path not in self._by_path]
        for path in new:
            self._by_path[path] = _read(path)
        changed += [document for path in found.difference(new) if (document := self._reread(path)) is not None]
        return changed, bool(gone or new)

    def _spec_files(self) -> Iterator[Path]:
        try:
            yield from (path for path in self.folder.glob("*.toml") if path.is_file() and path.name[0] != ".")
        except OSError:
            return

    def _reread(self, path: Path) -> Document | None:
        document = self._by_path[path]
        if _stamp(path) == document.stamp:
            return None
        fresh = _read(path)
        document.stamp = fresh.stamp
        if fresh.saved == document.saved and fresh.unreadable == document.unreadable:
            return None
        if document.modified and not fresh.unreadable:
            document.changed_on_disk = fresh.saved != document.text
            document.saved = fresh.saved
        elif not document.modified:
            document.saved, document.text, document.unreadable = fresh.saved, fresh.text, fresh.unreadable
            document.history = None
        return document

    def add(self, text: str, name: str) -> Document:
        """A new document, not written yet, under the first free name like `name`."""
        path = self.free_path(name)
        document = self._by_path[path] = Document(path, None, _named(text, path.stem))
        return document

    def neighbour(self, document: Document) -> Document | None:
        """The next one in the list, or the one before the last."""
        listed = list(self)
        at = listed.index(document)
        return next(iter(listed[at + 1 :] or reversed(listed[:at])), None)

    def free_path(self, name: str) -> Path:
        """`name.toml` in the folder, or `name-2.toml`, ... if that is taken."""
        stem = re.sub(r"[^a-z0-9._-]", "", name.lower()).lstrip("._-")[:64] or "experiment"
        path, number = self.folder / f"{stem}.toml", 1
        while path in self._by_path or path.exists():
            number += 1
            path = self.folder / f"{stem}-{number}.toml"
        return path

    def save(self, document: Document) -> None:
        """Write the document's text to its file. OSError if that cannot be done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files.replace(document.path, document.text.encode("utf-8"))
        document.saved, document.stamp, document.changed_on_disk = document.text, _stamp(document.path), False

    def save_as(self, document: Document, path: Path) -> Document:
        """Write the text to another file, a document of its own; the old one goes back to its file's text."""
        copy = Document(path, None, document.text)
        self.save(copy)
        self._by_path[path] = copy
        if document.path != path:
            self.discard(document)
        return copy

    def discard(self, document: Document) -> None:
        """Give up the unsaved changes; a document that was never written goes away."""
        if document.saved is None:
            self._by_path.pop(document.path, None)
        else:
            document.text, document.changed_on_disk, document.history = document.saved, False, None


def _named(text: str, name: str) -> str:
    """The text with `name` where it names itself, so that the runs of a copy can be told from the original's."""
    try:
        named = isinstance(tomllib.loads(text.removeprefix("\ufeff")).get("name"), str)
    except (ValueError, RecursionError):
        return text
    if not named:
        return text
    from fnwork.spec_set import apply  # with its parser, not needed for the first screen

    return apply(text, [f"name={name}"])[0]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _read(path: Path) -> Document:
    stamp = _stamp(path)
    try:
        if stamp is not None and stamp[1] > LARGEST:
            return Document(path, "", "", stamp, f"{harmless(path.name)} is larger than 1 MiB: that is not a spec")
        text = files.read_bytes(path).decode("utf-8-sig")
    except OSError as error:
        return Document(path, "", "", stamp, f"{harmless(path.name)} cannot be read: {files.reason(error)}")
    except UnicodeDecodeError as error:
        return Document(path, "", "", stamp, f"{harmless(path.name)} is not UTF-8 text (byte {error.start + 1})")
    return Document(path, text, text, stamp)
