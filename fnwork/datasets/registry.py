"""Reading the data set that a spec names."""

import functools
import importlib
from pathlib import Path
from types import ModuleType

from engine.data import DataSet
from engine.errors import InputError, nearest
from fnwork import augmentation
from fnwork.datasets.data_info import DataInfo
from fnwork.datasets.kinds import KINDS, faults
from fnwork.datasets.settings import DataSettings, Progress, silent

DATASETS = tuple(KINDS)


def load(settings: DataSettings, seed: int, progress: Progress = silent) -> DataSet:
    """Read a data set and take its validation part; InputError says what is wrong with the settings or the files."""
    data = _reader(settings).load(settings, seed, progress)
    _check_augment(settings, data.input_shape)
    return data


def info(settings: DataSettings, seed: int = 0) -> DataInfo:
    """Shapes and sizes of a data set, without its samples where that is possible; kept until one of its files changes.

    The seed matters to tables alone: which columns vary depends on which rows are trained on.
    """
    reader = _reader(settings)
    if hasattr(reader, "files"):
        found = _kept_info(settings, seed, _stamps(reader.files(settings)))
    else:
        found = reader.info(settings, seed)
    _check_augment(settings, found.input_shape)
    return found


def _reader(settings: DataSettings) -> ModuleType:
    """The module that reads this data set.

    It has `load(settings, seed, progress)` and `info(settings, seed)`, and where it pays to keep what `info` found
    also `files(settings)`: the files that it was found in.
    """
    if settings.dataset not in KINDS:
        hint = nearest(settings.dataset, DATASETS, ' (is it "{}"?)')
        there = f"this version reads {', '.join(DATASETS)}"
        raise InputError(f'data.dataset: there is no "{settings.dataset}"{hint}; {there}')
    if settings.task not in ("classification", "regression"):
        raise InputError(f'data.task: expected "classification" or "regression", got "{settings.task}"')
    # A target that is missing is the reader's to explain: it knows the columns there are.
    for (key, *_), _, message in faults(lambda key: getattr(settings, key) or (None if key == "target" else "")):
        raise InputError(f"data.{key}: {message}")
    augmentation.parse(settings.augment)
    return importlib.import_module(f"fnwork.datasets.{KINDS[settings.dataset].module}")


def _check_augment(settings: DataSettings, shape: tuple[int, ...]) -> None:
    if settings.augment and len(shape) != 3:
        raise InputError(f"data.augment: it changes pictures; this {settings.dataset} has none")


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[str, int, int], ...]:
    """What changes when a file does; a file that is not there is left to its reader to complain about."""
    found = ((file, file.stat()) for file in files if file.is_file())
    return tuple((str(file), stat.st_mtime_ns, stat.st_size) for file, stat in found)


@functools.lru_cache(maxsize=16)
def _kept_info(settings: DataSettings, seed: int, stamps: tuple) -> DataInfo:
    return _reader(settings).info(settings, seed)
