"""What of a network is trained, and what it gathers: each by itself, and side by side for what is done to all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import numpy as np

from engine.memory import Array, Shape
from engine.ops import Operations


@dataclass
class Parameter:
    """One trained array with its gradient; `decay` says whether weight decay applies (matrices only).

    Its arrays are there once the whole network is known; `start` then writes the first values.
    """

    name: str
    shape: Shape
    decay: bool
    start: Callable[[Array], None]
    value: Array = None
    gradient: Array = None


@dataclass
class Statistic:
    """A running average for each channel: as it is used, and as the window under way would leave it."""

    shape: Shape
    start: float
    value: Array = None
    pending: Array = None


class _Layout:
    """Where arrays lie in one that holds them all: each begins where it would if it were taken by itself."""

    def __init__(self, shapes: Sequence[Shape], dtype: np.dtype, operations: Operations) -> None:
        self._shapes, self._dtype, self._operations = shapes, dtype, operations
        sizes = (operations.memory.rounded(prod(shape) * dtype.itemsize) // dtype.itemsize for shape in shapes)
        self.starts = [*accumulate(sizes, initial=0)]

    def zeros(self, category: str) -> tuple[Array, list[Array]]:
        """The whole, and its parts."""
        whole = self._operations.memory.take(self.starts[-1:], self._dtype, category)
        self._operations.fill(whole, 0.0)
        places = zip(self.starts, self._shapes, strict=False)
        return whole, [whole[start : start + prod(shape)].reshape(shape) for start, shape in places]


class FlatParameters:
    """All parameters side by side, those first that weight decay applies to. The zeros between them nothing moves."""

    def __init__(self, parameters: Sequence[Parameter], dtype: np.dtype, operations: Operations) -> None:
        self._parameters = sorted(parameters, key=lambda each: not each.decay)
        self._layout = _Layout([each.shape for each in self._parameters], dtype, operations)
        starts = self._layout.starts
        decayed = starts[sum(each.decay for each in parameters)]
        self.parts = ((slice(decayed), True), (slice(decayed, starts[-1]), False))
        self.gradient, gradients = self.like("gradients")
        self.value, values = self.like("weights")
        self.bind(values)
        for each in parameters:
            each.gradient = gradients[each.name]
            each.start(each.value)

    def like(self, category: str) -> tuple[Array, dict[str, Array]]:
        """A new array of the same layout, zeros, and its parts by the names of the parameters."""
        whole, parts = self._layout.zeros(category)
        return whole, {each.name: part for each, part in zip(self._parameters, parts, strict=True)}

    def bind(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Lets the parameters found there by name have these values; returns those they had."""
        bound = [each for each in self._parameters if each.name in values]
        before = {each.name: each.value for each in bound}
        for each in bound:
            each.value = values[each.name]
        return before


class FlatStatistics:
    """All running averages side by side; a network need not have any."""

    def __init__(self, statistics: Sequence[Statistic], dtype: np.dtype, operations: Operations) -> None:
        layout = _Layout([each.shape for each in statistics], dtype, operations)
        self._operations, taken = operations, [layout.zeros("weights") for _ in range(2 if statistics else 0)]
        self._wholes = [whole for whole, _ in taken]
        for each, each.value, each.pending in zip(statistics, *(parts for _, parts in taken), strict=False):
            operations.fill(each.value, each.start)
        self.commit(False)

    def commit(self, accepted: bool) -> None:
        """End of a window: what was gathered in it is taken over, or dropped with a skipped update."""
        if self._wholes:
            value, pending = self._wholes
            self._operations.copy(*((pending, value) if accepted else (value, pending)))
