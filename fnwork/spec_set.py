"""Values from `--set KEY=VALUE`, written into a spec's text so that the person's comments survive."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from fnwork.spec_errors import KeyPath, Problem, shown
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
