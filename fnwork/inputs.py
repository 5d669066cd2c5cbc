"""New inputs for a trained model, read from files: pictures of any kind, tables, arrays, texts."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from engine.data import Preprocessing
from engine.errors import InputError
from fnwork.datasets import columns as table_columns
from fnwork.datasets import csv_file, npz_set, picture, table_set, text_set
from fnwork.text import first_few, harmless

MOST_INPUTS = 256
MOST_BYTES = 1 << 26
_MOST_LINES = 5  # in a message

# How the columns are named of a model that was trained on an array, and of one that was trained on a text.
_NUMBERED = re.compile(r"x\d+")
_CHARACTER = re.compile(r"character -\d+")


@dataclass(frozen=True)
class Piece:
    """Some inputs: `values` as a data set's part holds them, and a name for each of them."""

    values: np.ndarray
    names: Sequence[str]


def piece_size(shape: Sequence[int]) -> int:
    """How many inputs of this shape are held in memory at a time."""
    return max(1, min(MOST_INPUTS, MOST_BYTES // prod(shape)))


class Inputs:
    """The inputs of files and folders: one a picture, a row of a table, a row of an array, or a text.

    Iterating reads them in pieces: some pictures, or one file of the other kinds. Meanwhile `faults` names the files
    that cannot be read, and `notes` tells, in the order of its keys, what was done to the others.
    """

    def __init__(self, files: Sequence[Path], preprocessing: Preprocessing):
        self._files = files
        self._preprocessing = preprocessing
        self._columns = [column.name for column in preprocessing.columns]
        self.notes: dict[str, None] = {}
        self.faults: list[str] = []

    def __iter__(self) -> Iterator[Piece]:
        waiting: list[Piece] = []
        count, enough = 0, piece_size(self._preprocessing.input_shape)
        for file in self._found():
            try:
                waiting.append(self._read(file))
            except InputError as error:
                self.faults.append(str(error))
                continue
            count += len(waiting[-1].names)
            if count >= enough:
                yield _joined(waiting)
                waiting, count = [], 0
        if waiting:
            yield _joined(waiting)

    @property
    def _takes_pictures(self) -> bool:
        return len(self._preprocessing.input_shape) == 3

    def _found(self) -> Iterator[Path]:
        """The files that are meant; a folder stands for the pictures in it."""
        for path in self._files:
            if not (self._takes_pictures and os.path.isdir(path)):
                yield path
                continue
            inside = pictures_in(path)
            if not inside:
                self.faults.append(f"{harmless(path)}: a folder with no picture in it")
            yield from inside

    def _read(self, file: Path) -> Piece:
        if self._columns and all(map(_CHARACTER.fullmatch, self._columns)):
            return self._read_text(file)
        if file.suffix.lower() == ".npz" and all(map(_NUMBERED.fullmatch, self._columns)):
            return self._read_array(file)
        return self._read_picture(file) if self._takes_pictures else self._read_table(file)

    def _read_table(self, file: Path) -> Piece:
        if file.is_dir() or file.suffix.lower() not in (".csv", ".tsv", ".txt"):
            raise InputError(f"{harmless(file)}: the model was trained on a table, so a .csv file is expected")
        table = csv_file.read(file)
        values, notes = table_set.features(self._preprocessing, table)
        if table.blank:
            lines = first_few([*map(str, table.blank)], _MOST_LINES)
            notes = (*notes, f"lines without any value are left out: {lines}")
        self.notes |= dict.fromkeys(f"{file}: {note}" for note in notes)
        return Piece(values, [f"{file}:{line}" for line in table.lines])

    def _read_picture(self, file: Path) -> Piece:
        try:
            pixels = picture.read(file, *self._preprocessing.input_shape)
        except InputError as error:
            raise InputError(f"{harmless(file)}: {error}") from None
        return Piece(pixels[None], [str(file)])

    def _read_array(self, file: Path) -> Piece:
        shape = self._preprocessing.input_shape
        arrays = npz_set.read(file, ("x",))
        if "x" not in arrays:
            raise InputError(f"{harmless(file)}: has no array x; np.savez(file, x=x) names it so")
        values = npz_set.checked_inputs(file, "x", arrays["x"])
        expected = ("samples", *shape) if self._takes_pictures else ("samples", "columns")
        if values.ndim != len(expected) or (self._takes_pictures and values.shape[1:] != shape):
            found, wanted = arrays["x"].shape, ", ".join(map(str, expected))
            raise InputError(f"{harmless(file)}: x has the shape {found}; the model was trained on ({wanted})")
        if not self._takes_pictures:
            try:
                values, notes = npz_set.features(self._preprocessing, values)
            except InputError as error:
                raise InputError(f"{harmless(file)}: {error}") from None
            self.notes |= dict.fromkeys(f"{file}: {note}" for note in notes)
        return Piece(values, [f"{file}:{row}" for row in range(len(values))])

    def _read_text(self, file: Path) -> Piece:
        """The end of a text: what is predicted is the character that follows."""
        columns = self._preprocessing.columns
        text = text_set.read(file)
        if len(text) < len(columns):
            raise InputError(
                f"{harmless(file)}: {len(text)} characters, but the model looks at the last {len(columns)}"
            )
        last = zip(columns, text[-len(columns) :], strict=True)
        features = [table_columns.encode_category(column, character)[0] for column, character in last]
        return Piece(np.concatenate(features, axis=1), [str(file)])


def _joined(pieces: list[Piece]) -> Piece:
    names = [name for piece in pieces for name in piece.names]
    return Piece(np.concatenate([piece.values for piece in pieces]), names)


def pictures_in(folder: Path) -> list[Path]:
    """The pictures in a folder and in those below it, by their names' endings; what is hidden is left out."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = (Path(place, name) for name in sorted(names) if not name.startswith("."))
        found += [file for file in files if file.suffix.lower() in picture.suffixes()]
    return found
