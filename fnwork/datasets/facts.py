"""What is worth knowing of a data set before it is trained on: counts, balance, spread, duplicates."""

import hashlib
from dataclasses import dataclass

import numpy as np

from engine.data import DataSet, Part
from fnwork.datasets.columns import Column
from fnwork.datasets.data_info import DataInfo, data_info
from fnwork.datasets.settings import Progress

_AT_ONCE = 256


@dataclass(frozen=True)
class Facts:
    """`class_counts`: by part and class. `imbalance`: how many times larger the largest class of train is than the
    smallest one. `mean` and `deviation`: of each channel of the train images, in pixel units. `columns`: of a table.
    `duplicates`: how many samples of a part have the same bytes as one of train, by the part's name; of train itself
    as an earlier one. What makes no sense for the data set is None or empty."""

    info: DataInfo
    class_counts: dict[str, dict[str, int]]
    imbalance: float | None
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    columns: tuple[Column, ...]
    duplicates: dict[str, int] | None


def facts(data: DataSet, progress: Progress) -> Facts:
    """All of it; looks at every sample."""
    parts = {"train": data.train, "validation": data.validation, "test": data.test}
    there = {name: part for name, part in parts.items() if part is not None}
    counts = {name: _class_counts(part, data.classes) for name, part in there.items()} if data.classes else {}
    smallest = min(counts["train"].values()) if counts else 0
    fitted, is_text = data.preprocessing, data.name == "text"  # its columns are all alike, and windows repeat
    return Facts(
        data_info(data),
        counts,
        max(counts["train"].values()) / smallest if smallest else None,
        fitted.channel_mean,
        fitted.channel_std,
        () if is_text else fitted.columns,
        None if is_text else _duplicates(there, progress),
    )


def _class_counts(part: Part, classes: tuple[str, ...]) -> dict[str, int]:
    counted = np.bincount(part.targets, minlength=len(classes)).tolist()
    return dict(zip(classes, counted, strict=True))


def _duplicates(parts: dict[str, Part], progress: Progress) -> dict[str, int]:
    digests = {name: _digests(name, part, progress) for name, part in parts.items()}
    known = set(digests["train"])
    return {
        name: len(found) - len(known) if name == "train" else sum(digest in known for digest in found)
        for name, found in digests.items()
    }


def _digests(name: str, part: Part, progress: Progress) -> list[bytes]:
    found = []
    for begin in range(0, len(part), _AT_ONCE):
        progress(f"comparing {name}", begin, len(part))
        rows = part.inputs[begin : begin + _AT_ONCE]
        found += [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
    progress(f"comparing {name}", len(part), len(part))
    return found
