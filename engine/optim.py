"""Optimizers: SGD with and without momentum, Adam, AdamW. Their state is float32 and lies in the ledger."""

from engine.layers import FlatParameters
from engine.ops import Operations

MOMENTUM = 0.9
ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
_ONE, _TWO = ("velocity",), ("mean", "square")
SLOTS = {"sgd": (), "momentum": _ONE, "nesterov": _ONE, "adam": _TWO, "adamw": _TWO}


class Optimizer:
    """Moves all parameters against their gradients; decay applies to matrices only."""

    def __init__(self, name: str, flat: FlatParameters, weight_decay: float, operations: Operations) -> None:
        self.name, self.count = name, 0
        self._flat, self._weight_decay, self._operations = flat, weight_decay, operations
        slots = {slot: flat.like("optimizer") for slot in SLOTS[name]}
        self._slots = [whole for whole, _ in slots.values()]
        self.arrays = {f"{name}.{slot}": part for slot, (_, parts) in slots.items() for name, part in parts.items()}

    def update(self, lr: float) -> None:
        """One update: of the parameters that decay, and of the others."""
        self.count += 1
        if "square" in SLOTS[self.name]:
            operation = self._operations.adam_update
            options = {"count": self.count, "decoupled": self.name == "adamw", **ADAM}
        else:
            operation = self._operations.sgd_update
            options = {"momentum": MOMENTUM, "nesterov": self.name == "nesterov"}
        for part, decays in self._flat.parts:
            arrays = [array[part] for array in (self._flat.value, self._flat.gradient, *self._slots)]
            if arrays[0].size:
                operation(*arrays, lr=lr, decay=decays * self._weight_decay, **options)
