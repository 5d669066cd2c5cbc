"""Micro-batches on the device: the loaders of a data set's parts over the slots of the learner."""

from collections.abc import Iterator, Sequence

import numpy as np

from engine.data import Batch, DataSet, Loader, Part, Slot
from engine.device import Device
from engine.errors import InputError
from engine.learner import Learner
from engine.memory import Array


class Feed:
    """One part at a time: asking for another one's batches ends those of the one before, since all share the slots."""

    def __init__(self, data: DataSet, learner: Learner, device: Device, seed: int, augment: Sequence[str]) -> None:
        self._data, self._learner, self._device = data, learner, device
        self._seed, self._augment = seed, augment
        self._slots = self._host_slots()
        self._train = Loader(data.train, data.preprocessing, self._slots, seed=seed, augment=augment, shuffle=True)
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
        return self._plain(samples)

    def of(self, inputs: np.ndarray) -> Iterator[Batch]:
        """Batches of inputs without targets."""
        like = self._slots[0].targets
        return self._plain(Part(inputs, np.zeros((len(inputs), *like.shape[1:]), like.dtype)))

    def close(self) -> None:
        """Ends the background thread."""
        self._current.close()

    def _plain(self, samples: Part) -> Iterator[Batch]:
        return self._begin(Loader(samples, self._data.preprocessing, self._slots, seed=self._seed, shuffle=False), 0, 0)

    def _begin(self, loader: Loader, epoch: int, start: int) -> Iterator[Batch]:
        self._current.close()
        self._current = loader
        batches = loader.batches(epoch, start)
        return map(self._on_device, batches) if self._device.is_cuda else batches

    def _host_slots(self) -> list[Slot]:
        """Where batches are prepared: the ledger's own data arrays on the CPU, buffers of the host for a card."""
        pairs = zip(self._learner.inputs, self._learner.targets, strict=True)
        if self._device.is_cuda:
            pairs = ([np.empty(array.shape, array.dtype) for array in pair] for pair in pairs)
        return [Slot(*pair) for pair in pairs]

    def _on_device(self, batch: Batch) -> Batch:
        inputs, targets = self._learner.inputs[0], self._learner.targets[0]
        return Batch(_copied(batch.inputs, inputs), _copied(batch.targets, targets), batch.count)


def _copied(host: np.ndarray, target: Array) -> Array:
    rows = target[: len(host)]
    rows.set(host)
    return rows
