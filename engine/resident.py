"""Small sets of images, whole on a card: a batch is picked, augmented and normalised there by one kernel."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from engine.data import Augment, Batch, Part, Preprocessing, draws
from engine.device import Card, Device
from engine.memory import Array, Shape

SHARE = 8  # images may take one part in so many of a card's memory
DRAWN = 17  # bytes of a sample's place in an epoch, and of what is drawn for it
VALUES = 257  # a pixel's, and that of a hole
UPLOADED = 1 << 24  # bytes that are copied at a time


def data_bytes(device: Device, shape: Shape, samples: Sequence[int], nbytes: int, augment: Augment) -> int:
    """What parts of so many samples take of the device's memory, on the host `nbytes` in all; 0 where they stay there
    and the device is a card.
    """
    if not device.is_cuda:
        return nbytes
    size = sum(samples) * (prod(shape) + 4 + DRAWN) + sum(map(bool, samples)) * 4 * VALUES * shape[-1]
    moved = len(shape) == 3 and not (augment and (augment.jitter or augment.mixup))
    return size if moved and SHARE * size <= device.total else 0


class CardPart:
    """A part of images with the interface of a Loader. Its work is in line with all other on the card: no one waits."""

    waited = 0.0

    def __init__(
        self, part: Part, preprocessing: Preprocessing, slots: Sequence[tuple[Array, Array]], *, card: Card, seed: int,
        augment: Augment = None, shuffle: bool,
    ) -> None:  # fmt: skip
        count, *shape = part.inputs.shape
        if augment:
            augment.check(shape)
        self._card, self._slots, self._seed, self._shuffle = card, slots, seed, shuffle
        self._augment, self._shape, self._count = augment, tuple(shape), count
        pixels = preprocessing.pixel_table(slots[0][0].dtype).astype(np.float32)
        hole = pixels[np.arange(len(pixels)), np.rint(preprocessing.channel_mean).astype(int)]
        self._images, self._targets = self._room((count, *shape), np.uint8), self._room((count,), np.int32)
        self._drawn = [self._room((count,), np.int64), self._room((count, 2), np.int16)]
        self._drawn += [self._room((count,), np.bool_), self._room((count, 2), np.int16)]
        self._table = self._room((len(pixels), VALUES), np.float32)
        step = max(1, UPLOADED // prod(shape))
        with card.current():
            for each in self._drawn:
                each[...] = 0
            self._table.set(np.column_stack([pixels, hole]))
            self._targets.set(np.ascontiguousarray(part.targets).view(np.int32).reshape(-1))
            for first in range(0, count, step):
                self._images[first : first + step].set(np.ascontiguousarray(part.inputs[first : first + step]))

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """As a Loader's, with the same draws."""
        from engine.ops.cuda.launch import launch  # only where there is a card

        order = draws.order(self._seed, epoch, self._count, self._shuffle)
        drawn = [order]
        if self._augment:
            made = self._augment.draw(self._seed, epoch, order, self._shape)
            drawn += [made.shift, made.flip, made.hole]
        with self._card.current():
            for room, values in zip(self._drawn, drawn, strict=False):
                room.set(values)
        rows = len(self._slots[0][0])
        for number in range(start, -(-self._count // rows)):
            first = number * rows
            inputs, targets = (array[: self._count - first] for array in self._slots[number % len(self._slots)])
            arrays = (self._images, self._targets, *self._drawn, self._table, inputs, targets)
            with self._card.current():
                launch("pick", inputs.size, *arrays, first, *self._shape, self._augment.cutout if self._augment else 0)
            yield Batch(inputs, targets, len(inputs))

    def close(self) -> None:
        """Nothing is under way."""

    def _room(self, shape: Shape, dtype: Any) -> Array:
        return self._card.allocate(prod(shape) * np.dtype(dtype).itemsize).view(dtype).reshape(shape)
