"""Convolution in pieces: some rows of some images are laid out as columns, multiplied, and forgotten.

Forward and the gradient by the input are one correlation: the second slides the flipped kernel over the gradient with
`stride - 1` zeros between its elements. Arrays are NHWC, weights (out, kernel, kernel, in).
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from engine.memory import Array, ArraySpec, Scratch, Shape
from engine.ops.operation import array_module, compute_dtype, operation, slices

COLUMN_BYTES = 1 << 21


def _piece_size(out_shape: Shape, row_length: int, dtype: np.dtype) -> tuple[int, int]:
    """(images, rows) of the output whose columns fill about COLUMN_BYTES: whole images, or some rows of one."""
    batch, height, width, _ = out_shape
    positions = COLUMN_BYTES // (row_length * dtype.itemsize)
    if positions >= height * width:
        return min(batch, positions // (height * width)), height
    return 1, max(1, positions // width)


def _column_workspace(
    source: Array, out: Array, kernel: int, stride: int, dtype: np.dtype, dilation: int = 1
) -> list[ArraySpec]:
    """Scratch of one piece: its padded source and its columns, empty where these are the pixels of the source; and
    `out` in `dtype` where it has another one.
    """
    row_length = kernel * kernel * source.shape[-1]
    images, rows = _piece_size(out.shape, row_length, dtype)
    positions, laid_out = images * rows * out.shape[2], kernel * stride * dilation > 1 or source.dtype != dtype
    size = ((rows - 1) * stride + kernel, (out.shape[2] - 1) * stride + kernel)
    shapes = [(images * laid_out, *size, source.shape[-1]), (positions * laid_out, row_length)]
    return [ArraySpec(shape, dtype) for shape in (*shapes, (positions * (out.dtype != dtype), out.shape[3]))]


def _overlap(first: int, room: int, size: int, dilation: int) -> tuple[slice, slice]:
    """Where source elements land along one axis: (slice of the padded piece, slice of the source).

    Element i of the padded piece is source[(first + i) / dilation] where that is a whole number inside the source.
    """
    start = -first if first < 0 else -first % dilation
    begin = (first + start) // dilation
    count = max(0, min(size - begin, -(-(room - start) // dilation)))
    return slice(start, start + (count - 1) * dilation + 1 if count else start, dilation), slice(begin, begin + count)


def _columns(
    source: Array, out: Array, padded: Array, columns: Array, *, kernel: int, stride: int, dilation: int, padding: int
) -> Iterator[tuple[Array, Array]]:
    """Piece by piece, the columns (positions, kernel * kernel * channels) of the source, and `out` at those positions.

    The kernel moves by `stride` over the source with `padding` around it and `dilation - 1` zeros between its elements.
    """
    as_strided = array_module(source).lib.stride_tricks.as_strided
    batch, out_height, width, out_channels = out.shape
    step, row_step = _piece_size(out.shape, columns.shape[1], columns.dtype)
    for images, rows in product(slices(batch, step), slices(out_height, row_step)):
        target = out[images, rows].reshape(-1, out_channels)
        if not columns.size:
            yield source[images, rows].reshape(-1, source.shape[3]), target
            continue
        count, height = images.stop - images.start, rows.stop - rows.start
        space = padded[:count, : (height - 1) * stride + kernel]
        to_rows, from_rows = _overlap(rows.start * stride - padding, space.shape[1], source.shape[1], dilation)
        to_columns, from_columns = _overlap(-padding, space.shape[2], source.shape[2], dilation)
        space[...] = 0
        space[:, to_rows, to_columns] = source[images, from_rows, from_columns]
        image, row, column, channel = space.strides
        windows = as_strided(
            space,
            (count, height, width, kernel, kernel, source.shape[3]),
            (image, row * stride, column * stride, row, column, channel),
        )
        piece = columns[: count * height * width]
        piece.reshape(windows.shape)[...] = windows
        yield piece, target


def _correlate(source: Array, weight: Array, bias: Array | None, out: Array, work: Scratch, **geometry: int) -> None:
    """out = columns of source @ weight; `weight` is (kernel * kernel * in, out)."""
    xp = array_module(source)
    padded, columns, scratch = work
    for piece, target in _columns(source, out, padded, columns, **geometry):
        result = target if out.dtype == scratch.dtype else scratch[: piece.shape[0]]
        xp.matmul(piece, weight, out=result)
        if bias is not None:
            result += bias
        if result is not target:
            target[...] = result


def _multiplications(x: Array, weight: Array, out: Array, *ignored: Array) -> float:
    return 2.0 * out.size * weight.size / weight.shape[0]


def _workspace(x: Array, weight: Array, bias: Array | None, out: Array, *_: Array, **geometry: int) -> list[ArraySpec]:
    return _column_workspace(x, out, weight.shape[1], geometry["stride"], compute_dtype(x, weight))


@operation(_workspace, lambda x, weight, bias, out, *more, **geometry: _multiplications(x, weight, out))
def convolve(
    x: Array, weight: Array, bias: Array | None, out: Array, gathered: Array | None = None,
    *, stride: int, padding: int, work: Scratch,
) -> None:  # fmt: skip
    """out[n,i,j,o] = bias[o] + sum over a, b, c of weight[o,a,b,c] * x[n, i*stride+a-padding, j*stride+b-padding,
    c].

    `gathered` (2, out), NaN before, is room for the mean and the variance of the output's channels, for
    `channel_statistics` to find where they come along at little cost.
    """
    flat = weight.reshape(weight.shape[0], -1).T
    _correlate(x, flat, bias, out, work, kernel=weight.shape[1], stride=stride, dilation=1, padding=padding)


def _input_gradient_workspace(grad: Array, weight: Array, out: Array, *, stride: int, padding: int) -> list[ArraySpec]:
    dtype = compute_dtype(grad, weight)
    outputs, kernel, _, inputs = weight.shape
    flipped = ArraySpec((kernel, kernel, outputs, inputs), weight.dtype)
    return [flipped, *_column_workspace(grad, out, kernel, 1, dtype, stride)]


@operation(
    _input_gradient_workspace, lambda grad, weight, out, **geometry: 2.0 * out.size * weight.size / weight.shape[-1]
)
def convolve_input_gradient(
    grad: Array, weight: Array, out: Array, *, stride: int, padding: int, work: Scratch
) -> None:
    """out = d loss / d x: the gradient, dilated by the stride, correlated with the kernel flipped in both
    directions.
    """
    flipped, *rest = work
    kernel = weight.shape[1]
    flipped[...] = weight[:, ::-1, ::-1, :].transpose(1, 2, 0, 3)
    flat = flipped.reshape(-1, weight.shape[3])
    _correlate(grad, flat, None, out, rest, kernel=kernel, stride=1, dilation=stride, padding=kernel - 1 - padding)


def _weight_gradient_workspace(
    x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None, *, stride: int, padding: int
) -> list[ArraySpec]:
    dtype = compute_dtype(x, weight_grad)
    flat = ArraySpec((weight_grad.shape[0], weight_grad.size // weight_grad.shape[0]), dtype)
    return [flat, *_column_workspace(x, grad, weight_grad.shape[1], stride, dtype)]


@operation(_weight_gradient_workspace, lambda x, grad, total, *bias, **geometry: _multiplications(x, total, grad))
def convolve_weight_gradient(
    x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None, *, stride: int, padding: int, work: Scratch
) -> None:
    """weight_grad += grad^T @ columns of x; bias_grad += sum of grad over all positions."""
    xp = array_module(x)
    total, padded, columns, wide = work
    kernel = weight_grad.shape[1]
    flat_gradient = weight_grad.reshape(weight_grad.shape[0], -1)
    parts = _columns(x, grad, padded, columns, kernel=kernel, stride=stride, dilation=1, padding=padding)
    for piece, upstream in parts:
        if upstream.dtype != wide.dtype:
            wide[: piece.shape[0]] = upstream
            upstream = wide[: piece.shape[0]]
        xp.matmul(upstream.T, piece, out=total)
        flat_gradient += total
        if bias_grad is not None:
            bias_grad += upstream.sum(axis=0)
