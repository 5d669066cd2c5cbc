"""Losses: the sum over the samples, and the gradient times `factor` (the loss scale over the samples of the window)."""

from typing import Any

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.operation import array_module, compute_dtype, operation


def _wide(x: Array, *ignored: Array, **options: float) -> list[ArraySpec]:
    return [ArraySpec(x.shape, compute_dtype(x))]


@operation(workspace=_wide)
def cross_entropy(
    logits: Array, targets: Array, grad: Array | None, totals: Array, *, smoothing: float, factor: float, work: Scratch
) -> None:
    """totals += (sum of losses, number of right answers); grad = (softmax(logits) - q) * factor.

    q = (1 - smoothing) * p + smoothing / classes (Szegedy et al. 2016), loss = -sum(q * log softmax(logits)). logits
    (N, K); targets: probabilities p (N, K), of which the largest is the right answer, or class numbers (N,), p being 1
    there and 0 elsewhere; totals float64.
    """
    xp = array_module(logits)
    z = work[0]
    classes = logits.shape[1]
    rows = xp.arange(logits.shape[0])
    soft = targets.ndim == 2
    z[...] = logits
    totals[1] += (z.argmax(axis=1) == (targets.argmax(axis=1) if soft else targets)).sum()
    z -= z.max(axis=1, keepdims=True)
    chosen, mean = xp.einsum("nk,nk->n", z, targets) if soft else z[rows, targets], z.mean(axis=1)
    xp.exp(z, out=z)
    normaliser = z.sum(axis=1, keepdims=True)
    losses = xp.log(normaliser[:, 0]) - (1.0 - smoothing) * chosen - smoothing * mean
    totals[0] += losses.sum(dtype=np.float64)
    if grad is not None:
        z /= normaliser
        z -= z.dtype.type(smoothing / classes)
        if soft:
            z -= z.dtype.type(1.0 - smoothing) * targets
        else:
            z[rows, targets] -= z.dtype.type(1.0 - smoothing)
        z *= z.dtype.type(factor)
        grad[...] = z


def _difference(outputs: Array, targets: Array, work: Scratch) -> tuple[Any, Array]:
    """The array module, and outputs - targets in the scratch."""
    xp = array_module(outputs)
    return xp, xp.subtract(outputs, targets, out=work[0])


@operation(workspace=_wide)
def mean_squared_error(
    outputs: Array, targets: Array, grad: Array | None, totals: Array, *, factor: float, work: Scratch
) -> None:
    """totals[0] += sum over samples of the mean over outputs of (y - t)^2; grad = 2 (y - t) / outputs * factor."""
    xp, difference = _difference(outputs, targets, work)
    width = outputs.shape[1]
    totals[0] += xp.square(difference).sum(dtype=np.float64) / width
    if grad is not None:
        difference *= difference.dtype.type(2.0 * factor / width)
        grad[...] = difference


@operation(workspace=_wide)
def huber(outputs: Array, targets: Array, grad: Array | None, totals: Array, *, factor: float, work: Scratch) -> None:
    """As the squared error with e^2 / 2 for |e| <= 1 and |e| - 1/2 beyond (Huber 1964): grad = clip(y - t, -1, 1) *
    factor.
    """
    xp, difference = _difference(outputs, targets, work)
    width = outputs.shape[1]
    size = xp.abs(difference)
    totals[0] += xp.where(size <= 1, 0.5 * size * size, size - 0.5).sum(dtype=np.float64) / width
    if grad is not None:
        xp.clip(difference, -1, 1, out=difference)
        difference *= difference.dtype.type(factor / width)
        grad[...] = difference


@operation(workspace=_wide)
def regression_sums(outputs: Array, targets: Array, totals: Array, *, work: Scratch) -> None:
    """totals += sums over all values of (y - t)^2, |y - t|, t, t^2: what R^2 and the mean absolute error need."""
    xp, difference = _difference(outputs, targets, work)
    totals[1] += xp.square(difference).sum(dtype=np.float64)
    totals[2] += xp.abs(difference).sum(dtype=np.float64)
    totals[3] += targets.sum(dtype=np.float64)
    totals[4] += xp.square(targets.astype(np.float64)).sum()
