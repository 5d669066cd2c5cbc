"""The two kinds of failure that are explained to the user instead of shown as a traceback."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Something the user, their files or their machine can cause; the message is ready to print."""


class RunError(RuntimeError):
    """The run failed for a reason the message explains (memory budget, repeated non-finite values, ...)."""


def nearest(name: str, known: Iterable[str], sentence: str = "; did you mean {!r}?", cutoff: float = 0.6) -> str:
    """`sentence` with the known name nearest to `name`, empty where none is near."""
    near = difflib.get_close_matches(name, known, 1, cutoff)
    return sentence.format(near[0]) if near else ""
