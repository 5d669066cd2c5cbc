"""Batches, prepared by a background thread into slots that the caller owns."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

import numpy as np

from engine.data import augment, draws
from engine.data.augment import Augmentation, Draws
from engine.data.dataset import Part
from engine.data.preprocessing import Preprocessing
from engine.errors import InputError


@dataclass(frozen=True)
class Slot:
    """Room for one micro-batch: inputs (micro_batch, *input_shape) float32 or float16, targets as the part's."""

    inputs: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True)
class Batch:
    """A prepared micro-batch: the first `count` rows of a slot. Valid until the next one is asked for."""

    inputs: np.ndarray
    targets: np.ndarray
    count: int


Job = Callable[[Slot], Batch]  # prepares one batch in a slot


class Loader:
    """Iterates over a part, epoch by epoch, keeping up to `len(slots)` batches ready.

    Which samples a batch holds, and how they are augmented, depends on (seed, epoch) and their place in the epoch
    alone: neither on the number of slots nor on timing. The last batch is smaller where the samples do not divide.
    """

    def __init__(
        self,
        part: Part,
        preprocessing: Preprocessing,
        slots: Sequence[Slot],
        *,
        seed: int,
        augment: Sequence[str] = (),
        shuffle: bool,
    ):
        self.waited = 0.0
        self._part, self._slots = part, tuple(slots)
        self._seed, self._shuffle = seed, shuffle
        self._micro_batch = len(slots[0].inputs)
        self._copier = _copier(part, preprocessing, slots[0].inputs.dtype, augment)
        self._production: _Production | None = None

    @property
    def scratch_bytes(self) -> int:
        """Bytes held besides the slots while an epoch runs: the order of the samples, their draws, one index image."""
        return len(self._part) * np.dtype(np.intp).itemsize + self._copier.scratch_bytes

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number `start` (0-based) on; an epoch still running is abandoned."""
        self.close()
        self._production = _Production(self._slots, self._jobs(epoch, start))
        return self._consume(self._production)

    def close(self) -> None:
        """Stop the background thread and wait for its end; the slots are the caller's again."""
        if self._production is not None:
            self._production.stop()
            self._production = None

    def _consume(self, production: "_Production") -> Iterator[Batch]:
        try:
            while True:
                began = time.perf_counter()
                ready = production.next()
                self.waited += time.perf_counter() - began
                if ready is None:
                    return
                slot, batch = ready
                yield batch
                production.free.put(slot)
        finally:
            production.stop()

    def _jobs(self, epoch: int, start: int) -> Iterator[Job]:
        samples = len(self._part)
        random = draws.generator(self._seed, draws.ORDER, epoch)
        order = random.permutation(samples) if self._shuffle else np.arange(samples)
        self._copier.begin(self._seed, epoch)
        for begin in range(start * self._micro_batch, samples, self._micro_batch):
            span = slice(begin, min(begin + self._micro_batch, samples))
            yield partial(self._fill, order[span], span)

    def _fill(self, rows: np.ndarray, places: slice, slot: Slot) -> Batch:
        """Prepares the samples `rows`, which stand at `places` of the epoch."""
        inputs, targets = slot.inputs[: len(rows)], slot.targets[: len(rows)]
        self._copier.copy(rows, places, inputs)
        np.take(self._part.targets, rows, axis=0, out=targets, mode="clip")
        return Batch(inputs, targets, len(rows))


class _Production:
    """One epoch's background thread, and the two queues between it and the consumer: free slots and ready batches."""

    def __init__(self, slots: Sequence[Slot], jobs: Iterator[Job]):
        self.free: SimpleQueue[Slot | None] = SimpleQueue()
        self._ready: SimpleQueue[tuple[Slot, Batch] | BaseException | None] = SimpleQueue()
        self._stopping = False
        for slot in slots:
            self.free.put(slot)
        self._thread = threading.Thread(target=self._run, args=(jobs,), name="data", daemon=True)
        self._thread.start()

    def next(self) -> tuple[Slot, Batch] | None:
        """The next batch and its slot, None after the last; what went wrong in the thread is raised here."""
        item = None if self._stopping else self._ready.get()
        if self._stopping:
            raise RuntimeError("the loader was closed, or began another epoch, in the middle of this one")
        if isinstance(item, BaseException):
            raise item
        return item

    def stop(self) -> None:
        self._stopping = True
        self.free.put(None)
        self._thread.join()

    def _run(self, jobs: Iterator[Job]) -> None:
        try:
            for job in jobs:
                slot = self.free.get()
                if self._stopping:
                    break
                self._ready.put((slot, job(slot)))
        except BaseException as error:
            self._ready.put(error)
        self._ready.put(None)


def _copier(part: Part, preprocessing: Preprocessing, dtype: np.dtype, names: Sequence[str]):
    augmentation = augment.parse(names)
    if part.inputs.dtype == np.uint8:
        return _ImageCopier(part.inputs, preprocessing.pixel_table(dtype), augmentation)
    if augmentation:
        raise InputError("data.augment works on images; this data set is a table")
    return _PlainCopier(part.inputs)


class _PlainCopier:
    """Copies rows that are prepared already, casting to the slot's type."""

    scratch_bytes = 0

    def __init__(self, inputs: np.ndarray):
        self._inputs = inputs

    def begin(self, seed: int, epoch: int) -> None:
        pass

    def copy(self, rows: np.ndarray, span: slice, out: np.ndarray) -> None:
        if out.dtype == self._inputs.dtype:
            np.take(self._inputs, rows, axis=0, out=out, mode="clip")
            return
        with np.errstate(over="ignore"):  # beyond half precision is inf, which the window's check finds
            for row, target in zip(rows, out, strict=True):
                target[...] = self._inputs[row]


class _ImageCopier:
    """Normalises and augments images in one pass.

    Every byte is looked up in a table of normalised values: a cast to float16 costs several times as much. The table
    ends with a 0, the channel's mean after normalisation: crops look it up where they reach past the image's border.
    """

    def __init__(self, images: np.ndarray, table: np.ndarray, augmentation: Augmentation):
        height, width, channels = images.shape[1:]
        augmentation.check(images.shape[1:])
        self._images = images
        self._augmentation = augmentation
        self._table = np.append(table.ravel(), table.dtype.type(0))
        self._padding_place = table.size
        # Where each channel's values begin in the flat table, for a whole row of pixels.
        self._begins = np.tile(np.arange(channels) * 256, (width, 1))
        self._places = np.empty((height, width, channels), np.intp)
        self._draws: Draws | None = None

    @property
    def scratch_bytes(self) -> int:
        per_sample = 5 * len(self._images) if self._augmentation else 0
        return self._table.nbytes + self._begins.nbytes + self._places.nbytes + per_sample

    def begin(self, seed: int, epoch: int) -> None:
        if self._augmentation:
            self._draws = augment.draw(self._augmentation, seed, epoch, len(self._images))

    def copy(self, rows: np.ndarray, span: slice, out: np.ndarray) -> None:
        for row, place, target in zip(rows, range(span.start, span.stop), out, strict=True):
            image = self._images[row]
            if self._draws is None:
                np.add(image, self._begins, out=self._places)
            else:
                self._place_augmented(image, self._draws.shift[place], self._draws.flip[place])
            np.take(self._table, self._places, out=target, mode="clip")

    def _place_augmented(self, image: np.ndarray, shift: np.ndarray, flip: bool) -> None:
        if flip:
            image = image[:, ::-1]
        to_rows, from_rows = augment.shifted(image.shape[0], int(shift[0]))
        to_columns, from_columns = augment.shifted(image.shape[1], int(shift[1]))
        self._places[...] = self._padding_place
        np.add(image[from_rows, from_columns], self._begins[from_columns], out=self._places[to_rows, to_columns])
