"""ReLU, GELU, SiLU and dropout, element by element, in pieces."""

from math import pi, sqrt
from typing import Any

import numpy as np

from engine.memory import Array, Scratch
from engine.ops.operation import array_module, compute_dtype, in_pieces, operation, piece_scratch, scratch_pieces
from engine.ops.packing import bits_in_pieces, unpacked

_GELU_SLOPE = sqrt(2.0 / pi)
_GELU_CUBE = 0.044715


@operation(workspace=lambda x, out, mask: piece_scratch(x, np.bool_))
def relu(x: Array, out: Array, mask: Array | None, *, work: Scratch) -> None:
    """out = max(x, 0); one bit an element in `mask` where x > 0 (none in evaluation). NaN stays NaN."""
    xp = array_module(x)
    for (source, target, positive), bits in zip(in_pieces(x, out, work=work), bits_in_pieces(mask, x), strict=True):
        if bits is not None:
            xp.greater(source, 0, out=positive)
            bits[...] = xp.packbits(positive)
        xp.maximum(source, 0, out=target)


@operation()
def relu_backward(mask: Array, grad: Array, out: Array, *, work: Scratch) -> None:
    """out = grad where the input was > 0, else 0 (out may be grad itself)."""
    xp = array_module(grad)
    for (upstream, target), bits in zip(in_pieces(grad, out), bits_in_pieces(mask, grad), strict=True):
        xp.multiply(upstream, unpacked(bits, upstream.shape), out=target)


def _gelu_tanh(xp: Any, x: Array, out: Array) -> None:
    """out = tanh(sqrt(2 / pi) * (x + 0.044715 x^3))."""
    xp.multiply(x, x, out=out)
    out *= x.dtype.type(_GELU_CUBE)
    out += 1
    out *= x
    out *= x.dtype.type(_GELU_SLOPE)
    xp.tanh(out, out=out)


@operation(workspace=scratch_pieces(2))
def gelu(x: Array, out: Array, *, work: Scratch) -> None:
    """out = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), Hendrycks and Gimpel's approximation (2016)."""
    xp = array_module(x)
    for source, target, wide, t in in_pieces(x, out, work=work):
        wide[...] = source
        _gelu_tanh(xp, wide, t)
        t += 1
        t *= wide
        xp.multiply(t, t.dtype.type(0.5), out=target)


@operation(workspace=scratch_pieces(3))
def gelu_backward(x: Array, grad: Array, out: Array, *, work: Scratch) -> None:
    """out = grad * ((1 + t) / 2 + x / 2 * (1 - t^2) * sqrt(2 / pi) * (1 + 3 * 0.044715 x^2)), t the tanh of the
    forward pass.
    """
    xp = array_module(x)
    number = work[0].dtype.type
    for source, upstream, target, wide, t, slope in in_pieces(x, grad, out, work=work):
        wide[...] = source
        _gelu_tanh(xp, wide, t)
        xp.multiply(wide, wide, out=slope)
        slope *= number(3.0 * _GELU_CUBE)
        slope += 1
        slope *= number(_GELU_SLOPE)
        slope *= wide
        xp.multiply(t, t, out=wide)
        xp.subtract(1, wide, out=wide)
        slope *= wide
        slope += t
        slope += 1
        slope *= number(0.5)
        xp.multiply(slope, upstream, out=target)


def sigmoid(xp: Any, x: Array, out: Array) -> None:
    """out = 1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2, which cannot overflow."""
    xp.multiply(x, out.dtype.type(0.5), out=out)
    xp.tanh(out, out=out)
    out += 1
    out *= out.dtype.type(0.5)


@operation(workspace=scratch_pieces(1))
def silu(x: Array, out: Array, *, work: Scratch) -> None:
    """out = x * sigmoid(x)."""
    xp = array_module(x)
    for source, target, s in in_pieces(x, out, work=work):
        sigmoid(xp, source, s)
        xp.multiply(s, source, out=target)


@operation(workspace=scratch_pieces(2))
def silu_backward(x: Array, grad: Array, out: Array, *, work: Scratch) -> None:
    """out = grad * s * (1 + x * (1 - s)), s = sigmoid(x) (out may be x itself)."""
    xp = array_module(x)
    for source, upstream, target, s, slope in in_pieces(x, grad, out, work=work):
        sigmoid(xp, source, s)
        xp.subtract(1, s, out=slope)
        slope *= source
        slope += 1
        slope *= s
        xp.multiply(slope, upstream, out=target)


@operation(workspace=lambda x, place, out, **options: piece_scratch(x, np.float32, np.bool_))
def dropout(x: Array, place: Array, out: Array, *, rate: float, seed: int, layer: int, work: Scratch) -> None:
    """out = x / (1 - rate) where the draw keeps the element, else 0 (out may be x itself); the gradient is the same
    map.

    The draws depend on `seed`, `layer` and `place` = (epoch, step), int64, alone, so nothing is saved: backward draws
    them again.
    """
    xp = array_module(x)
    epoch, step = map(int, place)
    draws = np.random.Generator(np.random.Philox(key=[seed, layer], counter=[0, 0, step, epoch]))
    factor = compute_dtype(x).type(1.0 / (1.0 - rate))
    host = work[0] if xp is np else np.empty(work[0].shape, np.float32)
    for source, target, uniform, keep in in_pieces(x, out, work=(host, work[1])):
        draws.random(out=uniform, dtype=np.float32)
        xp.greater_equal(xp.asarray(uniform), np.float32(rate), out=keep)
        xp.multiply(source, factor, out=target)
        target *= keep
