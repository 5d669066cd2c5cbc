"""Batch norm and its statistics; one pass over memory where the reference has several."""

import numpy as np

from engine.memory import Array, Scratch
from engine.ops import reference
from engine.ops.cpu import channels as passes
from engine.ops.cpu.storage import NO_BITS, compiled, flat
from engine.ops.cpu.threads import in_parallel
from engine.ops.operation import rows_of

PIVOT_ROWS = 64  # rows whose mean the deviations are taken from first: near enough that squares do not cancel


@compiled(reference.channel_statistics, lambda x, *arrays: [passes.vectors(x, 1), *passes.sum_scratch(x, 2)])
def channel_statistics(x: Array, mean: Array, variance: Array, gathered: Array | None = None, *, work: Scratch) -> None:
    """As the reference, in one pass: the sums of x - p and (x - p)^2, p being the mean of a few rows."""
    if gathered is not None and gathered[0, 0] == gathered[0, 0]:
        mean[...], variance[...] = gathered
        gathered[...] = np.nan
        return
    vectors, *sums = work
    count, width = x.size // x.shape[-1], x.shape[-1]
    pivot = rows_of(x)[:: -(-count // PIVOT_ROWS)].mean(axis=0, dtype=np.float32)
    ranges = passes.ranges(x)
    in_parallel(passes.moments, ranges, flat(x), passes.repeated(pivot, vectors[0]), own=sums)
    first, second = passes.channel_totals(sums[1], len(ranges), width) / count
    mean[...] = pivot + first
    variance[...] = np.maximum(second - first * first, 0.0)


@compiled(reference.batch_norm, lambda x, *arrays, **options: [passes.vectors(x, 2)])
def batch_norm(x: Array, *arrays: Array, skip: Array | None, relu: bool, mask: Array | None, work: Scratch) -> None:
    """As the reference."""
    mean, inv_std, gamma, beta, out = arrays
    slope = passes.repeated(gamma * inv_std, work[0][0])
    offset = passes.repeated(beta - mean * (gamma * inv_std), work[0][1])
    added = (flat(x if skip is None else skip), skip is not None)
    bits = (NO_BITS if mask is None else mask, mask is not None)
    in_parallel(passes.normalise, passes.ranges(x), flat(x), slope, offset, *added, relu, *bits, flat(out))


@compiled(reference.batch_norm_backward, lambda x, *arrays, **_: [passes.vectors(x, 5), *passes.sum_scratch(x, 2)])
def batch_norm_backward(x: Array, *arrays: Array, relu: bool, mask: Array | None, work: Scratch) -> None:
    """As the reference."""
    mean, inv_std, gamma, beta, grad, gamma_grad, beta_grad, out = arrays
    vectors, *sums = work
    count, width = x.size // x.shape[-1], x.shape[-1]
    slope = passes.repeated(gamma * inv_std, vectors[0])
    offset = passes.repeated(beta - mean * (gamma * inv_std), vectors[1])
    centre = passes.repeated(mean, vectors[2])
    bits = (NO_BITS if mask is None else mask, mask is not None)
    ranges = passes.ranges(x)
    in_parallel(passes.gradient_sums, ranges, flat(x), centre, slope, offset, flat(grad), relu, *bits, own=sums)
    sum_g, sum_gx = passes.channel_totals(sums[1], len(ranges), width)
    sum_gh = sum_gx * inv_std
    gamma_grad += sum_gh.astype(np.float32)
    beta_grad += sum_g.astype(np.float32)
    mean_grad = passes.repeated(sum_g / count, vectors[3])
    per_x = passes.repeated(inv_std * sum_gh / count, vectors[4])
    in_parallel(passes.input_gradient, ranges, flat(x), centre, mean_grad, per_x, slope, flat(grad), flat(out))
