"""An update of one parameter array in one pass over memory."""

import numpy as np

from engine.memory import Array, Scratch
from engine.ops import reference
from engine.ops.cpu.elementwise import ranges
from engine.ops.cpu.kernels import kernel
from engine.ops.cpu.storage import compiled, flat
from engine.ops.cpu.threads import in_parallel


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
