"""What an operation is: a computation on given arrays, and the scratch memory it needs, both known from shapes
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from engine.memory import Array, ArraySpec

PIECE_BYTES = 1 << 19  # scratch of one piece of an elementwise pass: stays in a core's second-level cache


@dataclass(frozen=True)
class Operation:
    """`compute(*arguments, work=scratch)`; `workspace(*arguments)` says which scratch; `flops` counts the work for
    the planner.
    """

    compute: Callable[..., Any]
    workspace: Callable[..., Sequence[ArraySpec]]
    flops: Callable[..., float]


def operation(
    workspace: Callable[..., Sequence[ArraySpec]] = lambda *arguments, **options: (),
    flops: Callable[..., float] | None = None,
) -> Callable[[Callable[..., Any]], Operation]:
    """Declares a function as an operation. Without `flops`, ten per element of the largest argument."""

    def declare(compute: Callable[..., Any]) -> Operation:
        return Operation(compute, workspace, flops or _elementwise_flops)

    return declare


def array_module(array: Array) -> Any:
    """NumPy or CuPy, whichever the array belongs to."""
    if isinstance(array, np.ndarray):
        return np
    import cupy

    return cupy


def compute_dtype(*arrays: Array) -> np.dtype:
    """What arithmetic is done in: float32, or float64 when any array is float64."""
    return np.result_type(np.float32, *(array.dtype for array in arrays if array is not None))


def rows_of(array: Array) -> Array:
    """The array as (rows, channels): all axes but the last joined."""
    return array.reshape(-1, array.shape[-1])


def piece_rows(array: Array) -> int:
    """How many rows of (rows, channels) make one piece; a multiple of 8 so that bit masks split at whole bytes."""
    rows = PIECE_BYTES // (compute_dtype(array).itemsize * array.shape[-1])
    return max(8, min(rows, prod(array.shape[:-1]) + 7) // 8 * 8)


def piece_scratch(array: Array, *dtypes: Any) -> list[ArraySpec]:
    """One scratch piece a dtype, each of the size of a piece of `array`."""
    rows = min(piece_rows(array), prod(array.shape[:-1]))
    return [ArraySpec((rows, array.shape[-1]), np.dtype(dtype)) for dtype in dtypes]


def pieces(array: Array) -> Iterator[slice]:
    """The row slices that cover (rows, channels) of `array` piece by piece."""
    total, step = prod(array.shape[:-1]), piece_rows(array)
    return (slice(start, min(start + step, total)) for start in range(0, total, step))


def bits_of(piece: slice, channels: int) -> slice:
    """Where the bits of a piece of rows lie in a packed mask."""
    return slice(piece.start * channels // 8, -(-piece.stop * channels // 8))


def _elementwise_flops(*arguments: Any, **options: Any) -> float:
    return 10.0 * max((argument.size for argument in arguments if hasattr(argument, "shape")), default=0)
