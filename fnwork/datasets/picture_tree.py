"""A folder of pictures: which part and which class each file belongs to."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.errors import InputError, nearest
from fnwork.datasets import picture
from fnwork.files import reason
from fnwork.text import first_few, harmless

PART_NAMES = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}
# Beside those that begin with a dot: what file managers and archives leave behind.
_LEFT_BEHIND = frozenset({"thumbs.db", "desktop.ini", "__macosx", "@eadir", "$recycle.bin", "lost.dir"})
_SHAPE = (
    "expected a folder for each class with its pictures in it (cats/1.jpg), or folders train, val and test of such ones"
)
_NAMED = 3


@dataclass(frozen=True)
class Pictures:
    """The pictures of one part, class by class and by name: files below `folder`, class numbers int32, and for each
    file its size and time."""

    folder: Path
    files: tuple[str, ...]
    classes: np.ndarray
    stamps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tree:
    """The parts that a folder has, by name, among them always "train"; the names of the classes, those of train; notes
    about what is left out."""

    classes: tuple[str, ...]
    parts: dict[str, Pictures]
    notes: tuple[str, ...]


def read(folder: Path) -> Tree:
    """Look through a folder; InputError names what in it is not as it should be."""
    if not folder.is_dir():
        raise InputError(f"data.path: {harmless(folder)} is not {'a folder' if folder.exists() else 'there'}")
    places, unused = _part_folders(folder)
    parts = {part: _Part(place) for part, place in places.items()}
    classes = tuple(sorted(name for name, files in parts["train"].by_class.items() if files))
    if len(classes) < 2:
        found = f'only the class "{harmless(classes[0])}"' if classes else "no class folder with pictures in it"
        raise InputError(f"data.path: {harmless(places['train'])} has {found}; {_SHAPE}")
    for part in parts.values():
        part.check_classes(classes)
    notes = [f"{_listed(unused)} beside the train folder: not used"] if unused else []
    return Tree(
        classes,
        {name: part.pictures(classes) for name, part in parts.items()},
        (*notes, *(note for part in parts.values() for note in part.notes())),
    )


def _part_folders(folder: Path) -> tuple[dict[str, Path], list[str]]:
    """Where each part lies, and the names of other folders beside them; the folder itself is the train part where it
    has no parts."""
    names = [entry.name for entry in _entries(folder) if entry.is_dir()]
    found: dict[str, list[str]] = {
        part: [name for name in names if name.lower() in known] for part, known in PART_NAMES.items()
    }
    found = {part: folders for part, folders in found.items() if folders}
    others = [name for name in names if all(name not in folders for folders in found.values())]
    if "train" in found and others and not _has_folders(folder / found["train"][0]):
        return {"train": folder}, []  # a class of trains among other classes
    if not found and len(names) == 1 and _has_folders(folder / names[0]):
        inner = harmless(folder / names[0])
        raise InputError(f'data.path: {harmless(folder)} holds one folder of folders; is path = "{inner}" meant?')
    if found and "train" not in found:
        there = next(iter(found.values()))[0]
        raise InputError(
            f'data.path: {harmless(folder)} has a folder "{harmless(there)}" but none named train; {_SHAPE}'
        )
    for part, folders in found.items():
        if len(folders) > 1:
            raise InputError(f"data.path: {harmless(folder)} has {_listed(folders)}: which is the {part} part?")
    return (
        ({part: folder / folders[0] for part, folders in found.items()}, others) if found else ({"train": folder}, [])
    )


def _has_folders(folder: Path) -> bool:
    return any(entry.is_dir() for entry in _entries(folder))


class _Part:
    """What lies in the folder of one part."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.by_class: dict[str, list[os.DirEntry[str]]] = {}
        self._loose: list[str] = []
        self._others: list[str] = []
        for entry in _entries(folder):
            if entry.is_dir():
                self.by_class[entry.name] = self._pictures_of(Path(entry.path))
            elif _is_picture(entry):
                self._loose.append(entry.name)
        if not self.by_class:
            what = "pictures, but no folders" if self._loose else "no folders with pictures"
            raise InputError(f"data.path: {harmless(folder)} holds {what}; {_SHAPE}")

    def _pictures_of(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            folder.name.encode()
        except UnicodeEncodeError:
            raise InputError(f"data.path: the name of {harmless(folder)} is no readable text; rename it") from None
        pictures = []
        for entry in _entries(folder):
            if entry.is_dir():
                self._refuse_deeper(folder, Path(entry.path))
            elif _is_picture(entry):
                pictures.append(entry)
            else:
                self._others.append(f"{folder.name}/{entry.name}")
        return sorted(pictures, key=lambda entry: entry.name)

    def _refuse_deeper(self, folder: Path, deeper: Path) -> None:
        for place, folders, names in os.walk(deeper):
            folders[:] = [name for name in folders if not _is_left_behind(name)]
            if any(_has_picture_name(name) for name in names):
                raise InputError(
                    f"data.path: {harmless(place)} has pictures that lie too deep; "
                    f"those of a class are expected in its folder itself, {harmless(folder)}"
                )

    def check_classes(self, classes: tuple[str, ...]) -> None:
        for name, files in self.by_class.items():
            if files and name not in classes:
                hint = nearest(name, classes, '; is it "{}"?')
                raise InputError(
                    f'data.path: {harmless(self._folder)} has a class "{harmless(name)}", '
                    f"of which there is no picture to train on{harmless(hint)}"
                )

    def pictures(self, classes: tuple[str, ...]) -> Pictures:
        files, numbers, stamps = [], [], []
        for number, name in enumerate(classes):
            for entry in self.by_class.get(name, ()):
                status = entry.stat()
                files.append(f"{name}/{entry.name}")
                numbers.append(number)
                stamps.append((status.st_size, status.st_mtime_ns))
        return Pictures(self._folder, tuple(files), np.array(numbers, np.int32), tuple(stamps))

    def notes(self) -> Iterator[str]:
        if empty := [name for name, files in self.by_class.items() if not files]:
            yield f"{harmless(self._folder)}: no pictures in {_listed(empty)}, left out"
        if self._loose:
            yield f"{harmless(self._folder)}: pictures that are in no class folder, left out: {_listed(self._loose)}"
        if self._others:
            yield f"{harmless(self._folder)}: files that are no pictures, left out: {_listed(self._others)}"


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What a person put there, by name."""
    try:
        with os.scandir(folder) as entries:
            kept = [entry for entry in entries if not _is_left_behind(entry.name)]
    except OSError as error:
        raise InputError(f"data.path: {harmless(folder)} cannot be read: {reason(error)}") from None
    return sorted(kept, key=lambda entry: entry.name)


def _is_left_behind(name: str) -> bool:
    return name.startswith(".") or name.lower() in _LEFT_BEHIND


def _is_picture(entry: os.DirEntry[str]) -> bool:
    return _has_picture_name(entry.name) and entry.is_file()


def _has_picture_name(name: str) -> bool:
    return not _is_left_behind(name) and os.path.splitext(name)[1].lower() in picture.suffixes()


def _listed(names: list[str]) -> str:
    """ "3 (a, b, c)", the first few by name."""
    return f"{len(names):,} ({first_few([*map(harmless, names)], _NAMED)})"
