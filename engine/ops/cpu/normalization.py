"""Batch norm and its statistics; one pass over memory where the reference has several."""

import numpy as np

from engine.memory import Array, ArraySpec
from engine.ops import reference
from engine.ops.cpu import channels as passes
from engine.ops.cpu.storage import NO_BITS, compiled, flat
from engine.ops.cpu.threads import in_parallel
from engine.ops.operation import operation, rows_of

PIVOT_ROWS = 64  # rows whose mean the deviations are taken from first: near enough that squares do not cancel


def _vectors(x: Array, count: int) -> list[ArraySpec]:
    return [ArraySpec((count, passes.period(x.shape[-1])), np.dtype(np.float32))]


def _statistics_workspace(x: Array, mean: Array, variance: Array) -> list[ArraySpec]:
    if not compiled(x, mean):
        return reference.channel_statistics.workspace(x, mean, variance)
    return [*_vectors(x, 1), *passes.sum_scratch(x, 2)]


@operation(workspace=_statistics_workspace)
def channel_statistics(x: Array, mean: Array, variance: Array, *, work: list[Array]) -> None:
    """As the reference, in one pass: the sums of x - p and (x - p)^2, p being the mean of a few rows."""
    if not compiled(x, mean):
        return reference.channel_statistics.compute(x, mean, variance, work=work)
    vectors, block, total = work
    count = x.size // x.shape[-1]
    some = rows_of(x)[:: -(-count // PIVOT_ROWS)].astype(np.float32)
    pivot = some.mean(axis=0)
    repeated = passes.repeated(pivot, vectors[0])
    ranges = passes.ranges(x)

    def gather(part: int) -> None:
        passes.moments(flat(x), repeated, *ranges[part], block[part].reshape(-1), total[part].reshape(-1))

    in_parallel(gather, len(ranges))
    first, second = passes.channel_totals(total, len(ranges), x.shape[-1]) / count
    mean[...] = pivot + first
    variance[...] = np.maximum(second - first * first, 0.0)


def _batch_norm_workspace(
    x: Array, mean: Array, inv_std: Array, gamma: Array, beta: Array, out: Array, **options
) -> list[ArraySpec]:
    if not compiled(x, mean, out, options["skip"]):
        return reference.batch_norm.workspace(x, mean, inv_std, gamma, beta, out, **options)
    return _vectors(x, 2)


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
    """As the reference."""
    if not compiled(x, mean, out, skip):
        return reference.batch_norm.compute(
            x, mean, inv_std, gamma, beta, out, skip=skip, relu=relu, mask=mask, work=work
        )
    slope = passes.repeated(gamma * inv_std, work[0][0])
    offset = passes.repeated(beta - mean * (gamma * inv_std), work[0][1])
    added = flat(x) if skip is None else flat(skip)
    bits = NO_BITS if mask is None else mask
    ranges = passes.ranges(x)

    def normalise(part: int) -> None:
        passes.normalise(
            flat(x), slope, offset, added, skip is not None, relu, bits, mask is not None, flat(out), *ranges[part]
        )

    in_parallel(normalise, len(ranges))


def _backward_workspace(
    x: Array,
    mean: Array,
    inv_std: Array,
    gamma: Array,
    beta: Array,
    grad: Array,
    gamma_grad: Array,
    beta_grad: Array,
    out: Array,
    **options,
) -> list[ArraySpec]:
    if not compiled(x, mean, grad, out):
        return reference.batch_norm_backward.workspace(x, mean, relu=options["relu"], mask=options["mask"])
    return [*_vectors(x, 5), *passes.sum_scratch(x, 2)]


@operation(workspace=_backward_workspace)
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
    """As the reference."""
    if not compiled(x, mean, grad, out):
        return reference.batch_norm_backward.compute(
            x, mean, inv_std, gamma, beta, grad, gamma_grad, beta_grad, out, relu=relu, mask=mask, work=work
        )
    vectors, block, total = work
    count, width = x.size // x.shape[-1], x.shape[-1]
    slope = passes.repeated(gamma * inv_std, vectors[0])
    offset = passes.repeated(beta - mean * (gamma * inv_std), vectors[1])
    centre = passes.repeated(mean, vectors[2])
    bits = NO_BITS if mask is None else mask
    ranges = passes.ranges(x)

    def gather(part: int) -> None:
        passes.gradient_sums(
            flat(x), centre, slope, offset, flat(grad), relu, bits, mask is not None, *ranges[part],
            block[part].reshape(-1), total[part].reshape(-1),
        )  # fmt: skip

    in_parallel(gather, len(ranges))
    sum_g, sum_gx = passes.channel_totals(total, len(ranges), width)
    sum_gh = sum_gx * inv_std
    gamma_grad += sum_gh.astype(np.float32)
    beta_grad += sum_g.astype(np.float32)
    mean_grad = passes.repeated(sum_g / count, vectors[3])
    per_x = passes.repeated(inv_std * sum_gh / count, vectors[4])

    def finish(part: int) -> None:
        passes.input_gradient(flat(x), centre, mean_grad, per_x, slope, flat(grad), flat(out), *ranges[part])

    in_parallel(finish, len(ranges))
