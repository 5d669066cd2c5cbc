"""Text that others wrote (names, notes, class names) made safe to show, the nearest right word, sizes in words."""

import difflib
import unicodedata
from collections.abc import Iterable, Sequence

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Cc controls, Cf invisible formatting (bidirectional overrides among them), Cs lone surrogates, Zl and Zp line breaks.
_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def harmless(text: object, keep_lines: bool = False) -> str:
    """`text` with everything a terminal could obey replaced by a visible sign.

    Control characters become their Unicode pictures (escape becomes U+241B), other invisible characters U+FFFD. With
    `keep_lines`, line ends stay. Markup such as `[red]` is left as it is: print it where markup is not interpreted.
    """
    return "".join(_sign(character, keep_lines) for character in str(text))


def _sign(character: str, keep_lines: bool) -> str:
    if " " <= character <= "~" or (keep_lines and character == "\n"):
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    return _REPLACEMENT if unicodedata.category(character) in _HARMFUL else character


def first_few(words: Sequence[str], most: int) -> str:
    """ "a, b and 3 more": at most so many of the words."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def size(count: float) -> str:
    """Bytes for people: "85.3 MiB", "311 MiB"."""
    unit = 0
    while count >= 1024 and unit < len(UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} {UNITS[unit]}" if unit == 0 or count >= 100 else f"{count:.1f} {UNITS[unit]}"


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `word`, or None when none is like it."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`; did you mean "x"?` for the nearest candidate, or nothing; to be put at a message's end."""
    match = nearest(word, candidates)
    return f'; did you mean "{match}"?' if match else ""
