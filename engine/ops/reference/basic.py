"""Filling, copying, adding, scaling, and the two questions about finiteness."""

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.operation import array_module, matching, operation, piece_bytes, slices


def _piece() -> int:
    return piece_bytes() // 64


@operation()
def fill(out: Array, value: float, *, work: Scratch) -> None:
    """out[...] = value."""
    out[...] = value


@operation()
def copy(x: Array, out: Array, *, work: Scratch) -> None:
    """out = x, cast to out's dtype."""
    out[...] = x.reshape(out.shape)


@operation()
def add(x: Array, out: Array, *, work: Scratch) -> None:
    """out += x."""
    xp = array_module(out)
    xp.add(out, x, out=out)


@operation()
def scale(out: Array, factor: float, *, work: Scratch) -> None:
    """out *= factor, the factor rounded to out's dtype once."""
    out *= out.dtype.type(factor)


@operation(workspace=lambda x, total: [ArraySpec((min(x.size, _piece()),), np.dtype(np.float64))])
def square_sum(x: Array, total: Array, *, work: Scratch) -> None:
    """total[0] += sum of x^2 in float64, which cannot overflow for float32 values: not finite exactly if x is not."""
    xp = array_module(x)
    for source, wide in matching(slices(x.size, _piece()), [x.reshape(-1)], work):
        wide[...] = source
        total += xp.dot(wide, wide)


@operation()
def is_finite(x: Array, *, work: Scratch) -> bool:
    """Whether every value of x is finite."""
    xp = array_module(x)
    return all(bool(xp.isfinite(piece).all()) for (piece,) in matching(slices(x.size, _piece()), [x.reshape(-1)]))


@operation()
def read(x: Array, *, work: Scratch) -> np.ndarray:
    """The values of x on the host, as a new NumPy array."""
    return np.array(x if isinstance(x, np.ndarray) else x.get())
