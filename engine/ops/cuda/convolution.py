"""Convolution and the fully connected product: columns of some images or rows at a time, multiplied by cuBLAS; images
in half precision by cuDNN where it can.

Where the output (or the gradient by it) is float16 the product is one of halves, summed in float32; else all of it is
float32.
"""

from collections.abc import Iterator
from itertools import product as pairs

from engine.memory import Array, ArraySpec, Scratch
from engine.ops import reference
from engine.ops.cuda.cudnn import convolution
from engine.ops.cuda.launch import HALF, launch, product
from engine.ops.cuda.normalization import partial_sums, sum_rows
from engine.ops.operation import operation, slices

COLUMN_BYTES = 1 << 26  # of one piece, so that each product fills a card


def _images(*arrays: Array) -> list[Array]:
    """Arrays (..., channels), and weights (out, in), as images of one pixel."""
    return [each if len(each.shape) == 4 else each.reshape(-1, 1, 1, each.shape[-1]) for each in arrays]


def _columns(source: Array, out: Array, kernel: int, stride: int) -> ArraySpec:
    """Scratch for the columns of one piece; empty where they are the pixels of the source."""
    length, needed = kernel**2 * source.shape[3], kernel * stride > 1 or source.dtype != out.dtype
    positions = min(out.size // out.shape[3], max(out.shape[2], COLUMN_BYTES // (length * out.dtype.itemsize)))
    return ArraySpec((positions * needed, length), out.dtype)


def _pieces(
    source: Array, out: Array, scratch: Array, kernel: int, stride: int, dilation: int, padding: int
) -> Iterator[tuple[Array, Array]]:
    """Piece by piece, whole images or some rows of one: the columns of the source, and `out` there.

    The kernel moves by `stride` over the source with `dilation` - 1 zeros between its pixels and `padding` around them.
    """
    _, height, width, depth = out.shape
    positions, channels = len(scratch) or out.size, source.shape[3]
    steps = (positions // (height * width), height) if positions >= height * width else (1, positions // width)
    each = 1 if channels % 8 else 8
    for images, rows in pairs(*map(slices, out.shape, steps)):
        target = out[images, rows].reshape(-1, depth)
        columns = scratch[: len(target)] if scratch.size else source[images, rows].reshape(-1, channels)
        if scratch.size:
            first_y, count = rows.start * stride - padding, rows.stop - rows.start
            geometry = (*source.shape[1:], kernel, count, width, stride, dilation, first_y, -padding)
            launch("columns", columns.size, source, columns, each, images.start, *geometry, each=each)
        yield columns, target


def _correlate(source: Array, weights: Array, bias: Array | None, out: Array, work: Scratch, *geometry: int) -> None:
    """out = columns of the source @ weights (kernel, kernel, in, out) + bias."""
    scratch, matrix = work
    matrix.reshape(weights.shape)[...] = weights
    for columns, target in _pieces(source, out, scratch, len(weights), *geometry):
        if bias is not None:
            target[...] = bias
        product(columns, matrix, target, add=bias is not None)


def _halves(*arrays: Array) -> bool:
    """Whether these are images in half precision."""
    return all(len(each.shape) == 4 and each.dtype == HALF for each in arrays)


def _by_cudnn(kind: str, x: Array, weight: Array, out: Array, work: Scratch, **geometry: int) -> bool:
    """Whether it could; with the weights rounded to halves."""
    if not _halves(x, out):
        return False
    columns, matrix = work
    rounded = matrix.reshape(weight.shape)
    rounded[...] = weight
    return convolution(kind, x, rounded, out, columns, **geometry)


def _workspace(source: Array, weight: Array, out: Array, stride: int = 1, padding: int = 0) -> list[ArraySpec]:
    source, weight, out = _images(source, weight, out)
    matrix = ArraySpec((weight.size // out.shape[3], out.shape[3]), out.dtype)
    return [_columns(source, out, weight.shape[1], stride), matrix]


@operation(lambda x, weight, bias, out, *_, **how: _workspace(x, weight, out, **how), reference.convolve.flops)
def convolve(
    x: Array, weight: Array, bias: Array | None, out: Array, gathered: Array | None = None,
    *, stride: int = 1, padding: int = 0, work: Scratch,
) -> None:  # fmt: skip
    """As the reference, and the fully connected product; a bias may be rounded to the dtype of `out` before it is
    added.
    """
    if _by_cudnn("conv_fprop", x, weight, out, work, stride=stride, padding=padding):
        if bias is not None:
            out += bias
        return
    x, weight, out = _images(x, weight, out)
    _correlate(x, weight.transpose(1, 2, 3, 0), bias, out, work, stride, 1, padding)


@operation(_workspace, reference.convolve_input_gradient.flops)
def convolve_input_gradient(
    grad: Array, weight: Array, out: Array, *, stride: int = 1, padding: int = 0, work: Scratch
) -> None:
    """As the reference, and that of the fully connected product."""
    if _by_cudnn("conv_dgrad", out, weight, grad, work, stride=stride, padding=padding):
        return
    grad, weight, out = _images(grad, weight, out)
    flipped = weight[:, ::-1, ::-1].transpose(1, 2, 0, 3)
    _correlate(grad, flipped, None, out, work, 1, stride, len(flipped) - 1 - padding)


def _weight_gradient_workspace(
    x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None, stride: int = 1, padding: int = 0
) -> list[ArraySpec]:
    rounded = [ArraySpec(weight_grad.shape, HALF)] * _halves(x, grad)
    x, grad, weight_grad = _images(x, grad, weight_grad)
    sums = [] if bias_grad is None else [partial_sums(grad, grad.shape[3])]
    return [_columns(x, grad, weight_grad.shape[1], stride), *rounded, *sums]


@operation(_weight_gradient_workspace, reference.convolve_weight_gradient.flops)
def convolve_weight_gradient(
    x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None,
    *, stride: int = 1, padding: int = 0, work: Scratch,
) -> None:  # fmt: skip
    """As the reference, and that of the fully connected product."""
    scratch, *rounded = work
    if bias_grad is not None:
        sum_rows(grad, rounded.pop(), None, bias_grad)
    if rounded and convolution("conv_wgrad", x, *rounded, grad, scratch, stride=stride, padding=padding):
        weight_grad += rounded[0]
        return
    x, grad, weight_grad = _images(x, grad, weight_grad)
    total = weight_grad.reshape(len(weight_grad), -1)
    for columns, upstream in _pieces(x, grad, scratch, weight_grad.shape[1], stride, 1, padding):
        product(upstream, columns, total, a_transposed=True, add=True)


linear, linear_input_gradient, linear_weight_gradient = convolve, convolve_input_gradient, convolve_weight_gradient
