"""The loss of classification and its gradient, row by row, in one pass."""

import numpy as np

from engine.memory import Array, Scratch
from engine.ops import reference
from engine.ops.cpu.kernels import kernel
from engine.ops.cpu.storage import NOTHING, compiled, flat


@kernel("FIiffbFD")
def _cross_entropy(logits, targets, classes, smoothing, factor, keeps_gradient, grad, totals):
    rest, least = np.float32(1) - smoothing, smoothing / np.float32(classes)
    for row in range(targets.size):
        z, right = logits[row * classes : (row + 1) * classes], targets[row]
        best = np.argmax(z)
        total, spread = np.float32(0), np.float32(0)
        for k in range(classes):
            total += np.exp(z[k] - z[best])
            spread += z[k] - z[best]
        totals[0] += np.log(total) - rest * (z[right] - z[best]) - least * spread
        totals[1] += best == right
        if keeps_gradient:
            for k in range(classes):
                share = np.exp(z[k] - z[best]) / total - least - (rest if k == right else np.float32(0))
                grad[row * classes + k] = share * factor


def _fits(logits: Array, targets: Array, *arrays: Array | None, **options: float) -> bool:
    return logits.dtype == np.float32 and len(targets.shape) == 1


@compiled(reference.cross_entropy, when=_fits)
def cross_entropy(
    logits: Array, targets: Array, grad: Array | None, totals: Array, *, smoothing: float, factor: float, work: Scratch
) -> None:
    """As the reference, for numbers of classes."""
    gradient = (grad is not None, NOTHING if grad is None else flat(grad))
    numbers = (logits.shape[1], np.float32(smoothing), np.float32(factor))
    _cross_entropy(flat(logits), targets, *numbers, *gradient, totals)
