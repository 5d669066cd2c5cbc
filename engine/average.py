"""Moving averages of the weights, which are evaluated in their place (Polyak and Juditsky 1992)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from engine.layers import Parameter
from engine.memory import Array
from engine.ops import Operations


class WeightAverage:
    """average = d * average + (1 - d) * weight after each accepted update, where d rises to `decay` with the count n of
    updates as (1 + n) / (10 + n). A decay of 0 keeps no averages.
    """

    def __init__(self, decay: float, parameters: Sequence[Parameter], operations: Operations) -> None:
        self.count, self._decay, self._operations = 0, decay, operations
        self._parameters = parameters if decay else ()
        take = operations.memory.take
        self._values = [take(each.value.shape, each.value.dtype, "weights") for each in self._parameters]
        self.restart()

    @property
    def arrays(self) -> dict[str, Array]:
        """The averages by the names of the parameters."""
        return {each.name: value for each, value in zip(self._parameters, self._values, strict=True)}

    def restart(self) -> None:
        """Lets the averages begin at the weights as they are."""
        for each, value in zip(self._parameters, self._values, strict=True):
            self._operations.copy(each.value, value)

    def update(self) -> None:
        """Enters one accepted update."""
        self.count += 1
        decay = min(self._decay, (1 + self.count) / (10 + self.count))
        for each, value in zip(self._parameters, self._values, strict=True):
            self._operations.move_average(each.value, value, momentum=1.0 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The averages as the weights, for an evaluation."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for place, each in enumerate(self._parameters):
            each.value, self._values[place] = self._values[place], each.value
