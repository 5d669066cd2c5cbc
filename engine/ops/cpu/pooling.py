"""Max pooling by 2, eight channels at a time."""

import numpy as np

from engine.memory import Array, Scratch
from engine.ops import reference
from engine.ops.cpu.kernels import kernel
from engine.ops.cpu.lanes import LANES, choose_greater, equal, load, maximum, pack_pairs, splat, store, unpack_pairs
from engine.ops.cpu.storage import NO_BITS, compiled, flat, stored
from engine.ops.cpu.threads import in_parallel, shares


def _suits(image: Array, pooled: Array, size: int) -> bool:
    return size == 2 and pooled.shape[3] % LANES == 0 and stored(image, pooled)


@kernel("SiiSNBbii")
def _max_pool(x, width, offset, out, out_shape, positions, keeps_positions, first, last):
    """Rows first..last of the output, counted over images; `offset` elements of x lie between the images' used rows."""
    _, height, out_width, channels = out_shape
    for row in range(first, last):
        top = row * 2 * width * channels + row // height * offset
        for column in range(out_width):
            corner = top + column * 2 * channels
            to = (row * out_width + column) * channels
            for c in range(0, channels, LANES):
                largest = load(x, corner + c)
                which = splat(np.float32(0))
                for number in range(1, 4):
                    value = load(x, corner + c + (number % 2 + number // 2 * width) * channels)
                    which = choose_greater(value, largest, splat(np.float32(number)), which)
                    largest = maximum(largest, value)
                store(out, to + c, largest)
                if keeps_positions:
                    bits = pack_pairs(which)
                    positions[(to + c) // 4] = bits & 255
                    positions[(to + c) // 4 + 1] = bits >> 8


@kernel("BSNSiiii")
def _max_pool_backward(positions, grad, grad_shape, out, width, offset, first, last):
    """Rows first..last of the gradient."""
    _, height, grad_width, channels = grad_shape
    for row in range(first, last):
        top = row * 2 * width * channels + row // height * offset
        for column in range(grad_width):
            corner = top + column * 2 * channels
            at = (row * grad_width + column) * channels
            for c in range(0, channels, LANES):
                low, high = positions[(at + c) // 4], positions[(at + c) // 4 + 1]
                which = unpack_pairs(np.uint16(low) | np.uint16(high) << np.uint16(8))
                value = load(grad, at + c)
                for number in range(4):
                    to = corner + c + (number % 2 + number // 2 * width) * channels
                    store(out, to, value * equal(which, splat(np.float32(number))))


def _unused(image: Array) -> int:
    """Elements of the row of each image that is left over where the height is odd."""
    return image.shape[1] % 2 * image.shape[2] * image.shape[3]


@compiled(reference.max_pool, when=lambda x, out, positions, *, size: _suits(x, out, size))
def max_pool(x: Array, out: Array, positions: Array | None, *, size: int, work: Scratch) -> None:
    """As the reference."""
    ranges = shares(out.shape[0] * out.shape[1])
    bits = (NO_BITS, False) if positions is None else (positions.reshape(-1), True)
    in_parallel(_max_pool, ranges, flat(x), x.shape[2], _unused(x), flat(out), out.shape, *bits)


@compiled(reference.max_pool_backward, when=lambda positions, grad, out, *, size: _suits(out, grad, size))
def max_pool_backward(positions: Array, grad: Array, out: Array, *, size: int, work: Scratch) -> None:
    """As the reference."""
    if out.shape[1] % 2 or out.shape[2] % 2:
        out[...] = 0
    ranges = shares(grad.shape[0] * grad.shape[1])
    arguments = (positions.reshape(-1), flat(grad), grad.shape, flat(out), out.shape[2], _unused(out))
    in_parallel(_max_pool_backward, ranges, *arguments)
