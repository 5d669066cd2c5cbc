"""Copies with a change of precision, sums, ReLU, and the optimizer's update: one pass over flat memory each."""

from __future__ import annotations

import numpy as np

from engine.memory import Array, ArraySpec
from engine.ops import reference
from engine.ops.cpu.lanes import (
    LANES,
    keep_bits,
    load_until,
    positive_bits,
    positive_part,
    splat,
    square_root,
    store_until,
)
from engine.ops.cpu.storage import NO_BITS, compiled, flat
from engine.ops.cpu.threads import THREADS, in_parallel, kernel, shares
from engine.ops.operation import operation

LEAST = 1 << 15  # elements that are worth a second thread


def _ranges(array: Array) -> list[tuple[int, int]]:
    return shares(array.size, step=64, least=LEAST)


@kernel
def _copy(x, out, first, last):
    for at in range(first, last, LANES):
        store_until(out, at, last, load_until(x, at, last))


@operation()
def copy(x: Array, out: Array, *, work: list[Array]) -> None:
    """As the reference."""
    if not compiled(x, out) or not x.flags.c_contiguous:
        return reference.copy.compute(x, out, work=work)
    ranges = _ranges(out)
    in_parallel(lambda part: _copy(flat(x), flat(out), *ranges[part]), len(ranges))


@kernel
def _add(x, out, first, last):
    for at in range(first, last, LANES):
        store_until(out, at, last, load_until(out, at, last) + load_until(x, at, last))


@operation()
def add(x: Array, out: Array, *, work: list[Array]) -> None:
    """As the reference."""
    if not compiled(x, out):
        return reference.add.compute(x, out, work=work)
    ranges = _ranges(out)
    in_parallel(lambda part: _add(flat(x), flat(out), *ranges[part]), len(ranges))


@kernel
def _relu(x, out, mask, keeps_mask, first, last):
    for at in range(first, last, LANES):
        value = load_until(x, at, last)
        if keeps_mask:
            mask[at // LANES] = positive_bits(value)
        store_until(out, at, last, positive_part(value))


def _relu_workspace(x: Array, out: Array, mask: Array | None) -> list[ArraySpec]:
    return [] if compiled(x, out) else reference.relu.workspace(x, out, mask)


@operation(workspace=_relu_workspace)
def relu(x: Array, out: Array, mask: Array | None, *, work: list[Array]) -> None:
    """As the reference."""
    if not compiled(x, out):
        return reference.relu.compute(x, out, mask, work=work)
    ranges = _ranges(out)
    bits = NO_BITS if mask is None else mask
    in_parallel(lambda part: _relu(flat(x), flat(out), bits, mask is not None, *ranges[part]), len(ranges))


@kernel
def _relu_backward(mask, grad, out, first, last):
    for at in range(first, last, LANES):
        store_until(out, at, last, keep_bits(load_until(grad, at, last), mask[at // LANES]))


@operation()
def relu_backward(mask: Array, grad: Array, out: Array, *, work: list[Array]) -> None:
    """As the reference."""
    if not compiled(grad, out):
        return reference.relu_backward.compute(mask, grad, out, work=work)
    ranges = _ranges(out)
    in_parallel(lambda part: _relu_backward(mask, flat(grad), flat(out), *ranges[part]), len(ranges))


@kernel
def _square_sum(x, first, last):
    a, b, c, d = 0.0, 0.0, 0.0, 0.0  # four sums, since each addition has to wait for the one before
    for at in range(first, last - 3, 4):
        a += np.float64(x[at]) * np.float64(x[at])
        b += np.float64(x[at + 1]) * np.float64(x[at + 1])
        c += np.float64(x[at + 2]) * np.float64(x[at + 2])
        d += np.float64(x[at + 3]) * np.float64(x[at + 3])
    total = (a + b) + (c + d)
    for at in range(last - (last - first) % 4, last):
        total += np.float64(x[at]) * np.float64(x[at])
    return total


def _square_sum_workspace(x: Array, total: Array) -> list[ArraySpec]:
    if x.dtype != np.float32:
        return reference.square_sum.workspace(x, total)
    return [ArraySpec((THREADS,), np.dtype(np.float64))]


@operation(workspace=_square_sum_workspace)
def square_sum(x: Array, total: Array, *, work: list[Array]) -> None:
    """As the reference."""
    if x.dtype != np.float32:
        return reference.square_sum.compute(x, total, work=work)
    ranges = _ranges(x)

    def gather(part: int) -> None:
        work[0][part] = _square_sum(flat(x), *ranges[part])

    in_parallel(gather, len(ranges))
    for part in range(len(ranges)):
        total += work[0][part]


@kernel
def _adam_update(
    value, gradient, mean, square, first, last, lr, beta1, beta2, epsilon, first_factor, second_factor, decay, shrink
):
    one = np.float32(1)
    keep1, take1, keep2, take2 = splat(beta1), splat(one - beta1), splat(beta2), splat(one - beta2)
    rate, scale, floor = splat(lr * first_factor), splat(second_factor), splat(epsilon)
    for at in range(first, last, LANES):
        w = load_until(value, at, last)
        g = load_until(gradient, at, last) + splat(decay) * w
        w = w * splat(shrink)
        m = load_until(mean, at, last) * keep1 + g * take1
        s = load_until(square, at, last) * keep2 + g * g * take2
        store_until(mean, at, last, m)
        store_until(square, at, last, s)
        store_until(value, at, last, w - rate * (m / (square_root(s * scale) + floor)))


def _adam_workspace(value: Array, *arrays: Array, **options: float) -> list[ArraySpec]:
    return [] if value.dtype == np.float32 else reference.adam_update.workspace(value, *arrays, **options)


@operation(workspace=_adam_workspace)
def adam_update(
    value: Array,
    gradient: Array,
    mean: Array,
    square: Array,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    count: int,
    decay: float,
    decoupled: bool,
    work: list[Array],
) -> None:
    """As the reference."""
    if value.dtype != np.float32:
        return reference.adam_update.compute(
            value, gradient, mean, square, lr=lr, beta1=beta1, beta2=beta2, epsilon=epsilon,
            count=count, decay=decay, decoupled=decoupled, work=work,
        )  # fmt: skip
    number = np.float32
    factors = (number(1.0 / (1.0 - beta1**count)), number(1.0 / (1.0 - beta2**count)))
    coupled, shrink = (number(0), number(1.0 - lr * decay)) if decoupled else (number(decay), number(1))
    ranges = _ranges(value)

    def update(part: int) -> None:
        _adam_update(
            flat(value), flat(gradient), flat(mean), flat(square), *ranges[part],
            number(lr), number(beta1), number(beta2), number(epsilon), *factors, coupled, shrink,
        )  # fmt: skip

    in_parallel(update, len(ranges))
