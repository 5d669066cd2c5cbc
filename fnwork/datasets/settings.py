"""What a spec says of its data, and how long readings tell their progress."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Progress = Callable[[str, int, int], None]
"""Called now and then with what is being read, how much of it is done, and how much there is. What it raises ends
the reading."""


def silent(what: str, done: int, total: int) -> None:
    """The progress that nobody looks at."""


@dataclass(frozen=True)
class DataSettings:
    """The `[data]` table of a spec, with `path` already resolved against the spec's folder."""

    dataset: str
    path: str = ""
    validation: float | Literal["test"] = 0.1
    image_size: int = 128
    augment: tuple[str, ...] = ()
    target: str = ""
    task: str = "classification"
