"""Layers one behind the other."""

from collections.abc import Iterator, Sequence

from engine.layers.base import Layer, Pass, Saved
from engine.memory import Array


def chain(parts: "Sequence[Layer] | Sequence[Block]", x: Array, run: Pass) -> Iterator[Array]:
    """The output of each part in turn, nothing kept: x and the last output are the caller's to free."""
    current = x
    for part in parts:
        output = part.forward(current, run, None)
        if current is not x:
            run.memory.give(current)
        current = output
        yield output


class Block:
    """Some layers that are kept or computed again together."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = tuple(layers)
        self.name = self.layers[0].name
        self._saves_input = ["input" in layer.saves(1) for layer in self.layers]
        self.saves_input = self._saves_input[0]
        self._resume_at = max((number for number, saves in enumerate(self._saves_input) if saves), default=0)
        self.rebuilds = self._resume_at > 0 and all(layer.cheap for layer in self.layers[self._resume_at :])

    def forward(self, x: Array, run: Pass, saved: list[Saved] | None) -> Array:
        """The output of x; x stays the caller's."""
        current = x
        for number, layer in enumerate(self.layers):
            kept = saved[number] if saved is not None else None
            last = number + 1 == len(self.layers)
            held = run.hold if last else saved is not None and self._saves_input[number + 1]
            y = layer.forward(current, run.holding(held), kept)
            if kept is not None and self._saves_input[number]:
                kept["input"] = current
            elif number:
                run.memory.give(current)
            run.memory.mark("forward again" if run.again else "forward", layer.name)
            current = y
        return current

    def backward(self, grad: Array | None, run: Pass, saved: list[Saved], owns_input: bool) -> Array | None:
        """The gradient by the block's input; frees what was saved."""
        for number in reversed(range(len(self.layers))):
            layer, kept = self.layers[number], saved[number]
            if grad is not None:
                grad = layer.backward(grad, run, kept)
            for name, array in kept.items():
                if number or owns_input or name != "input":
                    run.memory.give(array)
            run.memory.mark("backward", layer.name)
        return grad

    def rebuild(self, run: Pass, saved: list[Saved]) -> Array:
        """The output once more, from what is saved."""
        *_, output = chain(self.layers[self._resume_at :], saved[self._resume_at]["input"], run)
        run.memory.mark("rebuild", self.name)
        return output
