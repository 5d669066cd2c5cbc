"""Adam, and the sum of squares that tells whether gradients are finite."""

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.cuda.launch import launch
from engine.ops.cuda.normalization import end_sums, partial_sums
from engine.ops.operation import operation


@operation()
def adam_update(
    *arrays: Array, lr: float, count: int, decay: float, decoupled: bool, work: Scratch, **rates: float
) -> None:
    """As the reference."""
    beta1, beta2, epsilon = (rates[name] for name in ("beta1", "beta2", "epsilon"))
    decays = (1.0 - lr * decay, 0.0) if decoupled else (1.0, decay)
    numbers = (*decays, beta1, beta2, 1.0 / (1.0 - beta2**count), epsilon, lr / (1.0 - beta1**count))
    launch("adam", arrays[0].size, *arrays, *map(float, numbers))


@operation(workspace=lambda x: [partial_sums(x, 1), ArraySpec((1,), np.dtype(np.float64))])
def is_finite(x: Array, *, work: Scratch) -> bool:
    """As the reference, by the sum of squares."""
    partial, total = work
    total[...] = 0
    square_sum.compute(x, total, work=[partial])
    return bool(np.isfinite(total.get()[0]))


@operation(workspace=lambda x, total: [partial_sums(x, 1)])
def square_sum(x: Array, total: Array, *, work: Scratch) -> None:
    """As the reference."""
    launch("square_sums", x.size, *work, x, grid=work[0].shape[2:])
    end_sums(x, *work, total)
