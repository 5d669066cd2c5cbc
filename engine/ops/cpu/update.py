"""An update of parameters, and the sum of squares that tells whether gradients are finite, each in one pass."""

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops import reference
from engine.ops.cpu.elementwise import ranges
from engine.ops.cpu.kernels import kernel
from engine.ops.cpu.storage import compiled, flat
from engine.ops.cpu.threads import THREADS, in_parallel


@kernel("FFFFTii")
def _adam(value, gradient, mean, square, numbers, first, last):
    kept, decay, beta1, rest1, beta2, rest2, unbias, epsilon, step = numbers
    w, g, m, s = value[first:last], gradient[first:last], mean[first:last], square[first:last]
    for place in range(w.size):
        weight = w[place] * kept
        slope = weight * decay + g[place]
        m[place] = m[place] * beta1 + slope * rest1
        s[place] = s[place] * beta2 + slope * slope * rest2
        w[place] = weight - m[place] / (np.sqrt(s[place] * unbias) + epsilon) * step


@compiled(reference.adam_update)
def adam_update(
    value: Array, *arrays: Array, lr: float, count: int, decay: float, decoupled: bool, work: Scratch, **rates: float
) -> None:
    """As the reference."""
    beta1, beta2, epsilon = (rates[name] for name in ("beta1", "beta2", "epsilon"))
    decays = (1.0 - lr * decay, 0.0) if decoupled else (1.0, decay)
    factors = (beta1, 1.0 - beta1, beta2, 1.0 - beta2, 1.0 / (1.0 - beta2**count))
    numbers = tuple(map(np.float32, (*decays, *factors, epsilon, lr / (1.0 - beta1**count))))
    in_parallel(_adam, ranges(value), *map(flat, (value, *arrays)), numbers)


@kernel("FiiD", any_order=True)
def _squares(x, first, last, total):
    squares = 0.0
    for place in range(first, last):
        squares += np.float64(x[place]) * np.float64(x[place])
    total[0] = squares


@compiled(
    reference.square_sum, lambda x, total: [ArraySpec((THREADS, 1), np.dtype(np.float64))],
    lambda x, total: x.dtype == np.float32,
)  # fmt: skip
def square_sum(x: Array, total: Array, *, work: Scratch) -> None:
    """As the reference."""
    parts = ranges(x)
    in_parallel(_squares, parts, flat(x), own=work)
    total += work[0][: len(parts)].sum()
