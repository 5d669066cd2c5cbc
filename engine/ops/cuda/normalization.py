"""Batch norm and its statistics, and sums over the rows of (rows, channels)."""

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.cuda.launch import BLOCK, launch
from engine.ops.operation import operation

MOST_CHUNKS = 512  # parts that rows are summed in
ROWS = 16  # that a thread adds at least


def _width(channels: int) -> int:
    """Channels of a block: a power of two."""
    return min(32, 1 << (channels - 1).bit_length())


def partial_sums(x: Array, channels: int) -> ArraySpec:
    """Scratch for the sums of each chunk of rows: two a channel."""
    chunks = x.size // channels // (ROWS * BLOCK // _width(channels))
    return ArraySpec((2, channels, max(1, min(chunks, MOST_CHUNKS))), np.dtype(np.float64))


def _slopes(x: Array) -> ArraySpec:
    return ArraySpec((3, x.shape[-1]), np.dtype(np.float32))


def _row_sums(partial: Array, x: Array, *arguments: Array | int | None) -> None:
    _, channels, chunks = partial.shape
    grid = (chunks, -(-channels // _width(channels)))
    launch("row_sums", x.size // channels, channels, _width(channels), partial, x, *arguments, grid=grid)


def end_sums(x: Array, partial: Array, *outputs: Array | None) -> None:
    """Adds up the chunks. Outputs: total, gradient by beta, mean, variance, gradient by gamma, and what else the kernel
    takes; None or left out where not needed.
    """
    _, channels, chunks = partial.shape
    missing = (None,) * (8 - len(outputs))
    launch("end_sums", x.size // channels, chunks, partial, *outputs, *missing, grid=(channels,))


def sum_rows(x: Array, partial: Array, *outputs: Array | None) -> None:
    """The sums of x and x^2 over its rows, as `end_sums` gives them out."""
    _row_sums(partial, x, None, None, None, None, None, None, 0)
    end_sums(x, partial, *outputs)


@operation(workspace=lambda x, *arrays: [partial_sums(x, x.shape[-1])])
def channel_statistics(x: Array, mean: Array, variance: Array, gathered: Array | None = None, *, work: Scratch) -> None:
    """As the reference, in one pass over x."""
    sum_rows(x, *work, None, None, mean, variance)


@operation()
def enter_statistics(*vectors: Array, momentum: float, unbias: float, epsilon: float, work: Scratch) -> None:
    """As the reference."""
    launch("enter_statistics", vectors[0].size, *vectors, momentum, momentum * unbias, epsilon)


@operation(workspace=lambda x, *arrays, **options: [_slopes(x)])
def batch_norm(
    x: Array, *vectors_and_out: Array, skip: Array | None, relu: bool, mask: Array | None, work: Scratch
) -> None:
    """As the reference."""
    *vectors, out = vectors_and_out
    launch("norm_slopes", x.shape[-1], *vectors, *work)
    launch("affine", x.size, x.shape[-1], x, skip, *work, out, mask, int(relu), 0.0, 0.0, each=8)


@operation(workspace=lambda x, *arrays, **options: [partial_sums(x, x.shape[-1]), _slopes(x)])
def batch_norm_backward(*arrays: Array, relu: bool, mask: Array | None, work: Scratch) -> None:
    """As the reference."""
    x, mean, inv_std, gamma, _, grad, gamma_grad, beta_grad, out = arrays
    partial, slopes = work
    _row_sums(partial, *arrays[:6], mask, int(relu))
    end_sums(x, partial, None, beta_grad, mean, None, gamma_grad, inv_std, gamma, slopes)
    launch("affine", x.size, x.shape[-1], x, grad, slopes, out, None, 0, 0.0, 0.0, each=8)
