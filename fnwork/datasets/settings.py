"""What a spec says of its data."""

from dataclasses import dataclass
from typing import Literal


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
