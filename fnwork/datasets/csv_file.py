"""Reading a table from a CSV file: separator, quotes, encoding, header and row lengths. Cells stay text here."""

import csv
import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from engine.errors import InputError
from fnwork.datasets.columns import Cells, is_number

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
_ROWS_TO_SNIFF = 20


@dataclass(frozen=True)
class Table:
    """The cells of a CSV file by column name, stripped of blanks, and the line of the file on which each row begins.

    `blank`: the lines that have separators alone, which are no rows.
    """

    file: str
    columns: dict[str, tuple[str, ...]]
    lines: tuple[int, ...]
    digest: str
    blank: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.lines)

    def cells(self, name: str) -> Cells:
        """One column, ready to be typed."""
        return Cells(self.file, name, self.columns[name], self.lines)


def read(path: Path) -> Table:
    """Read a CSV file with a header; InputError names the file, and the line where one is at fault."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    text = _decoded(path, data)
    separator = _sniffed(path, text)
    lines, cells, blank = [], [], []
    rows = _rows(path, text, separator, blank)
    _, header = next(rows, (1, []))
    names = _names(path, header)
    for line, row in rows:
        if len(row) != len(names):
            raise InputError(
                f"{path}, line {line}: {len(row)} values, but the header names {len(names)} columns "
                f"(separator: {SEPARATORS[separator]})"
            )
        lines.append(line)
        cells.append([cell.strip() for cell in row])
    if not cells:
        raise InputError(f"{path}: there are no rows below the header")
    columns = dict(zip(names, zip(*cells, strict=True), strict=True))
    return Table(str(path), columns, tuple(lines), hashlib.sha256(data).hexdigest(), tuple(blank))


def _decoded(path: Path, data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path}: the text is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: the text is not UTF-8; save it as UTF-8") from None


def _rows(path: Path, text: str, separator: str, blank: list[int]) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the line it begins on; lines of separators alone go to `blank`."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{path}, line {line}: this is not well-formed CSV: {error}") from None
        if any(cell.strip() for cell in row):
            yield line, row
        elif len(row) > 1:
            blank.append(line)


def _sniffed(path: Path, text: str) -> str:
    """The separator under which the first rows have the same number of values, and the most of them."""

    def score(separator: str) -> tuple[bool, int]:
        widths = []
        try:
            for _, row in islice(_rows(path, text, separator, []), _ROWS_TO_SNIFF):
                widths.append(len(row))
        except InputError:
            return False, max(widths[:1], default=0)
        return len(set(widths)) == 1 and widths[0] > 1, max(widths[:1], default=0)

    return max(SEPARATORS, key=score)


def _names(path: Path, header: list[str]) -> list[str]:
    names = [name.strip() for name in header]
    if len(names) < 2:
        raise InputError(
            f"{path}: expected a header with at least two column names, separated by comma, semicolon or tab"
        )
    if all(is_number(name) for name in names):
        raise InputError(f"{path}, line 1: expected column names, got numbers; put a header line above the data")
    for place, name in enumerate(names):
        if not name:
            raise InputError(f"{path}, line 1: column {place + 1} has no name; name it, or remove it if it is an index")
        if name in names[:place]:
            raise InputError(f'{path}, line 1: columns {names.index(name) + 1} and {place + 1} are both named "{name}"')
    return names
