"""The fully connected product, in pieces of rows so that half-precision rows are widened a piece at a time."""

from __future__ import annotations

from engine.memory import Array, ArraySpec
from engine.ops.operation import array_module, compute_dtype, operation, piece_scratch, pieces, rows_of


def _widened(array: Array, dtype: object) -> list[ArraySpec]:
    """A scratch piece for `array` in the dtype of the arithmetic, or an empty one where it already has it."""
    return piece_scratch(array, dtype) if array.dtype != dtype else [ArraySpec((0, array.shape[-1]), array.dtype)]


def _wide(array: Array, scratch: Array) -> Array:
    if not scratch.size:
        return array
    scratch[: array.shape[0]] = array
    return scratch[: array.shape[0]]


def _product_workspace(source: Array, weight: Array, out: Array) -> list[ArraySpec]:
    dtype = compute_dtype(source, weight)
    rows = piece_scratch(source, dtype)[0].shape[0]
    result = ArraySpec((rows if out.dtype != dtype else 0, out.shape[-1]), dtype)
    return [*_widened(source, dtype), result]


def _product(source: Array, matrix: Array, bias: Array | None, out: Array, work: list[Array]) -> None:
    xp = array_module(source)
    wide, result = work
    source, out = rows_of(source), rows_of(out)
    for piece in pieces(source):
        target = result[: piece.stop - piece.start] if result.size else out[piece]
        xp.matmul(_wide(source[piece], wide), matrix, out=target)
        if bias is not None:
            target += bias
        if result.size:
            out[piece] = target


@operation(
    workspace=lambda x, weight, bias, out: _product_workspace(x, weight, out),
    flops=lambda x, weight, bias, out: 2.0 * out.size * x.shape[-1],
)
def linear(x: Array, weight: Array, bias: Array | None, out: Array, *, work: list[Array]) -> None:
    """out = x @ weight^T + bias, over the last axis; weight is (out, in)."""
    _product(x, weight.T, bias, out, work)


@operation(workspace=_product_workspace, flops=lambda grad, weight, out: 2.0 * out.size * grad.shape[-1])
def linear_input_gradient(grad: Array, weight: Array, out: Array, *, work: list[Array]) -> None:
    """out = grad @ weight."""
    _product(grad, weight, None, out, work)


def _weight_gradient_workspace(x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None) -> list[ArraySpec]:
    dtype = compute_dtype(x, grad, weight_grad)
    rows = piece_scratch(x, dtype)[0].shape[0]
    wide_grad = ArraySpec((rows if grad.dtype != dtype else 0, grad.shape[-1]), dtype)
    return [*_widened(x, dtype), wide_grad, ArraySpec(weight_grad.shape, dtype)]


@operation(
    workspace=_weight_gradient_workspace,
    flops=lambda x, grad, weight_grad, bias_grad: 2.0 * x.size * grad.shape[-1],
)
def linear_weight_gradient(
    x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None, *, work: list[Array]
) -> None:
    """weight_grad += grad^T @ x; bias_grad += sum of grad over the rows."""
    xp = array_module(x)
    wide_x, wide_grad, product = work
    x, grad = rows_of(x), rows_of(grad)
    for piece in pieces(x):
        upstream = _wide(grad[piece], wide_grad)
        xp.matmul(upstream.T, _wide(x[piece], wide_x), out=product)
        weight_grad += product
        if bias_grad is not None:
            bias_grad += upstream.sum(axis=0)
