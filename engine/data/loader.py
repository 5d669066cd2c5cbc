"""Batches, prepared by a background thread into slots that the caller owns."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from engine.data import draws
from engine.data.dataset import Part
from engine.data.preprocessing import Preprocessing
from engine.errors import InputError

Augment = Any  # None, or what is done to train images: it has the methods of fnwork's Augmentation
PIECE_BYTES = 1 << 17  # of images that are prepared at a time


@dataclass(frozen=True)
class Slot:
    """Room for one micro-batch: inputs (micro_batch, *input_shape) float32 or float16, targets as the part's, or
    (micro_batch, classes) float32 for the share of each class.
    """

    inputs: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True)
class Batch:
    """A prepared micro-batch: the first `count` rows of a slot. Valid until the next one is asked for."""

    inputs: np.ndarray
    targets: np.ndarray
    count: int


class Loader:
    """Iterates over a part, epoch by epoch, keeping up to `len(slots)` batches ready.

    Which samples a batch holds, and how they are augmented, depends on (seed, epoch) and their place in the epoch
    alone: neither on the number of slots nor on timing. The last batch is smaller where the samples do not divide.
    """

    def __init__(
        self, part: Part, preprocessing: Preprocessing, slots: Sequence[Slot], *, seed: int,
        augment: Augment = None, shuffle: bool,
    ):  # fmt: skip
        self.waited = 0.0
        self._part, self._slots = part, tuple(slots)
        self._seed, self._shuffle = seed, shuffle
        self._micro_batch = len(slots[0].inputs)
        if part.inputs.dtype == np.uint8:
            self._source = _Images(part, preprocessing, slots[0].inputs.dtype, augment)
        elif augment:
            raise InputError("data.augment works on images; this data set is a table")
        else:
            self._source = _Tables(part)
        self._thread: ThreadPoolExecutor | None = None

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number `start` (0-based) on; an epoch still running is abandoned."""
        self.close()
        samples = len(self._part)
        self._source.begin(self._seed, epoch, draws.order(self._seed, epoch, samples, self._shuffle))
        self._thread = ThreadPoolExecutor(1, "data")
        return self._produce(self._thread, iter(range(start, -(-samples // self._micro_batch))))

    def close(self) -> None:
        """Stop the background thread and wait for its end; the slots are the caller's again."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None

    def _produce(self, thread: ThreadPoolExecutor, numbers: Iterator[int]) -> Iterator[Batch]:
        """Has a batch prepared in every slot, and the next one in a slot when its batch was worked on."""
        try:
            ahead = deque(thread.submit(self._fill, number) for number in islice(numbers, len(self._slots)))
            while ahead:
                began = time.perf_counter()
                batch = ahead.popleft().result()
                self.waited += time.perf_counter() - began
                yield batch
                if self._thread is not thread:
                    raise RuntimeError("the loader was closed, or began another epoch, in the middle of this one")
                ahead.extend(thread.submit(self._fill, number) for number in islice(numbers, 1))
        finally:
            thread.shutdown(cancel_futures=True)

    def _fill(self, number: int) -> Batch:
        """Prepares a batch of the epoch in the slot whose turn it is."""
        slot, begin = self._slots[number % len(self._slots)], number * self._micro_batch
        places = np.arange(begin, min(begin + self._micro_batch, len(self._part)))
        inputs, targets = slot.inputs[: len(places)], slot.targets[: len(places)]
        self._source.fill(places, inputs, targets)
        return Batch(inputs, targets, len(places))


class _Tables:
    """Copies rows that are prepared already, casting to the slot's type."""

    def __init__(self, part: Part):
        self._part = part

    def begin(self, seed: int, epoch: int, order: np.ndarray) -> None:
        self._order = order

    def fill(self, places: np.ndarray, inputs: np.ndarray, targets: np.ndarray) -> None:
        rows = self._order[places]
        np.take(self._part.targets, rows, axis=0, out=targets, mode="clip")
        with np.errstate(over="ignore"):  # beyond half precision is inf, which the window's check finds
            inputs[...] = self._part.inputs[rows]


class _Images:
    """Augments and normalises images, some at a time so that what lies between stays in the processor's cache.

    Every byte is looked up in a table of normalised values: a cast to float16 costs several times as much.
    """

    def __init__(self, part: Part, preprocessing: Preprocessing, dtype: np.dtype, how: Augment):
        if how:
            how.check(part.inputs.shape[1:])
        self._part, self._how = part, how
        table = preprocessing.pixel_table(dtype)
        self._table, self._begins = table.ravel(), np.arange(len(table)) * table.shape[1]
        self._colour = np.rint(preprocessing.channel_mean).astype(np.uint8)
        self._piece = max(1, PIECE_BYTES // prod(part.inputs.shape[1:]))

    def begin(self, seed: int, epoch: int, order: np.ndarray) -> None:
        self._order = order
        self._draws = self._how.draw(seed, epoch, order, self._part.inputs.shape[1:]) if self._how else None

    def fill(self, places: np.ndarray, inputs: np.ndarray, targets: np.ndarray) -> None:
        for first in range(0, len(places), self._piece):
            piece = slice(first, first + self._piece)
            pixels = self._pixels(places[piece])
            np.take(self._table, pixels + self._begins, out=inputs[piece], mode="clip")
        if targets.ndim == self._part.targets.ndim:
            np.take(self._part.targets, self._order[places], axis=0, out=targets, mode="clip")
        else:
            self._fill_shares(places, targets)

    def _pixels(self, places: np.ndarray) -> np.ndarray:
        """The augmented images at places of the epoch, uint8."""
        if not self._how or not self._how.mixup:
            return self._alone(places)
        drawn = self._draws.at(places)
        return self._how.mix(self._alone(places), self._alone(drawn.partner), drawn.share)

    def _alone(self, places: np.ndarray) -> np.ndarray:
        """The same before they are mixed with others."""
        images = self._part.inputs[self._order[places]]
        return self._how.apply(images, self._draws.at(places), self._colour) if self._draws else images

    def _fill_shares(self, places: np.ndarray, targets: np.ndarray) -> None:
        """The share of each class in each image, a row of probabilities."""
        classes, rows = self._part.targets, np.arange(len(places))
        targets[...] = 0
        targets[rows, classes[self._order[places]]] = 1
        if self._draws is not None:
            drawn = self._draws.at(places)
            targets *= drawn.weight[:, None]
            targets[rows, classes[self._order[drawn.partner]]] += 1 - drawn.weight
