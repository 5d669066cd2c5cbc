"""The data sets this version reads, by the name that `data.dataset` gives."""

import functools
from pathlib import Path

from engine.data import DataInfo, DataSet, augment
from engine.errors import InputError, nearest
from fnwork.datasets import image_set, table_set
from fnwork.datasets.settings import DataSettings

DATASETS = (*image_set.CLASSES, "csv")
_LATER = ("cifar10", "image-folder", "npz", "text")


def load(settings: DataSettings, seed: int) -> DataSet:
    """Read a data set and take its validation part; InputError says what is wrong with the settings or the files."""
    _check(settings)
    return table_set.load(settings, seed) if settings.dataset == "csv" else image_set.load(settings, seed)


def info(settings: DataSettings, seed: int = 0) -> DataInfo:
    """Shapes and sizes of a data set, without its images; kept until one of its files changes.

    The seed matters to tables alone: which columns vary depends on which rows are trained on.
    """
    _check(settings)
    if settings.dataset == "csv":
        return _table_info(settings, seed, _stamps((Path(settings.path),)))
    return _image_info(settings, _stamps(image_set.files(settings)))


def _check(settings: DataSettings) -> None:
    if settings.dataset not in DATASETS:
        there = f"this one reads {', '.join(DATASETS)}"
        if settings.dataset in _LATER:
            raise InputError(f'data.dataset: "{settings.dataset}" comes with a later version; {there}')
        hint = nearest(settings.dataset, DATASETS, ' (is it "{}"?)')
        raise InputError(f'data.dataset: there is no "{settings.dataset}"{hint}; {there}')
    if settings.dataset == "fashion-mini" and settings.path:
        raise InputError(f"data.path: {settings.dataset} comes with this program; it has no path")
    if settings.task not in ("classification", "regression"):
        raise InputError(f'data.task: expected "classification" or "regression", got "{settings.task}"')
    if settings.dataset == "csv":
        if settings.augment:
            raise InputError("data.augment: it works on images; a CSV file is a table")
    else:
        if settings.task != "classification":
            raise InputError(f'data.task: "{settings.dataset}" has classes, so its task is "classification"')
        augment.parse(settings.augment)


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[str, int, int], ...]:
    """What changes when a file does; a file that is not there is left to its reader to complain about."""
    found = ((file, file.stat()) for file in files if file.is_file())
    return tuple((str(file), stat.st_mtime_ns, stat.st_size) for file, stat in found)


@functools.lru_cache(maxsize=16)
def _image_info(settings: DataSettings, stamps: tuple) -> DataInfo:
    return image_set.info(settings)


@functools.lru_cache(maxsize=16)
def _table_info(settings: DataSettings, seed: int, stamps: tuple) -> DataInfo:
    return table_set.load(settings, seed).info()
