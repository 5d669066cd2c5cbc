"""Optimizers: SGD with and without momentum, Adam, AdamW. Their state is float32 and lies in the ledger."""

from collections.abc import Sequence

from engine.layers import Parameter
from engine.memory import Array, Memory
from engine.ops import Operations

MOMENTUM = 0.9
ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
SLOTS = {
    "sgd": (),
    "momentum": ("velocity",),
    "nesterov": ("velocity",),
    "adam": ("mean", "square"),
    "adamw": ("mean", "square"),
}


class Optimizer:
    """Moves the parameters against their gradients; decay applies to matrices only."""

    def __init__(
        self, name: str, parameters: Sequence[Parameter], weight_decay: float, memory: Memory, operations: Operations
    ) -> None:
        self.name, self.weight_decay, self.count = name, weight_decay, 0
        self._parameters, self._operations = parameters, operations
        self._slots: list[dict[str, Array]] = []
        for value in (parameter.value for parameter in parameters):
            slots = {slot: memory.take(value.shape, value.dtype, "optimizer") for slot in SLOTS[name]}
            for array in slots.values():
                operations.fill(array, 0.0)
            self._slots.append(slots)

    @property
    def arrays(self) -> dict[str, Array]:
        """The state by name, for checkpoints."""
        return {
            f"{parameter.name}.{slot}": array
            for parameter, slots in zip(self._parameters, self._slots, strict=True)
            for slot, array in slots.items()
        }

    def update(self, lr: float) -> None:
        """One update of every parameter; where the operations can, of all in one."""
        self.count += 1
        tensors = [
            (parameter.value, parameter.gradient, *slots.values(), self.weight_decay if parameter.decay else 0.0)
            for parameter, slots in zip(self._parameters, self._slots, strict=True)
        ]
        adam = {"lr": lr, "count": self.count, "decoupled": self.name == "adamw", **ADAM}
        sgd = {"lr": lr, "momentum": MOMENTUM, "nesterov": self.name == "nesterov"}
        if "square" not in SLOTS[self.name]:
            for value, gradient, *velocity, decay in tensors:
                self._operations.sgd_update(value, gradient, *(velocity or [None]), decay=decay, **sgd)
        elif hasattr(self._operations.kernels, "adam_updates"):
            self._operations.adam_updates(tensors, **adam)
        else:
            for *arrays, decay in tensors:
                self._operations.adam_update(*arrays, decay=decay, **adam)
