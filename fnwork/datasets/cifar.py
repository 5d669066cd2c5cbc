"""CIFAR-10 in its own binary format: records of a label and 32 x 32 pixels, plane by plane, in six files."""

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np

from engine.data import DataSet, Part
from engine.errors import InputError
from fnwork.datasets import cache
from fnwork.datasets.data_info import DataInfo
from fnwork.datasets.divide import Parts, data_set, divided, divided_sizes, fingerprint, image_info
from fnwork.datasets.pixels import fit_images
from fnwork.datasets.settings import DataSettings, Progress
from fnwork.files import reason
from fnwork.text import harmless

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = "test_batch.bin"
ARCHIVE = "cifar-10-binary.tar.gz"
SHAPE = (32, 32, 3)

_RECORD = 1 + 32 * 32 * 3
_SUFFIX = "cifar-10-batches-bin"
_PICKLED = ("batches.meta", "data_batch_1", "test_batch")
_AT_ONCE = 1000  # records
_MOST_RECORDS = 1_000_000  # of one file: a size beyond that is damage


def load(settings: DataSettings, seed: int, progress: Progress) -> DataSet:
    """Read all pictures; InputError names the file that is at fault."""
    place = _place(settings)
    done = 0

    def tell() -> None:
        nonlocal done
        progress("reading cifar10", done, len(TRAIN) + 1)
        done += 1

    parts = {}
    with _opened(place) as batches:
        for name, size, file in batches:
            tell()
            parts[name] = _read_batch(f"{place}, {name}", size, file)
    _check_complete(place, parts)
    images, labels = (np.concatenate([getattr(parts[name], key) for name in TRAIN]) for key in ("inputs", "targets"))
    train, test = Part(images, labels), parts[TEST]
    parts.clear()  # or the train part would be held twice while it is divided
    tell()
    used = divided(Parts(train, test=test), settings, seed)
    return data_set(settings, used, fit_images(used.train.inputs, CLASSES), fingerprint(train, test))


def info(settings: DataSettings, seed: int) -> DataInfo:
    """Sizes from those of the files, which an archive tells once it was gone through."""
    place = _place(settings)
    with _opened(place) as batches:
        records = {name: _records(f"{place}, {name}", size) for name, size, _ in batches}
    _check_complete(place, records)
    sizes = divided_sizes(sum(records[name] for name in TRAIN), 0, records[TEST], settings)
    return image_info(settings, SHAPE, CLASSES, sizes)


def files(settings: DataSettings) -> tuple[Path, ...]:
    """The archive, or the six files."""
    place = _place(settings)
    return tuple(place / name for name in (*TRAIN, TEST)) if place.is_dir() else (place,)


def _place(settings: DataSettings) -> Path:
    """The archive or the folder of the files: what is given, what lies in it, or what was downloaded."""
    given = Path(settings.path) if settings.path else cache.downloaded(settings.dataset)
    if given.is_file():
        return given
    for place in (given, given / _SUFFIX):
        if (place / TRAIN[0]).is_file() or (place / TEST).is_file():
            return place
    if (given / ARCHIVE).is_file():
        return given / ARCHIVE
    for place in (given, given / "cifar-10-batches-py"):
        if (place / "batches.meta").is_file() or (place / "data_batch_1").is_file():
            raise _pickled(place)
    if (given / "cifar-10-python.tar.gz").is_file():
        raise _pickled(given / "cifar-10-python.tar.gz")
    if not settings.path:
        raise InputError(
            f"data.path: cifar10 is not there; `fnwork data get cifar10` downloads it, or name the folder with "
            f"{TRAIN[0]} to {TRAIN[-1]} and {TEST}, or the archive {ARCHIVE}; looked in {given}"
        )
    what = "holds neither" if given.is_dir() else "is not there; expected a folder with"
    raise InputError(
        f"data.path: {harmless(given)} {what} {TRAIN[0]} to {TRAIN[-1]} and {TEST}, or the archive {ARCHIVE}"
    )


def _pickled(place: Path) -> InputError:
    return InputError(
        f"data.path: {harmless(place)} is the Python version of CIFAR-10, a pickle: reading one runs whatever code is "
        f"in it, so fnwork does not. Use the binary version, {ARCHIVE}: `fnwork data get cifar10` downloads it"
    )


Batch = tuple[str, int, BinaryIO]  # a file's name, its bytes, and what reads them


@contextmanager
def _opened(place: Path) -> Iterator[Iterator[Batch]]:
    """The files that belong to the data set, one after the other; every reading error becomes an InputError."""
    try:
        if place.is_dir():
            yield _of_folder(place)
        else:
            with (gzip.open if _is_gzip(place) else open)(place, "rb") as unpacked:
                with tarfile.open(fileobj=unpacked, mode="r|") as archive:
                    yield _of_archive(place, archive)
                while unpacked.read(1 << 20):  # at its end the checksum is compared
                    pass
    except tarfile.ReadError as error:
        raise InputError(f"{harmless(place)}: not an archive that can be read: {error}") from None
    except EOFError:
        raise InputError(f"{harmless(place)}: truncated: the compressed data stops before its end") from None
    except (zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise InputError(f"{harmless(place)}: damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{harmless(place)}: cannot be read: {reason(error)}") from None


def _is_gzip(place: Path) -> bool:
    with place.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _of_folder(place: Path) -> Iterator[Batch]:
    for name in (*TRAIN, TEST):
        if (place / name).is_file():
            with (place / name).open("rb") as file:
                yield name, (place / name).stat().st_size, file


def _of_archive(place: Path, archive: tarfile.TarFile) -> Iterator[Batch]:
    for member in archive:
        name = PurePosixPath(member.name).name
        if name in _PICKLED and member.isfile():
            raise _pickled(place)
        if name in (*TRAIN, TEST) and member.isfile():
            yield name, member.size, archive.extractfile(member)


def _check_complete(place: Path, found: dict) -> None:
    if missing := [name for name in (*TRAIN, TEST) if name not in found]:
        raise InputError(f"{harmless(place)}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")


def _records(where: str, size: int) -> int:
    count, rest = divmod(size, _RECORD)
    if rest or not 0 < count <= _MOST_RECORDS:
        raise InputError(f"{harmless(where)}: {size:,} bytes are no whole number of records of {_RECORD:,} bytes")
    return count


def _read_batch(where: str, size: int, file: BinaryIO) -> Part:
    count = _records(where, size)
    images, labels = np.empty((count, *SHAPE), np.uint8), np.empty(count, np.int32)
    for begin in range(0, count, _AT_ONCE):
        wanted = min(_AT_ONCE, count - begin)
        content = file.read(wanted * _RECORD)
        if len(content) < wanted * _RECORD:
            raise InputError(f"{harmless(where)}: truncated: {size:,} bytes are promised, fewer are there")
        records = np.frombuffer(content, np.uint8).reshape(wanted, _RECORD)
        labels[begin : begin + wanted] = records[:, 0]
        images[begin : begin + wanted] = records[:, 1:].reshape(wanted, 3, 32, 32).transpose(0, 2, 3, 1)
    if (wrong := np.flatnonzero(labels >= len(CLASSES))).size:
        raise InputError(
            f"{harmless(where)}: label {labels[wrong[0]]} at place {wrong[0]:,}; expected 0 to {len(CLASSES) - 1}"
        )
    return Part(images, labels)
