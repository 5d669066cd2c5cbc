"""Convolution of any kernel and stride, one image row at a time, without laying out columns.

A padded row of float32 holds what `kernel` neighbouring positions need side by side, so the rows of the matrix product
overlap in memory: position x begins at x * stride * channels. Each of the kernel's rows adds one product.

`wide` below is kernel * channels. Weights are panels [kernel row][block of 16 columns][row][column in block].
"""

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.cpu.kernels import kernel
from engine.ops.cpu.lanes import LANES, load, load_until, splat, store_until
from engine.ops.cpu.product import COLUMNS, GRADIENT_ROWS, ROWS, multiply_gradient_rows, multiply_rows, rounded
from engine.ops.cpu.storage import NOTHING, flat, floats
from engine.ops.cpu.threads import THREADS, in_parallel, shares


def _line(columns: int, width: int, channels: int, kernel: int, stride: int, padding: int) -> int:
    """Floats of a padded image row for `columns` positions, and for what the last block of columns reads beyond."""
    positions = rounded(columns, ROWS) * stride
    return max(positions + kernel, width + padding) * channels + COLUMNS


@kernel()
def _copy_row(source, at, count, out, to):
    """out[to : to + count] = source[at : at + count]."""
    for place in range(0, count, LANES):
        store_until(out, to + place, to + count, load_until(source, at + place, at + count))


@kernel("SNiiiFFSNiiFF")
def _forward_rows(source, source_shape, size, stride, padding, weights, bias, out, out_shape, first, last, line, made):
    """Rows first..last of the output, counted over images."""
    _, source_height, source_width, inputs = source_shape
    _, height, width, outputs = out_shape
    wide, padded = size * inputs, (outputs + 15) // 16 * 16
    line[:] = 0
    for row in range(first, last):
        image, y = row // height, row % height
        started = False
        for a in range(size):
            r = y * stride + a - padding
            if r < 0 or r >= source_height:
                continue
            begin = (image * source_height + r) * source_width * inputs
            _copy_row(source, begin, source_width * inputs, line, padding * inputs)
            for n in range(0, padded, 16):
                panel = (a * padded + n) * wide
                for x in range(0, width, ROWS):
                    multiply_rows(
                        line, x * stride * inputs, stride * inputs, 1, weights, panel, 16,
                        made, x * padded + n, padded, wide, started,
                    )  # fmt: skip
            started = True
        for x in range(width):
            to = (row * width + x) * outputs
            for c in range(0, outputs, LANES):
                offset = load_until(bias, c, outputs) if bias.size else splat(np.float32(0))
                store_until(out, to + c, to + outputs, load(made, x * padded + c) + offset)


@kernel("SNiiiFSNiiFF")
def _input_gradient_rows(grad, grad_shape, size, stride, padding, weights, out, out_shape, first, last, line, grads):
    """Rows first..last of the gradient by the input: each kernel row adds the part of one row of `grad`."""
    _, grad_height, grad_width, outputs = grad_shape
    _, height, width, inputs = out_shape
    wide = size * inputs
    padded = (wide + 15) // 16 * 16
    grads[:] = 0
    for row in range(first, last):
        image, r = row // height, row % height
        line[:] = 0
        for a in range(size):
            y = (r + padding - a) // stride
            if y < 0 or y >= grad_height or y * stride != r + padding - a:
                continue
            begin = (image * grad_height + y) * grad_width * outputs
            _copy_row(grad, begin, grad_width * outputs, grads, 0)
            for n in range(0, padded, 16):
                panel = (a * padded + n) * outputs
                for x in range(0, grad_width, ROWS):
                    multiply_rows(
                        grads, x * outputs, outputs, 1, weights, panel, 16,
                        line, x * stride * inputs + n, stride * inputs, outputs, True,
                    )  # fmt: skip
        _copy_row(line, padding * inputs, width * inputs, out, row * width * inputs)


@kernel("SNiiiSNiiFFF")
def _weight_gradient_rows(
    source, source_shape, size, stride, padding, grad, grad_shape, first, last, line, gradients, sums
):
    """sums[kernel row][output][wide] = over gradient rows first..last, gradient row^T @ input row."""
    _, source_height, source_width, inputs = source_shape
    _, height, width, outputs = grad_shape
    padded, padded_outputs = (size * inputs + 15) // 16 * 16, -(-outputs // GRADIENT_ROWS) * GRADIENT_ROWS
    line[:] = 0
    gradients[:] = 0
    sums[:] = 0
    for row in range(first, last):
        image, y = row // height, row % height
        for x in range(width):
            _copy_row(grad, (row * width + x) * outputs, outputs, gradients, x * padded_outputs)
        for a in range(size):
            r = y * stride + a - padding
            if r < 0 or r >= source_height:
                continue
            begin = (image * source_height + r) * source_width * inputs
            _copy_row(source, begin, source_width * inputs, line, padding * inputs)
            for n in range(0, padded, 16):
                for o in range(0, padded_outputs, GRADIENT_ROWS):
                    multiply_gradient_rows(
                        gradients, o, 1, padded_outputs, line, n, stride * inputs,
                        sums, (a * padded_outputs + o) * padded + n, padded, width, True,
                    )  # fmt: skip


def _pack(matrices: Array, panels: Array) -> None:
    """Matrices (kernel row, rows, columns) as panels; the columns beyond are 0."""
    count, rows, _ = matrices.shape
    panels = panels.reshape(count, -1, rows, COLUMNS)
    for block in range(panels.shape[1]):
        part = matrices[:, :, block * COLUMNS : (block + 1) * COLUMNS]
        panels[:, block, :, : part.shape[2]] = part
        panels[:, block, :, part.shape[2] :] = 0


def forward_workspace(source: Array, weight: Array, out: Array, *gathered: Array, **geometry: int) -> list[ArraySpec]:
    """The packed weights; for each thread a padded row and its products."""
    outputs, kernel, _, inputs = weight.shape
    width = out.shape[2]
    return [
        floats(kernel * rounded(outputs, COLUMNS) * kernel * inputs),
        floats(THREADS, _line(width, source.shape[2], inputs, kernel, **geometry)),
        floats(THREADS, rounded(width, ROWS) * rounded(outputs, COLUMNS)),
    ]


def forward(
    source: Array, weight: Array, bias: Array | None, out: Array, *_: Array | None,
    stride: int, padding: int, work: Scratch,
) -> None:  # fmt: skip
    """As convolve of the reference; gathers nothing."""
    panels, lines, products = work
    outputs, kernel, _, inputs = weight.shape
    _pack(weight.reshape(outputs, kernel, kernel * inputs).transpose(1, 2, 0), panels)
    constant = NOTHING if bias is None else bias
    in_parallel(
        _forward_rows, shares(out.shape[0] * out.shape[1]), flat(source), source.shape, kernel, stride, padding, panels,
        constant, flat(out), out.shape, own=(lines, products),
    )  # fmt: skip


def input_gradient_workspace(grad: Array, weight: Array, out: Array, *, stride: int, padding: int) -> list[ArraySpec]:
    """The packed weights; for each thread a padded row of the result and a row of gradients."""
    outputs, kernel, _, inputs = weight.shape
    width = grad.shape[2]
    return [
        floats(kernel * rounded(kernel * inputs, COLUMNS) * outputs),
        floats(THREADS, _line(width, out.shape[2], inputs, kernel, stride, padding)),
        floats(THREADS, rounded(width, ROWS) * outputs),
    ]


def input_gradient(grad: Array, weight: Array, out: Array, *, stride: int, padding: int, work: Scratch) -> None:
    """As convolve_input_gradient of the reference."""
    panels, lines, gradients = work
    outputs, kernel, _, inputs = weight.shape
    _pack(weight.reshape(outputs, kernel, kernel * inputs).transpose(1, 0, 2), panels)
    in_parallel(
        _input_gradient_rows, shares(out.shape[0] * out.shape[1]), flat(grad), grad.shape, kernel, stride, padding,
        panels, flat(out), out.shape, own=(lines, gradients),
    )  # fmt: skip


def weight_gradient_workspace(
    source: Array, grad: Array, weight_grad: Array, *, stride: int, padding: int
) -> list[ArraySpec]:
    """For each thread a padded row of inputs, a row of gradients, and the sums of their products."""
    outputs, kernel, _, inputs = weight_grad.shape
    width = grad.shape[2]
    return [
        floats(THREADS, _line(width, source.shape[2], inputs, kernel, stride, padding)),
        floats(THREADS, width * rounded(outputs, GRADIENT_ROWS)),
        floats(THREADS, kernel * rounded(outputs, GRADIENT_ROWS) * rounded(kernel * inputs, COLUMNS)),
    ]


def add_weight_gradient(
    source: Array, grad: Array, weight_grad: Array, *, stride: int, padding: int, work: Scratch
) -> None:
    """weight_grad += d loss / d weight."""
    lines, gradients, sums = work
    outputs, kernel, _, inputs = weight_grad.shape
    ranges = shares(grad.shape[0] * grad.shape[1])
    in_parallel(
        _weight_gradient_rows, ranges, flat(source), source.shape, kernel, stride, padding, flat(grad), grad.shape,
        own=(lines, gradients, sums),
    )  # fmt: skip
    wide = kernel * inputs
    for part in range(len(ranges)):
        total = sums[part].reshape(kernel, rounded(outputs, GRADIENT_ROWS), rounded(wide, COLUMNS))[:, :outputs, :wide]
        target = weight_grad.reshape(outputs, kernel, wide)
        target += total.transpose(1, 0, 2)
