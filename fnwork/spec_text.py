"""The text of a spec: read, parsed with every syntax error at once, with the place of each key and value."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import tree_sitter
import tree_sitter_toml

from engine.errors import InputError
from fnwork.spec_errors import KeyPath, Problem, dotted
from fnwork.text import harmless, nearest

LARGEST_FILE = 64 * 1024  # a thousand layer tables; more is surely not a spec
MOST_SYNTAX_ERRORS = 20
LARGEST_INTEGER = 2**63 - 1
DEEPEST_PLACE = 6  # the schema never nests deeper, so no message needs a place below
SEARCHED_STATEMENTS = 20


@dataclass
class Places:
    """Line and column, from 1, of every key and value; a path is like `("model", "layers", 0, "out")`."""

    keys: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    values: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)

    def key(self, path: KeyPath) -> tuple[int, int]:
        """Place of the key, or of the nearest table around it that is in the text, or the text's beginning."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys.get(path, (1, 1))

    def value(self, path: KeyPath) -> tuple[int, int]:
        return self.values.get(path) or self.key(path)


def is_set(path: KeyPath, given: Iterable[KeyPath], places: Places) -> bool:
    """Whether a setting is at fault for what is wrong at `path`: it set it, or a part of it, or made its table.

    `places` are those of the file.
    """
    inside = len(path) > 1 or path not in places.keys
    return any(path[: len(key)] == key or (inside and key[: len(path)] == path) for key in given)


@dataclass(frozen=True)
class Document:
    """A parsed text: what could be read of it, where it stands, and what could not be read."""

    data: dict[str, Any]
    places: Places
    problems: tuple[Problem, ...]


def read_text(path: Path) -> str:
    """The file's text, line ends and byte order mark as they are; InputError when it cannot be a spec."""
    name = harmless(str(path))
    try:
        if path.is_dir():
            raise InputError(f"{name}: this is a folder; expected a spec, a file that ends in .toml")
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise InputError(f"{name}: there is no such file{_neighbours(path)}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > LARGEST_FILE:
        raise InputError(f"{name}: larger than {LARGEST_FILE // 1024} KiB; a spec is a short text of a few dozen lines")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line, start = raw.count(b"\n", 0, error.start) + 1, raw.rfind(b"\n", 0, error.start) + 1
        column = len(raw[start : error.start].decode("utf-8", "replace")) + 1
        hint = "; it looks like UTF-16: save it as UTF-8" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        got = f"got the byte 0x{raw[error.start]:02x}"
        raise InputError(f"{name}:{line}:{column}: expected UTF-8 text, {got}{hint}") from None


def _neighbours(path: Path) -> str:
    try:
        specs = sorted(p.name for p in path.parent.glob("*.toml"))
    except (OSError, ValueError):
        return ""
    near = nearest(path.name, specs) or nearest(f"{path.name}.toml", specs)
    return f"; did you mean {harmless(path.parent / near)}?" if near else ""


def parse_text(text: str) -> Document:
    """Reads TOML and goes on after a syntax error, by leaving the broken statement out; never raises."""
    text = text.removeprefix("\ufeff")
    if len(text) > LARGEST_FILE:
        too_long = Problem(1, 1, "", f"longer than {LARGEST_FILE:,} characters; a spec is a short text")
        return Document({}, Places(), (too_long,))
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if match := re.search("[\ud800-\udfff]", line):
            problem = Problem(number, match.start() + 1, "", "expected text, got half of a surrogate pair")
            return Document({}, Places(), (problem,))
    problems: list[Problem] = []
    data: dict[str, Any] = {}
    while len(problems) < MOST_SYNTAX_ERRORS:
        error = _load_error(lines)
        if error is None:
            data = tomllib.loads("\n".join(lines))
            break
        problem, first, last = _located(error, lines)
        problems.append(problem)
        _leave_out(lines, first, last)
    places = find_places("\n".join(lines)) if data else Places()
    _drop_large_integers(data, places, problems)
    return Document(data, places, tuple(problems))


def _leave_out(lines: list[str], first: int, last: int) -> None:
    """Blanks a broken statement; a broken [table] is mended, or goes with its keys, lest they fall to the one above."""
    header = lines[first - 1].strip()
    lines[first - 1 : last] = [""] * (last - first + 1)
    if not header.startswith("["):
        return
    match = re.match(r"(\[\[?)\s*([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)", header)
    mended = match[1] + match[2] + "]" * len(match[1]) if match else header
    if mended != header:
        lines[first - 1] = mended
        return
    for number in range(last, len(lines)):
        if lines[number].lstrip().startswith("["):
            break
        lines[number] = ""


def _load_error(lines: list[str]) -> Exception | None:
    # Besides its own error tomllib lets through what int() and deep nesting raise.
    try:
        tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError, OverflowError) as error:
        return error
    return None


def _located(error: Exception, lines: list[str]) -> tuple[Problem, int, int]:
    """The problem an error of tomllib stands for, and the first and last line of the statement it is in."""
    message = str(error)
    if match := re.search(r"\(at line (\d+), column (\d+)\)", message):
        line, column = int(match[1]), int(match[2])
        if line > len(lines):
            line, column = len(lines), len(lines[-1]) + 1
    elif "(at end of document)" in message:
        line, column = len(lines), len(lines[-1]) + 1
    else:
        line, column = _first_failing(lines, lambda head: _is_unlocated(_load_error(head))), 1
    first = _statement_start(lines, line)
    indent = len(lines[first - 1]) - len(lines[first - 1].lstrip()) + 1
    if message.startswith("Cannot"):  # found only at the statement's end
        column = indent
    if first < line:  # the statement was begun above and is not finished: what follows it is not at fault
        unfinished = "a value that is begun here is never closed: a quote or a bracket is missing"
        whole_rest = '"""' in lines[first - 1] or "'''" in lines[first - 1]
        return Problem(first, indent, "", unfinished), first, len(lines) if whole_rest else max(first, line - 1)
    return Problem(line, column, "", _in_words(error, lines[line - 1], column)), line, line


def _is_unlocated(error: Exception | None) -> bool:
    return error is not None and "(at " not in str(error)


def _first_failing(lines: list[str], fails: Callable[[list[str]], bool]) -> int:
    low, high = 1, len(lines)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(lines[:middle]) else (middle + 1, high)
    return low


def _statement_start(lines: list[str], line: int) -> int:
    """The line at which the statement that is broken at `line` begins: what stands above it is whole."""
    candidates = (n for n in range(line, 0, -1) if n == line or re.match(r"""\s*(\[|[\w"'][^=]*=)""", lines[n - 1]))
    for _, number in zip(range(SEARCHED_STATEMENTS), candidates, strict=False):
        if _load_error(lines[: number - 1]) is None:
            return number
    return line


def _in_words(error: Exception, line: str, column: int) -> str:
    message = re.sub(r"\s*\(at .*\)$", "", str(error), flags=re.DOTALL)
    if isinstance(error, RecursionError):
        return "arrays or tables are nested too deeply"
    if "digits" in message:
        return "expected a number of at most 64 bits, got a longer one"
    if message.startswith("Cannot overwrite"):
        return "this key is given twice; keep one of them"
    if message.startswith("Cannot declare"):
        return "this table is given twice; put its keys under one heading"
    before, rest = line[: column - 1].strip(), line[column - 1 :].strip()
    got = harmless(rest[:20]) or "nothing"
    if message.startswith("Invalid value"):
        if word := re.match(r"[A-Za-z_][\w.:+-]*(?=\s*(?:[,#\]}]|$))", rest):
            right = {"True": "true", "False": "false", "None": '""', "null": '""'}.get(word[0], f'"{word[0]}"')
            return f"expected a value, got the bare word {word[0]}; write {right}"
        return f'expected a value (a number, "text", true, false, a list [..] or a table {{..}}), got {got}'
    if message.startswith("Expected '=' after a key"):
        return f"expected = and a value after {harmless(before[-20:])}, got {got}; a remark begins with #"
    if message.startswith("Expected newline"):
        return f"expected nothing more on this line after {harmless(before[-20:])}, got {got}"
    return next((words for start, words in _PLAIN.items() if message.startswith(start)), "").format(
        got=got
    ) or harmless(message[:1].lower() + message[1:])


_NEVER_CLOSED = "a text that is begun on this line is never closed: a quote is missing"
_PLAIN = {
    "Illegal character '\\n'": _NEVER_CLOSED,
    "Unterminated": _NEVER_CLOSED,
    'Expected "\'"': _NEVER_CLOSED,
    "Illegal character": "a character that cannot be seen stands here; take it out",
    "Unescaped": "a backslash in a text is written twice, or the text is put into single quotes",
    "Unclosed array": "expected a comma or ] in this list, got {got}",
    "Unclosed inline table": "expected a comma or }} in this table, got {got}",
    "Expected ']]'": "expected ]] at the end of a heading such as [[model.layers]], got {got}",
    "Expected ']'": "expected ] at the end of a heading such as [train], got {got}",
    "Invalid initial character": "expected the name of a key or a table, got {got}",
    "Invalid statement": "expected a line such as epochs = 3, or a heading such as [train], got {got}",
}
"""How a message of tomllib begins, and what is said in its place."""


def _drop_large_integers(data: dict[str, Any], places: Places, problems: list[Problem]) -> None:
    """Takes integers beyond 64 bits out of `data`, each with a problem: nothing after this has to expect them."""
    waiting: list[tuple[KeyPath, Any]] = [((), data)]
    while waiting:
        path, container = waiting.pop()
        entries = list(container.items() if isinstance(container, dict) else enumerate(container))
        for key, value in reversed(entries):
            if isinstance(value, dict | list):
                waiting.append(((*path, key), value))
            elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
                message = "expected a number of at most 64 bits, got a longer one"
                problems.append(Problem(*places.value((*path, key)), dotted((*path, key)), message))
                del container[key]


@cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language()))


def find_places(text: str) -> Places:
    """Where each key and value of a valid TOML text stands."""
    return _PlaceFinder(text).places


class _PlaceFinder:
    """Walks the syntax tree of a text once and notes the place of every key and value."""

    def __init__(self, text: str) -> None:
        self.places = Places()
        self._lines = text.encode("utf-8").split(b"\n")
        self._lengths: dict[KeyPath, int] = {}  # tables in each array of tables so far
        for node in _parser().parse(text.encode("utf-8")).root_node.children:
            if node.type == "pair":
                self._pair(node, ())
            elif node.type in ("table", "table_array_element"):
                self._table(node)

    def _place(self, node: tree_sitter.Node) -> tuple[int, int]:
        row, byte = node.start_point.row, node.start_point.column
        return row + 1, len(self._lines[row][:byte].decode("utf-8", "replace")) + 1

    def _table(self, node: tree_sitter.Node) -> None:
        header = next((child for child in node.named_children if child.type.endswith("key")), None)
        if header is None:
            return
        path: KeyPath = ()
        parts = list(self._key_parts(header))
        for depth, (name, part) in enumerate(parts):
            path = (*path, name)
            self.places.keys.setdefault(path, self._place(part))
            self.places.values.setdefault(path, self._place(node))
            is_element = node.type == "table_array_element" and depth == len(parts) - 1
            if is_element:
                self._lengths[path] = self._lengths.get(path, 0) + 1
            if path in self._lengths:
                path = (*path, self._lengths[path] - 1)
                self.places.keys.setdefault(path, self._place(node))
                self.places.values.setdefault(path, self._place(node))
        for child in node.named_children:
            if child.type == "pair":
                self._pair(child, path)

    def _key_parts(self, node: tree_sitter.Node) -> list[tuple[str, tree_sitter.Node]]:
        if node.type == "dotted_key":
            return [part for child in node.named_children for part in self._key_parts(child)]
        text = (node.text or b"").decode("utf-8", "replace")
        if node.type == "quoted_key":
            try:
                text = next(iter(tomllib.loads(f"{text} = 0")))
            except ValueError:
                return []
        return [(text, node)]

    def _pair(self, node: tree_sitter.Node, path: KeyPath) -> None:
        named = [child for child in node.named_children if child.type != "comment"]
        if len(named) != 2 or len(path) > DEEPEST_PLACE:
            return
        key, value = named
        for name, part in self._key_parts(key)[:DEEPEST_PLACE]:
            path = (*path, name)
            self.places.keys.setdefault(path, self._place(part))
        self._value(value, path)

    def _value(self, node: tree_sitter.Node, path: KeyPath) -> None:
        self.places.values.setdefault(path, self._place(node))
        if len(path) > DEEPEST_PLACE:
            return
        if node.type == "inline_table":
            for child in node.named_children:
                if child.type == "pair":
                    self._pair(child, path)
        elif node.type == "array":
            elements = [child for child in node.named_children if child.type != "comment"]
            for index, child in enumerate(elements):
                self.places.keys.setdefault((*path, index), self._place(child))
                self._value(child, (*path, index))
