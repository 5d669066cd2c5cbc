"""Pooling of NHWC images over windows that do not overlap; rows and columns left over at the edge are ignored."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.operation import array_module, compute_dtype, matching, operation, piece_bytes, slices


def _images(out: Array) -> int:
    """How many pooled images make one piece."""
    return max(1, min(out.shape[0], piece_bytes() // (4 * max(1, out.size // out.shape[0]))))


def _in_pieces(pooled: Array, *others: Array | None, work: Scratch) -> Iterator[list[Any]]:
    """The same images of every array, some at a time, and scratch for as many."""
    return matching(slices(pooled.shape[0], _images(pooled)), (pooled, *others), work)


def _windows(x: Array, out: Array, size: int) -> Iterator[Array]:
    """The size * size elements of every window, as so many strided views in the shape of `out`."""
    height, width = out.shape[1] * size, out.shape[2] * size
    return (x[:, row:height:size, column:width:size] for row in range(size) for column in range(size))


def _position_scratch(out: Array, positions: Array | None, size: int) -> list[ArraySpec]:
    if positions is None:
        return []
    per_image = positions.shape[1] * (4 if size == 2 else 1)
    images = _images(out)
    return [ArraySpec((images, per_image), np.dtype(np.uint8)), ArraySpec((images, *out.shape[1:]), np.dtype(np.bool_))]


@operation(workspace=lambda x, out, positions, *, size: _position_scratch(out, positions, size))
def max_pool(x: Array, out: Array, positions: Array | None, *, size: int, work: Scratch) -> None:
    """out = the largest of each window, the first one where several are equal; NaN wins. Which one goes to
    `positions`.
    """
    xp = array_module(x)
    for largest, source, codes, *scratch in _in_pieces(out, x, positions, work=work):
        first, *others = _windows(source, largest, size)
        largest[...] = first
        if codes is None:
            for window in others:
                xp.maximum(largest, window, out=largest)
            continue
        which, larger = scratch
        which[...] = 0
        index = which[:, : largest[0].size].reshape(largest.shape)
        for number, window in enumerate(others, start=1):
            xp.greater(window, largest, out=larger)
            xp.maximum(largest, window, out=largest)
            index[larger] = number
        _pack(which, index, codes, size)


def _pack(which: Array, index: Array, positions: Array, size: int) -> None:
    which[:, : index.size // index.shape[0]] = index.reshape(index.shape[0], -1)
    if size == 2:
        quarter = which.reshape(which.shape[0], -1, 4)
        positions[...] = quarter[:, :, 0]
        for place in (1, 2, 3):
            positions |= quarter[:, :, place] << (2 * place)
    else:
        positions[...] = which


def _unpack(positions: Array, which: Array, size: int) -> None:
    if size == 2:
        quarter = which.reshape(which.shape[0], -1, 4)
        for place in range(4):
            quarter[:, :, place] = positions >> (2 * place)
        which &= 3
    else:
        which[...] = positions


@operation(workspace=lambda positions, grad, out, *, size: _position_scratch(grad, positions, size))
def max_pool_backward(positions: Array, grad: Array, out: Array, *, size: int, work: Scratch) -> None:
    """out = grad at the position that was the largest of its window, 0 elsewhere."""
    xp = array_module(grad)
    for upstream, target, codes, which, here in _in_pieces(grad, out, positions, work=work):
        _unpack(codes, which, size)
        index = which[:, : upstream[0].size].reshape(upstream.shape)
        if target.shape[1] % size or target.shape[2] % size:
            target[...] = 0
        for number, window in enumerate(_windows(target, upstream, size)):
            xp.equal(index, number, out=here)
            xp.multiply(upstream, here, out=window)


def _sum_scratch(x: Array, out: Array, *, size: int = 1) -> list[ArraySpec]:
    return [ArraySpec((_images(out), *out.shape[1:]), compute_dtype(x))]


@operation(workspace=_sum_scratch)
def average_pool(x: Array, out: Array, *, size: int, work: Scratch) -> None:
    """out = the mean of each window."""
    for target, source, total in _in_pieces(out, x, work=work):
        total[...] = 0
        for window in _windows(source, total, size):
            total += window
        total *= total.dtype.type(1.0 / size**2)
        target[...] = total


@operation(workspace=lambda grad, out, *, size: _sum_scratch(grad, grad))
def average_pool_backward(grad: Array, out: Array, *, size: int, work: Scratch) -> None:
    """out = grad / size^2 at every position of the window."""
    xp = array_module(grad)
    for upstream, target, share in _in_pieces(grad, out, work=work):
        xp.multiply(upstream, share.dtype.type(1.0 / size**2), out=share)
        if target.shape[1] % size or target.shape[2] % size:
            target[...] = 0
        for window in _windows(target, share, size):
            window[...] = share


@operation()
def global_average_backward(grad: Array, out: Array, *, work: Scratch) -> None:
    """out (N, H, W, C) = grad / (H * W) everywhere."""
    share = compute_dtype(grad).type(1.0 / (out.shape[1] * out.shape[2]))
    array_module(grad).multiply(grad[:, None, None, :], share, out=out)
