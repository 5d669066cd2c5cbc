"""What a text turns out to be: its errors, or its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import InputError

if TYPE_CHECKING:
    from fnwork.outlook import Outlook
    from fnwork.spec import Problem


@dataclass(frozen=True)
class Judgement:
    """`problems` of the text, and its `outlook` or the sentence why there is none."""

    text: str
    problems: Sequence[Problem] = ()
    outlook: Outlook | None = None
    why_not: str = ""


def judge(text: str, folder: Path) -> Judgement:
    """Judge a spec's text, whose relative paths start at `folder`; never raises. Takes up to a second."""
    try:
        from fnwork.outlook import outlook
        from fnwork.spec import problems as problems_of

        problems = problems_of(text)
        if problems:
            return Judgement(text, problems, None, "Figures come when the spec is right.")
        return Judgement(text, (), outlook(text, folder))
    except InputError as error:
        return Judgement(text, getattr(error, "problems", ()), None, str(error))
    except BaseException as error:
        return Judgement(text, (), None, f"The figures cannot be told: {type(error).__name__}: {error}")
