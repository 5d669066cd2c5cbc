"""From events to curves: series over updates and epochs, smoothing, and what a drawing of them needs.

Values that are not finite stay in the series: smoothing skips them, thinning leaves gaps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LARGEST = 1e290  # sums of anything above could overflow

STEP_VALUES = ("epoch", "loss", "lr", "grad_norm", "samples_per_s", "data_wait")
EPOCH_VALUES = tuple(f"{part}_{metric}" for part in ("train", "val") for metric in ("loss", "accuracy", "r2", "mae"))
MEMORY_CATEGORIES = ("weights", "gradients", "optimizer", "activations", "workspace", "data")


class History:
    """Columns of float64 that grow by rows; reading a column is a view, not a copy."""

    def __init__(self, *columns: str) -> None:
        self._index = {name: number for number, name in enumerate(columns)}
        self._values = np.full((len(columns), 64), np.nan)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, column: str) -> Floats:
        return self._values[self._index[column], : self._length]

    def append(self, **values: float) -> None:
        """Adds a row; columns that are not given become nan."""
        if self._length == self._values.shape[1]:
            self._values = np.concatenate([self._values, np.full_like(self._values, np.nan)], axis=1)
        for name, value in values.items():
            self._values[self._index[name], self._length] = value
        self._length += 1

    def extend(self, columns: Mapping[str, Floats]) -> None:
        """Adds rows, given as columns of one length; columns that are not given become nan."""
        count = len(next(iter(columns.values())))
        while self._length + count > self._values.shape[1]:
            self._values = np.concatenate([self._values, np.full_like(self._values, np.nan)], axis=1)
        for name, values in columns.items():
            self._values[self._index[name], self._length : self._length + count] = values
        self._length += count

    def last(self, column: str, default: float = math.nan) -> float:
        """The newest value of a column."""
        return float(self[column][-1]) if self._length else default

    def cut_after(self, column: str, limit: float) -> None:
        """Drops the rows at the end whose value of `column` lies above `limit`."""
        kept = self._length
        while kept and self._values[self._index[column], kept - 1] > limit:
            kept -= 1
        self._values[:, kept : self._length] = np.nan
        self._length = kept


class Smoother:
    """Exponential mean of about the last `window` values, without the pull towards zero at its start.

    Values that are not finite are skipped.
    """

    def __init__(self, window: float) -> None:
        self._keep = 1.0 - 1.0 / max(1.0, window)
        self._sum = 0.0
        self._weight = 0.0
        self.count = 0

    def add(self, value: float) -> float:
        """The mean after one more value."""
        if math.isfinite(value):
            self._sum = self._keep * self._sum + (1.0 - self._keep) * value
            self._weight = self._keep * self._weight + 1.0 - self._keep
            self.count += 1
        return self.value

    def add_all(self, values: Floats) -> Floats:
        """The mean after each of these values; nan where a value is not finite."""
        finite = np.isfinite(values)
        kept = np.clip(values[finite], -_LARGEST, _LARGEST)
        means = np.full(values.shape, np.nan)
        if not kept.size:
            return means
        self.count += kept.size
        if self._keep == 0.0:
            means[finite], self._sum, self._weight = kept, float(kept[-1]), 1.0
            return means
        # Within a stretch s[i] = keep**i * (s[-1] + sum of new[j] * keep**-j): a cumulative sum; keep**-j stays small.
        length = max(1, min(kept.size, int(-18.0 / math.log(self._keep))))
        powers = self._keep ** np.arange(1, length + 1)
        sums = np.empty(kept.shape)
        for start in range(0, kept.size, length):
            piece = kept[start : start + length]
            decay = powers[: piece.size]
            sums[start : start + length] = decay * (self._sum + (1.0 - self._keep) * np.cumsum(piece / decay))
            self._sum = float(sums[start + piece.size - 1])
        weights = 1.0 - (1.0 - self._weight) * np.exp(np.arange(1, kept.size + 1) * math.log(self._keep))
        self._weight = float(weights[-1])
        means[finite] = sums / weights
        return means

    @property
    def value(self) -> float:
        """The mean; nan before the first finite value."""
        return self._sum / self._weight if self.count else math.nan


class Curves:
    """The series of one run, built event by event; `steps` by update, `epochs` by epoch, `memory` over time.

    What was written after the moment that a resume goes back to happens once more, and is dropped.
    """

    def __init__(self) -> None:
        self.steps = History("step", "t", *STEP_VALUES)
        self.epochs = History("step", "t", "epoch", *EPOCH_VALUES)
        self.memory = History("step", "t", "total", *MEMORY_CATEGORIES)

    def take(self, event: Mapping[str, Any]) -> None:
        """Adds one event; kinds that are no part of a curve are passed over."""
        t = number(event.get("t"))
        match event.get("kind"):
            case "step":
                self.take_steps([event])
            case "epoch":
                values = {name: number(event.get(name)) for name in EPOCH_VALUES}
                self.epochs.append(step=number(event.get("step")), t=t, epoch=number(event.get("epoch")), **values)
            case "memory" if isinstance(held := event.get("bytes"), Mapping):
                values = {name: number(held.get(name, 0)) for name in MEMORY_CATEGORIES}
                self.memory.append(step=self._step_at(t), t=t, total=sum(values.values()), **values)
            case "resume":
                for history in (self.steps, self.epochs, self.memory):
                    history.cut_after("t", t)

    def _step_at(self, t: float) -> float:
        """The newest update at a moment."""
        known = int(np.searchsorted(self.steps["t"], t, "right"))
        return float(self.steps["step"][known - 1]) if known else 0.0

    def take_steps(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Adds several events of kind "step" at once, which is much faster than one after the other."""
        self.steps.extend(
            {name: numbers([event.get(name) for event in events]) for name in ("step", "t", *STEP_VALUES)}
        )


def numbers(values: Sequence[Any]) -> Floats:
    """`number` of several values."""
    plain = set(map(type, values)) <= {float, int}
    try:
        return np.array(values if plain else [number(value) for value in values], dtype=np.float64)
    except OverflowError:
        return np.array([number(value) for value in values])


def number(value: Any) -> float:
    """A value of an event as a float; nan for what is no number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def smoothed(values: Floats, window: float) -> Floats:
    """`Smoother` over a whole series at once; nan where a value is not finite."""
    return Smoother(window).add_all(values)


def thinned(x: Floats, y: Floats, columns: int) -> tuple[Floats, Floats]:
    """At most two points a column: the lowest and the highest finite value of it; nan where it has none.

    x is counted in columns and never falls. Where there are few points they stay as they are.
    """
    if x.size <= 2 * columns:
        return x, y
    starts = np.flatnonzero(np.diff(np.rint(x), prepend=-np.inf))
    finite = np.isfinite(y)
    lowest = np.minimum.reduceat(np.where(finite, y, np.inf), starts)
    highest = np.maximum.reduceat(np.where(finite, y, -np.inf), starts)
    none = lowest > highest
    both = np.stack([np.where(none, np.nan, lowest), np.where(none, np.nan, highest)], axis=1)
    return np.repeat(np.rint(x[starts]), 2), both.reshape(-1)


def logarithms(y: Floats) -> tuple[Floats, int]:
    """log10 of the values, nan where they have no place on the axis; and how many finite ones were left out."""
    shown = np.isfinite(y) & (y > 0)
    exponents = np.full(y.shape, np.nan)
    exponents[shown] = np.log10(y[shown])
    return exponents, int(np.count_nonzero(np.isfinite(y)) - np.count_nonzero(shown))
