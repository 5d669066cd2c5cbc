"""What is kept in less than a byte an element."""

from collections.abc import Iterator
from math import prod

import numpy as np

from engine.memory import Array, ArraySpec, Shape
from engine.ops.operation import array_module, pieces


def packed_mask(shape: Shape) -> ArraySpec:
    """One bit an element of an array of `shape`."""
    return ArraySpec((-(-prod(shape) // 8),), np.dtype(np.uint8))


def bits_in_pieces(mask: Array | None, array: Array) -> Iterator[Array | None]:
    """The bytes of a packed mask that belong to each piece of `array`."""
    channels = array.shape[-1]
    spans = (slice(piece.start * channels // 8, -(-piece.stop * channels // 8)) for piece in pieces(array))
    return (mask if mask is None else mask[span] for span in spans)


def unpacked(bits: Array, shape: Shape) -> Array:
    """One 0 or 1 an element of `shape`."""
    return array_module(bits).unpackbits(bits)[: prod(shape)].reshape(shape)


def packed_positions(out_shape: Shape, size: int) -> ArraySpec:
    """The position of the largest element of each pooling window: two bits for 2x2 (four to a byte), a byte
    otherwise.
    """
    per_image = prod(out_shape[1:])
    return ArraySpec((out_shape[0], -(-per_image // 4) if size == 2 else per_image), np.dtype(np.uint8))
