"""Values from `--set KEY=VALUE`, written into a spec's text so that the person's comments survive."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from fnwork.spec_errors import KeyPath, Problem, SpecError, shown
from fnwork.spec_text import is_set, parse_text, read_text
from fnwork.text import harmless


def apply(text: str, settings: Sequence[str]) -> tuple[str, tuple[KeyPath, ...], tuple[Problem, ...]]:
    """The text with the settings in it, the keys that were set, and what is wrong with the settings themselves.

    `text` must be valid TOML. A value that is not TOML is taken as a text, so quotes are not needed.
    """
    keys: list[KeyPath] = []
    faults: list[Problem] = []
    for setting in settings:
        key, sign, written = setting.partition("=")
        path = tuple(part.strip() for part in key.split("."))
        if not sign or not all(path):
            message = f"expected KEY=VALUE, such as train.epochs=3, got {shown(setting)}"
            faults.append(Problem(0, 0, "", message))
            continue
        try:
            text, place = _with_value(text, path, _read_value(written.strip()))
            keys.append(place)
        except (TOMLKitError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            faults.append(Problem(0, 0, harmless(key.strip()), "cannot be set: there is no such table or layer"))
    return text, tuple(keys), tuple(faults)


@contextmanager
def blaming(path: Path, settings: Sequence[str]) -> Iterator[None]:
    """Problems found in the text of `path` with the settings in it get their place in the file, or that of `--set`."""
    try:
        yield
    except SpecError as error:
        if not settings:
            raise
        places = parse_text(read_text(path)).places
        given = [_path(setting.partition("=")[0]) for setting in settings]
        moved = []
        for problem in error.problems:
            place = _path(problem.key)
            at = (0, 0) if is_set(place, given, places) else places.key(place)
            moved.append(Problem(*at, problem.key, problem.message))
        raise SpecError(error.file, moved) from error


def _path(key: str) -> KeyPath:
    return tuple(int(part) if part.isdigit() else part for part in map(str.strip, key.split(".")))


def _read_value(written: str) -> Any:
    try:
        document = tomllib.loads(f"value = {written}")
    except (ValueError, RecursionError):
        return written
    return document["value"] if len(document) == 1 else written


def _with_value(text: str, path: Sequence[str], value: Any) -> tuple[str, KeyPath]:
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    document = tomlkit.parse(text.removeprefix(mark))
    table: Any = document
    place: list[str | int] = []
    for part in path[:-1]:
        step: str | int = int(part) if isinstance(table, list) else part
        if isinstance(step, str) and step not in table:
            table[step] = tomlkit.table()
        table = table[step]
        place.append(step)
    last: str | int = int(path[-1]) if isinstance(table, list) else path[-1]
    table[last] = value
    edited = mark + tomlkit.dumps(document)
    _confirm(edited, (*place, last), value)
    return edited, (*place, last)


def _confirm(edited: str, place: KeyPath, value: Any) -> None:
    """Raises when the edited text does not hold the value: then the edit went wrong and must not be used."""
    found: Any = tomllib.loads(edited.removeprefix("\ufeff"))
    for part in place:
        found = found[part]
    if found != value and found == found:  # nan is never equal to itself
        raise ValueError("the edit was lost")
