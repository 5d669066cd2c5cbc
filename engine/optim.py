"""Optimizers: SGD with and without momentum, Adam, AdamW. Their state is float32 and lies in the ledger."""

from collections.abc import Sequence

from engine.layers import Parameter
from engine.memory import Array, Memory
from engine.ops import Operations

MOMENTUM = 0.9
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
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
        for parameter in parameters:
            slots = {
                slot: memory.take(parameter.value.shape, parameter.value.dtype, "optimizer") for slot in SLOTS[name]
            }
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
        """One update of every parameter."""
        self.count += 1
        for parameter, slots in zip(self._parameters, self._slots, strict=True):
            decay = self.weight_decay if parameter.decay else 0.0
            if "square" in slots:
                self._operations.adam_update(
                    parameter.value,
                    parameter.gradient,
                    slots["mean"],
                    slots["square"],
                    lr=lr,
                    beta1=BETA1,
                    beta2=BETA2,
                    epsilon=EPSILON,
                    count=self.count,
                    decay=decay,
                    decoupled=self.name == "adamw",
                )
            else:
                self._operations.sgd_update(
                    parameter.value,
                    parameter.gradient,
                    slots.get("velocity"),
                    lr=lr,
                    momentum=MOMENTUM,
                    nesterov=self.name == "nesterov",
                    decay=decay,
                )
