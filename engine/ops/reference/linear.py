"""The fully connected product, in pieces of rows so that half-precision rows are widened a piece at a time."""

from collections.abc import Sequence

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.operation import array_module, compute_dtype, in_pieces, operation, piece_scratch


def _widened(arrays: Sequence[Array], dtype: np.dtype) -> list[ArraySpec]:
    """Scratch for the pieces of arrays in the dtype of the arithmetic, empty where an array has that already."""
    rows = piece_scratch(arrays[0], dtype)[0].shape[0]
    return [ArraySpec((rows if array.dtype != dtype else 0, array.shape[-1]), dtype) for array in arrays]


def _wide(piece: Array, scratch: Array) -> Array:
    if not scratch.size:
        return piece
    scratch[...] = piece
    return scratch


def _product_workspace(source: Array, weight: Array, out: Array) -> list[ArraySpec]:
    return _widened((source, out), compute_dtype(source, weight))


def _product(source: Array, matrix: Array, bias: Array | None, out: Array, work: Scratch) -> None:
    xp = array_module(source)
    for piece, target, wide, result in in_pieces(source, out, work=work):
        product = result if result.size else target
        xp.matmul(_wide(piece, wide), matrix, out=product)
        if bias is not None:
            product += bias
        if result.size:
            target[...] = result


@operation(
    workspace=lambda x, weight, bias, out: _product_workspace(x, weight, out),
    flops=lambda x, weight, bias, out: 2.0 * out.size * x.shape[-1],
)
def linear(x: Array, weight: Array, bias: Array | None, out: Array, *, work: Scratch) -> None:
    """out = x @ weight^T + bias, over the last axis; weight is (out, in)."""
    _product(x, weight.T, bias, out, work)


@operation(workspace=_product_workspace, flops=lambda grad, weight, out: 2.0 * out.size * grad.shape[-1])
def linear_input_gradient(grad: Array, weight: Array, out: Array, *, work: Scratch) -> None:
    """out = grad @ weight."""
    _product(grad, weight, None, out, work)


def _weight_gradient_workspace(x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None) -> list[ArraySpec]:
    dtype = compute_dtype(x, grad, weight_grad)
    return [*_widened((x, grad), dtype), ArraySpec(weight_grad.shape, dtype)]


@operation(
    workspace=_weight_gradient_workspace, flops=lambda x, grad, weight_grad, bias_grad: 2.0 * x.size * grad.shape[-1]
)
def linear_weight_gradient(
    x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None, *, work: Scratch
) -> None:
    """weight_grad += grad^T @ x; bias_grad += sum of grad over the rows."""
    xp = array_module(x)
    *scratch, product = work
    for source, upstream, wide, wide_upstream in in_pieces(x, grad, work=scratch):
        upstream = _wide(upstream, wide_upstream)
        xp.matmul(upstream.T, _wide(source, wide), out=product)
        weight_grad += product
        if bias_grad is not None:
            bias_grad += upstream.sum(axis=0)
