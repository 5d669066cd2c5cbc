"""From the parts that a data set has to those that a run uses: train, validation, test."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.data import DataSet, Part, Preprocessing
from engine.errors import InputError
from fnwork.datasets.data_info import DataInfo
from fnwork.datasets.mapped import MappedRows
from fnwork.datasets.settings import DataSettings
from fnwork.datasets.split import split, validation_count


@dataclass(frozen=True)
class Parts:
    """The parts of a data set, as it has them or as a run uses them."""

    train: Part
    validation: Part | None = None
    test: Part | None = None

    def each(self, change: Callable[[Part], Part]) -> "Parts":
        """All of them changed."""
        return Parts(*(part and change(part) for part in (self.train, self.validation, self.test)))


def divided(parts: Parts, settings: DataSettings, seed: int) -> Parts:
    """The parts of a run: the set's own validation part, its test part where that is asked for, or a share of train."""
    if settings.validation == "test":
        _check_tested(parts.test is not None, settings)
        return Parts(parts.train, parts.test)
    if parts.validation is not None:
        return parts
    train_rows, validation_rows = split(parts.train.targets, settings.validation, seed)
    return Parts(only(parts.train, train_rows), only(parts.train, validation_rows), parts.test)


def divided_sizes(train: int, validation: int, test: int, settings: DataSettings) -> tuple[int, int, int]:
    """How many samples the parts of a run have, as `divided` makes them; 0 stands for a part that is not there."""
    if settings.validation == "test":
        _check_tested(test > 0, settings)
        return train, test, 0
    if validation:
        return train, validation, test
    taken = validation_count(train, settings.validation)
    return train - taken, taken, test


def _check_tested(tested: bool, settings: DataSettings) -> None:
    if not tested:
        raise InputError(
            f'data.validation: this {settings.dataset} has no test part; give a fraction such as 0.1 instead of "test"'
        )


def only(part: Part, rows: np.ndarray) -> Part:
    """Some samples of a part; those of a mapped file stay there."""
    inputs = part.inputs.only(rows) if isinstance(part.inputs, MappedRows) else part.inputs[rows]
    return Part(inputs, part.targets[rows])


def data_set(
    settings: DataSettings,
    parts: Parts,
    preprocessing: Preprocessing,
    fingerprint: str,
    notes: tuple[str, ...] = (),
) -> DataSet:
    """A data set of divided parts."""
    return DataSet(
        settings.dataset,
        settings.task,
        parts.train,
        parts.validation,
        parts.test,
        preprocessing.input_shape,
        preprocessing.classes,
        preprocessing,
        fingerprint,
        notes,
    )


def image_info(
    settings: DataSettings, shape: tuple[int, ...], classes: tuple[str, ...], sizes: tuple[int, int, int]
) -> DataInfo:
    """What `data_info(data_set(...))` will say of images that are held in memory."""
    nbytes = sum(sizes) * (math.prod(shape) + np.dtype(np.int32).itemsize)
    return DataInfo(settings.dataset, settings.task, shape, len(classes), classes, *sizes, nbytes)


def fingerprint(*parts: Part | None) -> str:
    """What tells these samples from any others."""
    digest = hashlib.sha256()
    for part in parts:
        if part is not None:
            digest.update(repr(part.inputs.shape).encode())
            digest.update(part.inputs)
            digest.update(part.targets)
    return digest.hexdigest()[:16]
