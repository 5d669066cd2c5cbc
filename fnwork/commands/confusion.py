"""A classifier's scores as text: a table of the classes, the confusion matrix, and the commonest mistakes."""

from collections.abc import Iterable, Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size

from fnwork import scores
from fnwork.text import harmless

MOST_CLASSES = 30  # more than these are not listed one by one
MOST_MISTAKES = 5
_LONGEST_NAME = 24
_SHORTEST_NAME = 6


def lines(matrix: np.ndarray, names: Sequence[str], width: int) -> list[str]:
    """The text for a terminal of `width` columns; what does not fit into it is left out, and said to be."""
    names = tuple(map(harmless, names))
    return [*_classes(matrix, names), "", *_matrix(matrix, names, width), *_mistakes(matrix, names)]


def _classes(matrix: np.ndarray, names: tuple[str, ...]) -> list[str]:
    found = scores.class_scores(matrix, names)
    told = []
    if len(names) > MOST_CLASSES:
        told = ["", f"these are the {MOST_CLASSES} of {len(names)} classes with the lowest recall"]
        found = sorted(found, key=lambda score: 1.0 if score.recall is None else score.recall)[:MOST_CLASSES]
    rows = [
        [_cut(score.name, _LONGEST_NAME), f"{score.count:,}", _percent(score.precision), _percent(score.recall)]
        for score in found
    ]
    return [*_aligned([["class", "count", "precision", "recall"], *rows], "  "), *told]


def _matrix(matrix: np.ndarray, names: tuple[str, ...], width: int) -> list[str]:
    """Rows are what the samples are, columns what they were taken for; numbers stand for names that are long."""
    cells = [[str(count) if count else "·" for count in row] for row in matrix.tolist()]
    cell = max(len(text) for row in cells for text in row)
    short = max(map(cell_len, names)) <= max(cell, 2)
    heads = names if short else [str(place) for place in range(len(names))]
    cell = max(cell, *map(cell_len, heads))
    longest = min(max(map(cell_len, names)), _LONGEST_NAME)
    numbers = 0 if short else max(map(len, heads)) + 1
    for gap, room in (("  ", longest), (" ", longest), (" ", min(longest, _SHORTEST_NAME))):
        left = width - numbers - len(names) * (cell + len(gap))
        if left >= room:
            break
    else:
        return [f"the confusion matrix of {len(names)} classes is wider than this terminal; --json has it", ""]
    labels = [_cut(name, min(longest, left)) for name in names]
    if not short:
        labels = [f"{head:>{numbers - 1}} {label}" for head, label in zip(heads, labels, strict=True)]
    rows = [["", *heads], *([label, *row] for label, row in zip(labels, cells, strict=True))]
    return ["each row a class, each column what its samples were taken for", *_aligned(rows, gap, cell), ""]


def _mistakes(matrix: np.ndarray, names: tuple[str, ...]) -> list[str]:
    found = scores.most_confused(matrix, names, MOST_MISTAKES)
    if not found:
        return ["no sample was mistaken"]
    rows = [
        [
            f"{_cut(pair.true, _LONGEST_NAME)} for {_cut(pair.taken_for, _LONGEST_NAME)}",
            f"{pair.count:,}",
            _percent(pair.share),
        ]
        for pair in found
    ]
    return _aligned([["most often mistaken", "count", "of its class"], *rows], "  ")


def _aligned(rows: Iterable[Sequence[str]], gap: str, narrowest: int = 0) -> list[str]:
    """The first column to the left, the others to the right, each at least `narrowest` wide."""
    rows = list(rows)
    first, *others = (max(map(cell_len, column)) for column in zip(*rows, strict=True))
    widths = [max(width, narrowest) for width in others]
    return [
        gap.join([_padded(row[0], first), *(" " * (w - cell_len(c)) + c for c, w in zip(row[1:], widths, strict=True))])
        for row in rows
    ]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _cut(name: str, width: int) -> str:
    return name if cell_len(name) <= width else f"{set_cell_size(name, width - 1).rstrip()}…"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"
