"""Adam, for all parameters at once, and the sum of squares that tells whether gradients are finite."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.memory import Array, Scratch
from engine.ops.cuda.launch import launch
from engine.ops.cuda.normalization import end_sums, partial_sums
from engine.ops.operation import operation, slices

_TENSORS = np.dtype([("tensor", "u8,u8,u8,u8,i8,f8", (80,))])  # as many as a kernel's arguments have room for


@operation()
def adam_updates(
    tensors: Sequence[Sequence[Any]], *, count: int, decoupled: bool, work: Scratch, **rates: float
) -> None:
    """`adam_update` of many tensors (value, gradient, mean, square, decay), in as few launches as there can be."""
    numbers = [float(rates[name]) for name in ("lr", "beta1", "beta2", "epsilon")]
    corrections = [1.0 - beta**count for beta in numbers[1:3]]
    for part in slices(len(tensors), _TENSORS["tensor"].shape[0]):
        table = np.zeros(1, _TENSORS)
        for place, (*arrays, decay) in enumerate(tensors[part]):
            table["tensor"][0, place] = (*(array.data.ptr for array in arrays), arrays[0].size, decay)
        launch("adam", table, *numbers, *corrections, int(decoupled), grid=(32, part.stop - part.start))


@operation()
def adam_update(*arrays: Array, decay: float, work: Scratch, **numbers: float) -> None:
    """As the reference."""
    adam_updates.compute([(*arrays, decay)], work=work, **numbers)


@operation(workspace=lambda x, total: [partial_sums(x, 1)])
def square_sum(x: Array, total: Array, *, work: Scratch) -> None:
    """As the reference."""
    launch("square_sums", x.size, *work, x, grid=work[0].shape[2:])
    end_sums(x, *work, total)
