"""One update of one parameter array, in place and in pieces."""

from collections.abc import Iterator
from typing import Any

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.operation import array_module, matching, operation, piece_bytes, slices


def _scratch(value: Array, *arrays: Array | None, **options: float) -> list[ArraySpec]:
    return [ArraySpec((min(value.size, max(1, piece_bytes() // value.dtype.itemsize)),), value.dtype)] * 2


def _in_pieces(*arrays: Array | None, work: Scratch) -> Iterator[list[Any]]:
    flat = [array.reshape(-1) if array is not None else None for array in arrays]
    return matching(slices(flat[0].size, work[0].size), flat, work)


@operation(workspace=_scratch)
def sgd_update(
    value: Array, gradient: Array, velocity: Array | None = None, *, lr: float, momentum: float, nesterov: bool,
    decay: float, work: Scratch,
) -> None:  # fmt: skip
    """g = gradient + decay * value; v = momentum * v + g; value -= lr * (g + momentum * v if nesterov else v).

    Without a velocity: value -= lr * g. Nesterov's form is that of Sutskever et al. 2013.
    """
    xp = array_module(value)
    for w, g, v, step, ahead in _in_pieces(value, gradient, velocity, work=work):
        xp.multiply(w, w.dtype.type(decay), out=step)
        step += g
        if v is not None:
            v *= w.dtype.type(momentum)
            v += step
            if nesterov:
                xp.multiply(v, w.dtype.type(momentum), out=ahead)
                step += ahead
            else:
                step[...] = v
        step *= w.dtype.type(lr)
        w -= step


@operation(workspace=_scratch)
def adam_update(
    value: Array, gradient: Array, mean: Array, square: Array, *, lr: float, beta1: float, beta2: float,
    epsilon: float, count: int, decay: float, decoupled: bool, work: Scratch,
) -> None:  # fmt: skip
    """Adam (Kingma and Ba 2015); decoupled: AdamW (Loshchilov and Hutter 2019), where the decay bypasses the averages.

    m = beta1 m + (1 - beta1) g; s = beta2 s + (1 - beta2) g^2;
    value -= lr * (m / (1 - beta1^count)) / (sqrt(s / (1 - beta2^count)) + epsilon).
    """
    xp = array_module(value)
    first, second = 1.0 - beta1**count, 1.0 - beta2**count
    number = value.dtype.type
    for w, g, m, s, grad, step in _in_pieces(value, gradient, mean, square, work=work):
        if decoupled:
            w *= number(1.0 - lr * decay)
            grad[...] = g
        else:
            xp.multiply(w, number(decay), out=grad)
            grad += g
        m *= number(beta1)
        xp.multiply(grad, number(1.0 - beta1), out=step)
        m += step
        s *= number(beta2)
        grad *= grad
        grad *= number(1.0 - beta2)
        s += grad
        xp.multiply(s, number(1.0 / second), out=step)
        xp.sqrt(step, out=step)
        step += number(epsilon)
        xp.divide(m, step, out=step)
        step *= number(lr / first)
        w -= step


@operation(workspace=_scratch)
def move_average(value: Array, average: Array, *, momentum: float, work: Scratch) -> None:
    """average = (1 - momentum) * average + momentum * value."""
    xp = array_module(value)
    for x, mean, step, _ in _in_pieces(value, average, work=work):
        mean *= mean.dtype.type(1.0 - momentum)
        xp.multiply(x, mean.dtype.type(momentum), out=step)
        mean += step
