"""Batch norm over rows of (rows, channels) and layer norm over the last axis, piece by piece.

Batch norm can add a skip connection and a ReLU in the same pass: y = relu(gamma * (x - mean) * inv_std + beta +
skip). Nothing
but x and the statistics is needed to compute it, or its gradient, again.
"""

from __future__ import annotations

import numpy as np

from engine.memory import Array, ArraySpec
from engine.ops.operation import array_module, bits_of, compute_dtype, operation, piece_scratch, pieces, rows_of


def _scratch(x: Array, *ignored: Array, count: int = 1) -> list[ArraySpec]:
    return piece_scratch(x, *[compute_dtype(x)] * count)


@operation(workspace=_scratch)
def channel_statistics(x: Array, mean: Array, variance: Array, *, work: list[Array]) -> None:
    """mean and (biased) variance of each channel; two passes, sums of pieces added up in float64."""
    xp = array_module(x)
    rows, count = rows_of(x), x.size // x.shape[-1]
    total = xp.zeros(x.shape[-1], np.float64)
    for piece in pieces(x):
        total += rows[piece].sum(axis=0, dtype=work[0].dtype)
    mean[...] = total / count
    total[...] = 0
    for piece in pieces(x):
        centred = work[0][: piece.stop - piece.start]
        xp.subtract(rows[piece], mean, out=centred)
        centred *= centred
        total += centred.sum(axis=0)
    variance[...] = total / count


def _batch_norm_workspace(
    x: Array,
    mean: Array,
    inv_std: Array,
    gamma: Array,
    beta: Array,
    out: Array,
    *,
    skip: Array | None,
    relu: bool,
    mask: Array | None,
) -> list[ArraySpec]:
    return piece_scratch(x, compute_dtype(x), *([np.bool_] if mask is not None else []))


@operation(workspace=_batch_norm_workspace)
def batch_norm(
    x: Array,
    mean: Array,
    inv_std: Array,
    gamma: Array,
    beta: Array,
    out: Array,
    *,
    skip: Array | None,
    relu: bool,
    mask: Array | None,
    work: list[Array],
) -> None:
    """out = gamma * (x - mean) * inv_std + beta [+ skip] [then max(., 0), with one bit an element in `mask` for >
    0].
    """
    xp = array_module(x)
    slope = gamma * inv_std
    offset = beta - mean * slope
    x, out, channels = rows_of(x), rows_of(out), x.shape[-1]
    skip = rows_of(skip) if skip is not None else None
    for piece in pieces(x):
        y = work[0][: piece.stop - piece.start]
        xp.multiply(x[piece], slope, out=y)
        y += offset
        if skip is not None:
            y += skip[piece]
        if mask is not None:
            positive = work[1][: piece.stop - piece.start]
            xp.greater(y, 0, out=positive)
            mask[bits_of(piece, channels)] = xp.packbits(positive)
        if relu:
            xp.maximum(y, 0, out=y)
        out[piece] = y


def _batch_norm_backward_workspace(x: Array, *arrays: Array, relu: bool, mask: Array | None) -> list[ArraySpec]:
    return _scratch(x, count=2)


@operation(workspace=_batch_norm_backward_workspace)
def batch_norm_backward(
    x: Array,
    mean: Array,
    inv_std: Array,
    gamma: Array,
    beta: Array,
    grad: Array,
    gamma_grad: Array,
    beta_grad: Array,
    out: Array,
    *,
    relu: bool,
    mask: Array | None,
    work: list[Array],
) -> None:
    """out = d loss / d x (out may be x itself); `grad` is left as the gradient by the sum before the ReLU.

    With h = (x - mean) * inv_std over M rows (Ioffe and Szegedy 2015):
    d gamma = sum(g h), d beta = sum(g), d x = gamma * inv_std * (g - sum(g) / M - h * sum(g h) / M).
    """
    xp = array_module(x)
    count, channels = x.size // x.shape[-1], x.shape[-1]
    slope = gamma * inv_std
    offset = beta - mean * slope
    x, grad, out = rows_of(x), rows_of(grad), rows_of(out)
    sum_g = xp.zeros(channels, np.float64)
    sum_gh = xp.zeros(channels, np.float64)
    for piece in pieces(x):
        size = piece.stop - piece.start
        g, h = work[0][:size], work[1][:size]
        if relu:
            if mask is None:
                xp.multiply(x[piece], slope, out=h)
                h += offset
                positive = h > 0
            else:
                positive = xp.unpackbits(mask[bits_of(piece, channels)])[: size * channels].reshape(size, channels)
            xp.multiply(grad[piece], positive, out=g)
            grad[piece] = g
        else:
            g[...] = grad[piece]
        sum_g += g.sum(axis=0)
        xp.subtract(x[piece], mean, out=h)
        h *= g
        sum_gh += h.sum(axis=0) * inv_std
    gamma_grad += sum_gh.astype(gamma_grad.dtype)
    beta_grad += sum_g.astype(beta_grad.dtype)
    mean_g = (sum_g / count).astype(work[0].dtype)
    per_x = (inv_std * sum_gh / count).astype(work[0].dtype)
    for piece in pieces(x):
        g, h = work[0][: piece.stop - piece.start], work[1][: piece.stop - piece.start]
        xp.subtract(x[piece], mean, out=h)
        h *= per_x
        xp.subtract(grad[piece], mean_g, out=g)
        g -= h
        g *= slope
        out[piece] = g


@operation(workspace=lambda *arrays, **options: _scratch(arrays[0]))
def layer_norm(
    x: Array, gamma: Array, beta: Array, mean: Array, inv_std: Array, out: Array, *, epsilon: float, work: list[Array]
) -> None:
    """out = gamma * (x - mean) * inv_std + beta with the statistics of each row, which are kept in mean and inv_std."""
    xp = array_module(x)
    rows, out = rows_of(x), rows_of(out)
    for piece in pieces(x):
        centred = work[0][: piece.stop - piece.start]
        centred[...] = rows[piece]
        row_mean = centred.mean(axis=1)
        centred -= row_mean[:, None]
        row_inv_std = 1.0 / xp.sqrt(xp.einsum("rc,rc->r", centred, centred) / centred.shape[1] + epsilon)
        mean[piece], inv_std[piece] = row_mean, row_inv_std
        centred *= row_inv_std[:, None]
        centred *= gamma
        centred += beta
        out[piece] = centred


@operation(workspace=lambda *arrays, **options: _scratch(arrays[0], count=2))
def layer_norm_backward(
    x: Array,
    mean: Array,
    inv_std: Array,
    gamma: Array,
    grad: Array,
    gamma_grad: Array,
    beta_grad: Array,
    out: Array,
    *,
    work: list[Array],
) -> None:
    """out = d loss / d x (out may be x itself).

    With h = (x - mean) * inv_std and u = g * gamma (Ba, Kiros and Hinton 2016):
    d gamma = sum(g h), d beta = sum(g), d x = inv_std * (u - mean(u) - h * mean(u h)).
    """
    xp = array_module(x)
    x, grad, out = rows_of(x), rows_of(grad), rows_of(out)
    for piece in pieces(x):
        h, u = work[0][: piece.stop - piece.start], work[1][: piece.stop - piece.start]
        xp.subtract(x[piece], mean[piece][:, None], out=h)
        h *= inv_std[piece][:, None]
        u[...] = grad[piece]
        beta_grad += u.sum(axis=0)
        gamma_grad += xp.einsum("rc,rc->c", u, h)
        u *= gamma
        mean_uh = xp.einsum("rc,rc->r", u, h) / u.shape[1]
        u -= u.mean(axis=1)[:, None]
        h *= mean_uh[:, None]
        u -= h
        u *= inv_std[piece][:, None]
        out[piece] = u


@operation()
def inverse_deviation(variance: Array, out: Array, *, epsilon: float, work: list[Array]) -> None:
    """out = 1 / sqrt(variance + epsilon) (out may be variance itself)."""
    xp = array_module(variance)
    xp.add(variance, variance.dtype.type(epsilon), out=out)
    xp.sqrt(out, out=out)
    xp.divide(1, out, out=out)


@operation()
def move_average(value: Array, average: Array, *, momentum: float, factor: float = 1.0, work: list[Array]) -> None:
    """average = (1 - momentum) * average + momentum * factor * value."""
    average *= average.dtype.type(1.0 - momentum)
    average += value * average.dtype.type(momentum * factor)
