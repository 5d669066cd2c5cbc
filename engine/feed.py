"""Micro-batches on the device: the loaders of a data set's parts over the slots of the learner."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from engine.data import Augment, Batch, DataSet, Loader, Part, Slot
from engine.device import Card, Device
from engine.errors import InputError
from engine.learner import Learner
from engine.memory import Array
from engine.resident import CardPart


class Feed:
    """One part at a time: asking for another one's batches ends those of the one before, since all share the slots."""

    def __init__(
        self, data: DataSet, learner: Learner, device: Device, seed: int, augment: Augment, resident: bool = False
    ) -> None:
        """`resident`: all of the data lie in the device's memory."""
        self._data, self._seed = data, seed
        pairs = [*zip(learner.inputs, learner.targets, strict=True)]
        self._copies = _Copies(device, pairs) if device.is_cuda else None
        self._slots = self._copies.slots if self._copies else [Slot(*pair) for pair in pairs]
        on_card = resident and device.is_cuda
        part_of = partial(CardPart, slots=pairs, card=device) if on_card else partial(Loader, slots=self._slots)
        make = partial(part_of, preprocessing=data.preprocessing, seed=seed)
        others = {name: part for name in ("validation", "test") if (part := getattr(data, name))}
        self._others = {name: make(part, shuffle=False) for name, part in others.items()}
        self._train = make(data.train, augment=augment, shuffle=True)
        self._current = self._train

    @property
    def waited(self) -> float:
        """Seconds spent waiting for training batches so far."""
        return self._train.waited

    @property
    def interrupted(self) -> bool:
        """Whether other batches were asked for since the training ones, which then have to be begun again."""
        return self._current is not self._train

    def training(self, epoch: int, start: int) -> Iterator[Batch]:
        """Batches of the train part in the epoch's order, augmented, from micro-batch `start` on."""
        return self._begin(self._train, epoch, start)

    def in_order(self, part: str) -> Iterator[Batch]:
        """Batches of "train", "validation" or "test" as they stand. Raises InputError where there is no such part."""
        samples: Part | None = getattr(self._data, part)
        if samples is None:
            raise InputError(f"the data set {self._data.name} has no {part} part")
        return self._begin(self._others[part], 0, 0) if part in self._others else self._plain(samples)

    def of(self, inputs: np.ndarray) -> Iterator[Batch]:
        """Batches of inputs without targets."""
        like = self._slots[0].targets
        return self._plain(Part(inputs, np.zeros((len(inputs), *like.shape[1:]), like.dtype)))

    def close(self) -> None:
        """Ends the background thread."""
        self._current.close()

    def _plain(self, samples: Part) -> Iterator[Batch]:
        return self._begin(Loader(samples, self._data.preprocessing, self._slots, seed=self._seed, shuffle=False), 0, 0)

    def _begin(self, loader: Loader | CardPart, epoch: int, start: int) -> Iterator[Batch]:
        self._current.close()
        self._current = loader
        begin = partial(loader.batches, epoch, start)
        if self._copies is None:
            return begin()
        self._copies.stream.synchronize()  # a copy may be left over from batches that were given up
        return begin() if isinstance(loader, CardPart) else self._copies.ahead(begin)


class _Copies:
    """Batches on a card, by its two slots in turn: while one is worked on, a stream of its own copies the next.

    Events keep the order of both streams; the host waits for copies alone, since the loader writes over their source.
    """

    def __init__(self, card: Card, arrays: Sequence[tuple[Array, Array]]) -> None:
        self._card, self._arrays, cuda = card, arrays, card.cupy.cuda
        self.stream, self._read = cuda.Stream(non_blocking=True), [cuda.Event(disable_timing=True) for _ in arrays]
        self.slots = [Slot(*map(card.pinned, pair)) for pair in arrays]

    def ahead(self, begin: Callable[[], Iterator[Batch]]) -> Iterator[Batch]:
        """The batches of a loader that begins now, each on the card when it is handed out.

        No work on a slot may be left from before: the learner reads its sums at the end of all it does.
        """
        ready = None
        for number, batch in enumerate(chain(begin(), (None,))):
            following = batch and self._send(batch, number % 2)
            if ready:
                yield ready
                with self._card.current():
                    self._read[(number - 1) % 2].record()
            self.stream.synchronize()
            ready = following

    def _send(self, batch: Batch, slot: int) -> Batch:
        """Begins to copy into a slot, once the work on what lay in it before is done."""
        self.stream.wait_event(self._read[slot])
        inputs, targets = (array[: batch.count] for array in self._arrays[slot])
        inputs.set(batch.inputs, stream=self.stream)
        targets.set(batch.targets, stream=self.stream)
        return replace(batch, inputs=inputs, targets=targets)
