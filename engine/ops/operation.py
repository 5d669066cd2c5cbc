"""What an operation is: a computation on given arrays, and the scratch memory it needs, both known from shapes
alone.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from engine.memory import Array, ArraySpec, Scratch

PIECE_BYTES = 1 << 19  # scratch of one piece of an elementwise pass: stays in a core's second-level cache
CARD_PIECES = 32  # so many of them make one on a card, where each costs launches


class _Pieces(threading.local):
    factor = 1


_pieces = _Pieces()


def piece_bytes() -> int:
    """Scratch of one piece here and now."""
    return PIECE_BYTES * _pieces.factor


def in_card_pieces(like: "Operation") -> "Operation":
    """An operation of the reference as a card computes it."""

    def enlarged(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            _pieces.factor = CARD_PIECES
            try:
                return function(*arguments, **options)
            finally:
                _pieces.factor = 1

        return called

    return Operation(enlarged(like.compute), enlarged(like.workspace), like.flops)


Workspace = Callable[..., Sequence[ArraySpec]]


def no_scratch(*arguments: Any, **options: Any) -> Sequence[ArraySpec]:
    """The workspace of an operation that needs none."""
    return ()


@dataclass(frozen=True)
class Operation:
    """`compute(*arguments, work=scratch)`; `workspace(*arguments)` says which scratch; `flops` counts the work for
    the planner. Arguments that are not as `when` says are for the operation `otherwise`.
    """

    compute: Callable[..., Any]
    workspace: Workspace
    flops: Callable[..., float]
    when: Callable[..., bool] | None = None
    otherwise: "Operation | None" = None

    def fitting(self, *arguments: Any, **options: Any) -> "Operation":
        """The operation that takes these arguments: itself, or the other one."""
        return self if self.when is None or self.when(*arguments, **options) else self.otherwise


def operation(
    workspace: Workspace = no_scratch, flops: Callable[..., float] | None = None
) -> Callable[[Callable[..., Any]], Operation]:
    """Declares a function as an operation. Without `flops`, ten per element of the largest argument."""

    def declare(compute: Callable[..., Any]) -> Operation:
        return Operation(compute, workspace, flops or _elementwise_flops)

    return declare


def operations_of(*modules: ModuleType) -> dict[str, Operation]:
    """All operations of some modules, by name."""
    return {name: found for each in modules for name, found in vars(each).items() if isinstance(found, Operation)}


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
    rows = piece_bytes() // (compute_dtype(array).itemsize * array.shape[-1])
    return max(8, min(rows, prod(array.shape[:-1]) + 7) // 8 * 8)


def piece_scratch(array: Array, *dtypes: Any) -> list[ArraySpec]:
    """One scratch piece a dtype, each of the size of a piece of `array`."""
    rows = min(piece_rows(array), prod(array.shape[:-1]))
    return [ArraySpec((rows, array.shape[-1]), np.dtype(dtype)) for dtype in dtypes]


def scratch_pieces(count: int) -> Callable[..., list[ArraySpec]]:
    """The workspace of an operation that works on `count` pieces of its first argument in the arithmetic's dtype."""
    return lambda x, *arrays, **options: piece_scratch(x, *[compute_dtype(x)] * count)


def slices(total: int, step: int) -> Iterator[slice]:
    """Slices of `step` that cover `total`."""
    return (slice(start, min(start + step, total)) for start in range(0, total, step))


def pieces(array: Array) -> Iterator[slice]:
    """The row slices that cover (rows, channels) of `array` piece by piece."""
    return slices(prod(array.shape[:-1]), piece_rows(array))


def matching(spans: Iterable[slice], arrays: Sequence[Array | None], work: Scratch = ()) -> Iterator[list[Any]]:
    """Piece by piece, the same part of every array (None stays None), then as much of every scratch array."""
    for span in spans:
        parts = [array if array is None else array[span] for array in arrays]
        yield parts + [scratch[: span.stop - span.start] for scratch in work]


def in_pieces(first: Array, *others: Array | None, work: Scratch = ()) -> Iterator[list[Any]]:
    """`matching` over the rows of arrays as (rows, channels); an array of one axis holds one value a row."""
    arrays = [array if array is None or array.ndim == 1 else rows_of(array) for array in (first, *others)]
    return matching(pieces(first), arrays, work)


def _elementwise_flops(*arguments: Any, **options: Any) -> float:
    return 10.0 * max((argument.size for argument in arguments if hasattr(argument, "shape")), default=0)
