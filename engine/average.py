"""Moving averages of the weights, which are evaluated in their place (Polyak and Juditsky 1992)."""

from collections.abc import Iterator
from contextlib import contextmanager

from engine.layers import FlatParameters
from engine.ops import Operations


class WeightAverage:
    """average = d * average + (1 - d) * weight after each accepted update, where d rises to `decay` with the count n of
    updates as (1 + n) / (10 + n). A decay of 0 keeps no averages.
    """

    def __init__(self, decay: float, flat: FlatParameters, operations: Operations) -> None:
        self.count, self._decay, self._flat, self._operations = 0, decay, flat, operations
        self._average, self.arrays = flat.like("weights") if decay else (None, {})
        self.restart()

    def restart(self) -> None:
        """Lets the averages begin at the weights as they are."""
        if self._decay:
            self._operations.copy(self._flat.value, self._average)

    def update(self) -> None:
        """Enters one accepted update."""
        self.count += 1
        decay = min(self._decay, (1 + self.count) / (10 + self.count))
        if self._decay:
            self._operations.move_average(self._flat.value, self._average, momentum=1.0 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The averages as the weights, for an evaluation."""
        weights = self._flat.bind(self.arrays)
        try:
            yield
        finally:
            self._flat.bind(weights)
