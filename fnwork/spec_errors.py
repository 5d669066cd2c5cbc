"""What is wrong with a spec, said so that the person can mend it: place, expected, got, nearest right name."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import InputError
from fnwork import text
from fnwork.text import harmless

LONGEST_SHOWN = 60
SYNONYMS = {  # words of other tools for ours; no spelling is near enough to find them
    "learning_rate": "lr",
    "batch_size": "micro_batch",
    "batch": "micro_batch",
    "patience": "early_stop",
    "dtype": "mode",
    "label": "target",
    "channels": "out",
    "filters": "out",
    "units": "out",
    "p": "rate",
    "gpu": "cuda",
    "fp16": "mixed",
    "float16": "mixed",
    "amp": "mixed",
    "dense": "linear",
}

KeyPath = tuple[str | int, ...]  # ("model", "layers", 0, "out")
# A problem before its place in the text is known: which value, whether its key itself is at fault, what is wrong.
Finding = tuple[KeyPath, bool, str]


@dataclass(frozen=True, order=True)
class Problem:
    """One fault of a spec; `line` and `column` count from 1, line 0 stands for a value given with --set."""

    line: int
    column: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}" if self.line else "--set"
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class SpecError(InputError):
    """Every problem of one spec; `str()` is one line a problem, `file:line:column: key: message`."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(f"{harmless(file)}:{p}" if p.line else str(p) for p in self.problems))


def _shortened(words: str) -> str:
    return words if len(words) <= LONGEST_SHOWN else words[: LONGEST_SHOWN - 3] + "..."


def shown(value: Any) -> str:
    """How a value of a spec is quoted in a message: as TOML writes it, shortened, tables and arrays only named."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{harmless(_shortened(value))}"'
    if isinstance(value, int | float):
        return _shortened(repr(value))
    if isinstance(value, list | tuple):
        return "an array" if value else "an empty array"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, datetime.date | datetime.time):
        return "a date or time"
    return harmless(_shortened(str(value)))


def nearest_name(word: Any, right: Iterable[str]) -> str | None:
    """The right name closest to `word`, None where none is close."""
    if not isinstance(word, str) or not word or len(word) > LONGEST_SHOWN:
        return None
    right = list(right)
    if SYNONYMS.get(word.lower()) in right:
        return SYNONYMS[word.lower()]
    return text.nearest(word.replace("_", "-"), right) or text.nearest(word.replace("-", "_"), right)


def nearest(word: Any, right: Iterable[str]) -> str:
    """`; did you mean "x"?` for the right name closest to `word`, or nothing where none is close."""
    name = nearest_name(word, right)
    return f'; did you mean "{name}"?' if name else ""


def dotted(path: KeyPath) -> str:
    """`("model", "layers", 0, "out")` as `model.layers.0.out`, harmless on a terminal."""
    return harmless(".".join(str(part) for part in path))[:120]


def one_of(names: Sequence[str]) -> str:
    """`one of "a", "b", "c"`."""
    return "one of " + ", ".join(f'"{name}"' for name in names)
