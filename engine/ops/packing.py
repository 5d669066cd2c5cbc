"""The shapes of what is kept in less than a byte an element."""

from math import prod

import numpy as np

from engine.memory import ArraySpec


def packed_mask(shape: tuple[int, ...]) -> ArraySpec:
    """One bit an element of an array of `shape`."""
    return ArraySpec((-(-prod(shape) // 8),), np.dtype(np.uint8))


def packed_positions(out_shape: tuple[int, ...], size: int) -> ArraySpec:
    """The position of the largest element of each pooling window: two bits for 2x2 (four to a byte), a byte
    otherwise.
    """
    per_image = prod(out_shape[1:])
    return ArraySpec((out_shape[0], -(-per_image // 4) if size == 2 else per_image), np.dtype(np.uint8))
