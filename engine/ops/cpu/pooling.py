"""Max pooling by 2, eight channels at a time."""

import numpy as np

from engine.memory import Array, ArraySpec
from engine.ops import reference
from engine.ops.cpu.lanes import (
    LANES,
    choose_greater,
    equal,
    load,
    maximum,
    pack_pairs,
    splat,
    store,
    unpack_pairs,
)
from engine.ops.cpu.storage import NO_BITS, compiled, flat
from engine.ops.cpu.threads import in_parallel, kernel, shares
from engine.ops.operation import operation


def _is_compiled(image: Array, pooled: Array, size: int) -> bool:
    return size == 2 and pooled.shape[3] % LANES == 0 and compiled(image, pooled)


@kernel
def _max_pool(x, width, out, out_shape, positions, keeps_positions, first, last, offset):
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


@kernel
def _max_pool_backward(positions, grad, grad_shape, out, width, first, last, offset):
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


def _max_pool_workspace(x: Array, out: Array, positions: Array | None, *, size: int) -> list[ArraySpec]:
    return [] if _is_compiled(x, out, size) else reference.max_pool.workspace(x, out, positions, size=size)


@operation(workspace=_max_pool_workspace)
def max_pool(x: Array, out: Array, positions: Array | None, *, size: int, work: list[Array]) -> None:
    """As the reference."""
    if not _is_compiled(x, out, size):
        return reference.max_pool.compute(x, out, positions, size=size, work=work)
    ranges = shares(out.shape[0] * out.shape[1])
    bits = NO_BITS if positions is None else positions.reshape(-1)

    def compute(part: int) -> None:
        _max_pool(flat(x), x.shape[2], flat(out), out.shape, bits, positions is not None, *ranges[part], _unused(x))

    in_parallel(compute, len(ranges))


def _max_pool_backward_workspace(positions: Array, grad: Array, out: Array, *, size: int) -> list[ArraySpec]:
    if _is_compiled(out, grad, size):
        return []
    return reference.max_pool_backward.workspace(positions, grad, out, size=size)


@operation(workspace=_max_pool_backward_workspace)
def max_pool_backward(positions: Array, grad: Array, out: Array, *, size: int, work: list[Array]) -> None:
    """As the reference."""
    if not _is_compiled(out, grad, size):
        return reference.max_pool_backward.compute(positions, grad, out, size=size, work=work)
    if out.shape[1] % 2 or out.shape[2] % 2:
        out[...] = 0
    ranges = shares(grad.shape[0] * grad.shape[1])

    def compute(part: int) -> None:
        _max_pool_backward(
            positions.reshape(-1), flat(grad), grad.shape, flat(out), out.shape[2], *ranges[part], _unused(out)
        )

    in_parallel(compute, len(ranges))
