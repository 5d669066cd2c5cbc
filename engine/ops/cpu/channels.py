"""Batch norm's passes over (rows, channels), and sums over rows.

Arrays are gone through as flat memory with a period: a whole number of rows whose length is a multiple of LANES, so
that one loop serves any number of channels and a mask splits at whole bytes. What belongs to channels is repeated over
a period. Sums are kept in float32 for a block of periods and in float64 beyond.
"""

from math import lcm

import numpy as np

from engine.memory import Array, ArraySpec
from engine.ops.cpu.kernels import kernel
from engine.ops.cpu.lanes import (
    LANES,
    keep_bits,
    keep_positive,
    load,
    load_until,
    positive_bits,
    positive_part,
    store,
    store_until,
)
from engine.ops.cpu.storage import floats
from engine.ops.cpu.threads import LEAST, THREADS, Ranges, shares

BLOCK = 64  # periods summed in float32


def period(channels: int) -> int:
    """Elements of a period: at least about 128."""
    base = lcm(channels, LANES)
    return base * -(-128 // base)


def vectors(array: Array, count: int) -> ArraySpec:
    """Scratch for what belongs to channels, repeated over a period."""
    return floats(count, period(array.shape[-1]))


def repeated(values: Array | float, out: Array) -> Array:
    """`out`, a period, filled with `values`, of the channels or one for all."""
    out.reshape(-1, np.size(values))[...] = values
    return out


def ranges(array: Array) -> Ranges:
    """The elements of each thread."""
    return shares(array.size, step=period(array.shape[-1]), least=LEAST)


def sum_scratch(array: Array, count: int) -> list[ArraySpec]:
    """For each thread `count` sums over periods: of a block in float32, of all in float64."""
    shape = (THREADS, count, period(array.shape[-1]))
    return [floats(*shape), ArraySpec(shape, np.dtype(np.float64))]


def channel_totals(totals: Array, parts: int, channels: int) -> Array:
    """Sums (count, channels) in float64 of what `parts` threads gathered, in a fixed order."""
    return totals[:parts].reshape(parts, totals.shape[1], -1, channels).sum(axis=(0, 2))


@kernel()
def fold(block, total):
    """total += block; block = 0."""
    for place in range(block.size):
        total[place] += block[place]
        block[place] = 0


@kernel("SFiiFD")
def moments(x, pivot, first, last, block, total):
    """total = the sums of x - pivot and of its square over elements first..last by their place in the period."""
    length = total.size // 2
    block[:] = 0
    total[:] = 0
    for start in range(first, last, BLOCK * length):
        for at in range(start, min(start + BLOCK * length, last), length):
            for place in range(0, min(length, last - at), LANES):
                centred = load_until(x, at + place, last) - load_until(pivot, place, last - at)
                store(block, place, load(block, place) + centred)
                store(block, length + place, load(block, length + place) + centred * centred)
        fold(block, total)


@kernel("SFFSbbBbSii")
def normalise(x, slope, offset, skip, adds_skip, relu, mask, keeps_mask, out, first, last):
    """out = slope * x + offset [+ skip] [then max(., 0), with its bits in mask]."""
    length = slope.size
    for at in range(first, last, length):
        for place in range(0, min(length, last - at), LANES):
            here = at + place
            y = load_until(x, here, last) * load(slope, place) + load(offset, place)
            if adds_skip:
                y = y + load_until(skip, here, last)
            if keeps_mask:
                mask[here // LANES] = positive_bits(y)
            if relu:
                y = positive_part(y)
            store_until(out, here, last, y)


@kernel("SFFFSbBbiiFD")
def gradient_sums(x, mean, slope, offset, grad, relu, mask, has_mask, first, last, block, total):
    """grad becomes that before the ReLU; total = the sums of it and of grad * (x - mean), by place in the period."""
    length = total.size // 2
    block[:] = 0
    total[:] = 0
    for start in range(first, last, BLOCK * length):
        for at in range(start, min(start + BLOCK * length, last), length):
            for place in range(0, min(length, last - at), LANES):
                here = at + place
                value = load_until(x, here, last)
                g = load_until(grad, here, last)
                if relu:
                    if has_mask:
                        g = keep_bits(g, mask[here // LANES])
                    else:
                        g = keep_positive(g, value * load(slope, place) + load(offset, place))
                    store_until(grad, here, last, g)
                store(block, place, load(block, place) + g)
                store(block, length + place, load(block, length + place) + g * (value - load(mean, place)))
        fold(block, total)


@kernel("SFFFFSSii")
def input_gradient(x, mean, mean_grad, per_x, slope, grad, out, first, last):
    """out = slope * (grad - mean_grad - per_x * (x - mean))."""
    length = slope.size
    for at in range(first, last, length):
        for place in range(0, min(length, last - at), LANES):
            here = at + place
            g = load_until(grad, here, last) - load(mean_grad, place)
            g = g - (load_until(x, here, last) - load(mean, place)) * load(per_x, place)
            store_until(out, here, last, g * load(slope, place))
