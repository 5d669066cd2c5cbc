"""Batch norm over rows of (rows, channels) and layer norm over the last axis, piece by piece.

Batch norm can add a skip connection and a ReLU in the same pass: y = relu(gamma * (x - mean) * inv_std + beta + skip).
Nothing but x and the statistics is needed to compute it, or its gradient, again.
"""

from typing import Any

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.operation import array_module, compute_dtype, in_pieces, operation, piece_scratch, scratch_pieces
from engine.ops.packing import bits_in_pieces, unpacked


@operation(workspace=scratch_pieces(1))
def channel_statistics(x: Array, mean: Array, variance: Array, gathered: Array | None = None, *, work: Scratch) -> None:
    """mean and (biased) variance of each channel; two passes, sums of pieces added up in float64. What a convolution
    `gathered` of x may be taken instead.
    """
    xp = array_module(x)
    count = x.size // x.shape[-1]
    total = xp.zeros(x.shape[-1], np.float64)
    for (source,) in in_pieces(x):
        total += source.sum(axis=0, dtype=work[0].dtype)
    mean[...] = total / count
    total[...] = 0
    for source, centred in in_pieces(x, work=work):
        xp.subtract(source, mean, out=centred)
        centred *= centred
        total += centred.sum(axis=0)
    variance[...] = total / count


def _batch_norm_workspace(x: Array, *arrays: Array, mask: Array | None, **options: Any) -> list[ArraySpec]:
    return piece_scratch(x, compute_dtype(x), *([np.bool_] if mask is not None else []))


@operation(workspace=_batch_norm_workspace)
def batch_norm(
    x: Array, mean: Array, inv_std: Array, gamma: Array, beta: Array, out: Array, *, skip: Array | None, relu: bool,
    mask: Array | None, work: Scratch,
) -> None:  # fmt: skip
    """out = gamma * (x - mean) * inv_std + beta [+ skip] [then max(., 0), with one bit an element > 0 in `mask`]."""
    xp = array_module(x)
    slope = gamma * inv_std
    offset = beta - mean * slope
    parts = in_pieces(x, skip, out, work=work)
    for (source, added, target, y, *positive), bits in zip(parts, bits_in_pieces(mask, x), strict=True):
        xp.multiply(source, slope, out=y)
        y += offset
        if added is not None:
            y += added
        if bits is not None:
            xp.greater(y, 0, out=positive[0])
            bits[...] = xp.packbits(positive[0])
        if relu:
            xp.maximum(y, 0, out=y)
        target[...] = y


@operation(workspace=scratch_pieces(2))
def batch_norm_backward(
    x: Array, mean: Array, inv_std: Array, gamma: Array, beta: Array, grad: Array, gamma_grad: Array,
    beta_grad: Array, out: Array, *, relu: bool, mask: Array | None, work: Scratch,
) -> None:  # fmt: skip
    """out = d loss / d x (out may be x itself); `grad` is left as the gradient by the sum before the ReLU.

    With h = (x - mean) * inv_std over M rows (Ioffe and Szegedy 2015):
    d gamma = sum(g h), d beta = sum(g), d x = gamma * inv_std * (g - sum(g) / M - h * sum(g h) / M).
    """
    xp = array_module(x)
    count, channels = x.size // x.shape[-1], x.shape[-1]
    slope = gamma * inv_std
    offset = beta - mean * slope
    sum_g = xp.zeros(channels, np.float64)
    sum_gh = xp.zeros(channels, np.float64)
    for (source, upstream, g, h), bits in zip(in_pieces(x, grad, work=work), bits_in_pieces(mask, x), strict=True):
        if relu:
            if bits is None:
                xp.multiply(source, slope, out=h)
                h += offset
                positive = h > 0
            else:
                positive = unpacked(bits, g.shape)
            xp.multiply(upstream, positive, out=g)
            upstream[...] = g
        else:
            g[...] = upstream
        sum_g += g.sum(axis=0)
        xp.subtract(source, mean, out=h)
        h *= g
        sum_gh += h.sum(axis=0) * inv_std
    gamma_grad += sum_gh.astype(gamma_grad.dtype)
    beta_grad += sum_g.astype(beta_grad.dtype)
    mean_g = (sum_g / count).astype(work[0].dtype)
    per_x = (inv_std * sum_gh / count).astype(work[0].dtype)
    for source, upstream, target, g, h in in_pieces(x, grad, out, work=work):
        xp.subtract(source, mean, out=h)
        h *= per_x
        xp.subtract(upstream, mean_g, out=g)
        g -= h
        g *= slope
        target[...] = g


@operation(workspace=scratch_pieces(2))
def layer_norm(
    x: Array, gamma: Array, beta: Array, mean: Array, inv_std: Array, out: Array, *, epsilon: float, work: Scratch
) -> None:
    """out = gamma * (x - mean) * inv_std + beta with the statistics of each row, which are kept in mean and inv_std."""
    xp = array_module(x)
    for source, target, row_mean, row_inv_std, centred, square in in_pieces(x, out, mean, inv_std, work=work):
        centred[...] = source
        found = centred.mean(axis=1)
        centred -= found[:, None]
        xp.multiply(centred, centred, out=square)
        factor = 1.0 / xp.sqrt(square.mean(axis=1) + epsilon)
        row_mean[...], row_inv_std[...] = found, factor
        centred *= factor[:, None]
        centred *= gamma
        centred += beta
        target[...] = centred


@operation(workspace=scratch_pieces(3))
def layer_norm_backward(
    x: Array, mean: Array, inv_std: Array, gamma: Array, grad: Array, gamma_grad: Array, beta_grad: Array,
    out: Array, *, work: Scratch,
) -> None:  # fmt: skip
    """out = d loss / d x (out may be x itself).

    With h = (x - mean) * inv_std and u = g * gamma (Ba, Kiros and Hinton 2016):
    d gamma = sum(g h), d beta = sum(g), d x = inv_std * (u - mean(u) - h * mean(u h)).
    """
    xp = array_module(x)
    parts = in_pieces(x, grad, out, mean, inv_std, work=work)
    for source, upstream, target, row_mean, row_inv_std, h, u, product in parts:
        xp.subtract(source, row_mean[:, None], out=h)
        h *= row_inv_std[:, None]
        u[...] = upstream
        beta_grad += u.sum(axis=0)
        xp.multiply(u, h, out=product)
        gamma_grad += product.sum(axis=0)
        product *= gamma
        u *= gamma
        u -= u.mean(axis=1)[:, None]
        h *= product.mean(axis=1)[:, None]
        u -= h
        u *= row_inv_std[:, None]
        target[...] = u


@operation()
def enter_statistics(
    mean: Array, variance: Array, pending_mean: Array, pending_variance: Array, *, momentum: float, unbias: float,
    epsilon: float, work: Scratch,
) -> None:  # fmt: skip
    """pending = (1 - momentum) * pending + momentum * found for the mean, and for the variance times `unbias`; then
    variance = 1 / sqrt(variance + epsilon).
    """
    number = variance.dtype.type
    for pending, found, share in ((pending_mean, mean, momentum), (pending_variance, variance, momentum * unbias)):
        pending *= number(1.0 - momentum)
        pending += number(share) * found
    inverse_deviation.compute(variance, variance, epsilon=epsilon, work=work)


@operation()
def inverse_deviation(variance: Array, out: Array, *, epsilon: float, work: Scratch) -> None:
    """out = 1 / sqrt(variance + epsilon) (out may be variance itself)."""
    xp = array_module(variance)
    xp.add(variance, variance.dtype.type(epsilon), out=out)
    xp.sqrt(out, out=out)
    xp.divide(1, out, out=out)
