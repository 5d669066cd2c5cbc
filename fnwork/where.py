"""The filter of the list of runs: `val_accuracy>0.8 and state=finished`.

    expression = conjunction { "or" conjunction }
    conjunction = test { "and" test }
    test = "not" test | "(" expression ")" | KEY operator VALUE

Nothing is evaluated as code. A run without the key fails every test but `!=`.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import InputError
from fnwork.text import harmless

Test = Callable[[Mapping[str, Any]], bool]

_TOKEN = re.compile(
    r"""\s*(?: (?P<operator> >= | <= | == | != | [<>=~] ) | (?P<bracket> [()] )
         | "(?P<double>[^"]*)" | '(?P<single>[^']*)' | (?P<word> [^\s<>=!~()"']+ ) )""",
    re.VERBOSE,
)
_ORDER = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_DEPTH = 50
TEXTS = ("id", "name", "state", "spec", "notes", "path", "problem", "message")  # keys of every run that hold text


@dataclass(frozen=True)
class Where:
    """A filter: `test(values)` for a run's dotted keys and values; `keys` are the ones it asks for."""

    test: Test
    keys: tuple[str, ...]


def parse(text: str) -> Where:
    """The filter that `text` describes; InputError with the place of the first fault."""
    parser = _Parser(text)
    test = parser.expression()
    if parser.kind:
        raise parser.fault('"and" or "or"')
    return Where(test, tuple(dict.fromkeys(parser.keys)))


class _Parser:
    def __init__(self, text: str):
        self._text = text
        self._next = 0
        self._depth = 0
        self.keys: list[str] = []
        self.advance()

    def advance(self) -> None:
        """Take the next token: `kind` is "", "word", "double", "single", "operator" or "bracket"."""
        self._begin = self._next
        match = _TOKEN.match(self._text, self._next)
        self.kind, self.token = "", ""
        if match and match.lastgroup:
            self.kind, self.token, self._next = match.lastgroup, match[match.lastgroup], match.end()
        elif self._text[self._next :].strip():
            raise self.fault("a key, an operator or a value")

    def fault(self, expected: str) -> InputError:
        got = self._text[self._begin :].strip()
        return InputError(
            f"--where, column {self._begin + 1}: expected {expected}, "
            f"got {harmless(got) if got else 'the end'}; an example: val_accuracy>0.8 and state=finished"
        )

    def expression(self) -> Test:
        tests = [self._conjunction()]
        while self._is_word("or"):
            self.advance()
            tests.append(self._conjunction())
        return tests[0] if len(tests) == 1 else lambda run: any(test(run) for test in tests)

    def _conjunction(self) -> Test:
        tests = [self._test()]
        while self._is_word("and"):
            self.advance()
            tests.append(self._test())
        return tests[0] if len(tests) == 1 else lambda run: all(test(run) for test in tests)

    def _test(self) -> Test:
        self._depth += 1
        if self._depth > _DEPTH:
            raise self.fault(f"at most {_DEPTH} brackets and nots inside each other")
        try:
            if self._is_word("not"):
                self.advance()
                inner = self._test()
                return lambda run: not inner(run)
            if self.kind == "bracket" and self.token == "(":
                self.advance()
                inner = self.expression()
                if self.token != ")" or self.kind != "bracket":
                    raise self.fault('")"')
                self.advance()
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _is_word(self, word: str) -> bool:
        return self.kind == "word" and self.token.lower() == word

    def _comparison(self) -> Test:
        if self.kind != "word" or self.token.lower() in ("and", "or"):
            raise self.fault("a key, such as val_accuracy, state or train.lr")
        key = self.token
        self.advance()
        if self.kind != "operator":
            raise self.fault("one of > >= < <= = != ~")
        sign = self.token
        self.advance()
        if self.kind not in ("word", "double", "single"):
            raise self.fault("a value, such as 0.8 or finished")
        wanted = self.token
        number = _number(wanted) if self.kind == "word" else None
        if sign in _ORDER and key in TEXTS:
            raise InputError(f"--where: {key} is a text, which has no {sign}; it takes = != ~")
        if sign in _ORDER and number is None:
            raise self.fault("a number")
        self.advance()
        self.keys.append(key)
        return lambda run: _compare(run.get(key), sign, wanted, number)


def _number(text: str) -> float | None:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def _compare(value: Any, sign: str, wanted: str, number: float | None) -> bool:
    if sign in _ORDER:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and _ORDER[sign](value, number)
    if sign == "~":
        return value is not None and wanted.lower() in _text(value).lower()
    if number is not None and isinstance(value, int | float) and not isinstance(value, bool):
        equal = value == number
    elif isinstance(value, list | tuple):
        equal = wanted in map(str, value)  # tags=baseline
    else:
        equal = value is not None and _text(value) == wanted
    return equal != (sign == "!=")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
