"""How well a classifier did on samples whose classes are known: the confusion matrix, and what follows from it."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ClassScore:
    """One class: `precision` is the share of right ones among those taken for it, None where none was; `recall` the
    share of its own samples that were found, None where it has none."""

    name: str
    count: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True)
class Confused:
    """`count` samples of the class `true` were taken for `taken_for`; `share` of all that the class has."""

    true: str
    taken_for: str
    count: int
    share: float


def confusion(targets: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Samples by true class (rows) and predicted class (columns), int64; both are given as class numbers."""
    pairs = targets.astype(np.int64) * classes + predicted
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def class_scores(matrix: np.ndarray, names: tuple[str, ...]) -> list[ClassScore]:
    """The scores of every class of a confusion matrix."""
    right, taken, counts = matrix.diagonal(), matrix.sum(axis=0), matrix.sum(axis=1)
    return [
        ClassScore(name, int(count), _share(right[place], taken[place]), _share(right[place], count))
        for place, (name, count) in enumerate(zip(names, counts, strict=True))
    ]


def most_confused(matrix: np.ndarray, names: tuple[str, ...], most: int) -> list[Confused]:
    """The commonest mistakes, at most `most` of them, the commonest first."""
    mistakes = matrix - np.diag(matrix.diagonal())
    order = np.argsort(-mistakes, axis=None, kind="stable")[:most]
    pairs = [divmod(int(place), len(names)) for place in order if mistakes.flat[place]]
    counts = matrix.sum(axis=1)
    return [
        Confused(names[true], names[taken], int(matrix[true, taken]), float(matrix[true, taken] / counts[true]))
        for true, taken in pairs
    ]


def _share(part: np.int64, whole: np.int64) -> float | None:
    return float(part / whole) if whole else None
