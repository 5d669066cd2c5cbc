"""Operations over one ledger: chosen once when a run starts, then called by the layers with the arrays they work on."""

from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from engine.memory import Array, Memory
from engine.ops import reference
from engine.ops.operation import Operation


def kernels_named(name: str) -> ModuleType:
    """The module of operations: "reference", or "cpu" with compiled ones, imported only when it is asked for."""
    return reference if name == "reference" else import_module(f"engine.ops.{name}")


@cache
def without_kernels() -> str:
    """Why compiled operations of the CPU cannot be had here, or ""."""
    try:
        kernels_named("cpu")
    except Exception as error:  # Numba raises many kinds where it is missing, does not suit the rest, or has no folder
        return said(error)
    return ""


def said(error: Exception) -> str:
    """An error on one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


class Operations:
    """`operations.name(arrays...)` takes the scratch that the operation declares from the ledger and computes."""

    def __init__(self, memory: Memory, kernels: ModuleType = reference) -> None:
        self.memory = memory
        self.kernels = kernels

    def __getattr__(self, name: str) -> Any:
        bound = partial(self._call, getattr(self.kernels, name))
        self.__dict__[name] = bound
        return bound

    def _call(self, operation: Operation, *arguments: Any, **options: Any) -> Any:
        operation = operation.fitting(*arguments, **options)
        with self.memory.workspace(operation.workspace(*arguments, **options)) as work:
            return operation.compute(*arguments, work=work, **options)


def to_host(array: Array) -> np.ndarray:
    """The array itself on the CPU, a copy of one on a card."""
    return array if isinstance(array, np.ndarray) else array.get()


def from_host(values: np.ndarray, target: Array) -> None:
    """Copies values of the CPU into an array, wherever that lies."""
    if isinstance(target, np.ndarray):
        target[...] = values
    else:
        target.set(np.ascontiguousarray(values, target.dtype))
