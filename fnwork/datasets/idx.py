"""IDX files, the format of MNIST and its relatives: a header of big-endian sizes, then unsigned bytes."""

import contextlib
import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from engine.errors import InputError

_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTE = 8
# Deflate cannot make data more than about 1,032 times smaller: a header that promises more than that is wrong, and is
# refused before memory is taken for it.
_MOST_COMPRESSION = 1040


def read(path: Path, dimensions: int) -> np.ndarray:
    """Read an IDX file, plain or gzip, as uint8 with `dimensions` axes; InputError says what is wrong with it."""
    with _opened(path) as file:
        shape = _header(path, file, dimensions)
        size = math.prod(shape)
        packed = path.stat().st_size
        if size > packed * (_MOST_COMPRESSION if isinstance(file, gzip.GzipFile) else 1):
            raise InputError(f"{path}: truncated: its header promises {size:,} bytes, the file has {packed:,}")
        array = np.empty(size, np.uint8)
        got = _fill(file, memoryview(array))
        if got < size:
            raise InputError(f"{path}: truncated: its header promises {size:,} bytes of data, {got:,} are there")
        if file.read(1):
            raise InputError(f"{path}: data goes on after the {size:,} bytes that its header promises")
    return array.reshape(shape)


def read_shape(path: Path, dimensions: int) -> tuple[int, ...]:
    """The sizes in an IDX file's header, without reading its data; InputError as for `read`."""
    with _opened(path) as file:
        return _header(path, file, dimensions)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file, unpacked if it is gzip whatever its name says; every reading error becomes an InputError."""
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            yield gzip.GzipFile(fileobj=raw) if is_packed else raw
    except EOFError:
        raise InputError(f"{path}: truncated: the compressed data stops before its end") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged gzip data: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _header(path: Path, file: BinaryIO, dimensions: int) -> tuple[int, ...]:
    head = file.read(4 + 4 * dimensions)
    if len(head) < 4:
        raise InputError(f"{path}: not an IDX file: it has only {len(head)} bytes")
    expected = bytes([0, 0, _UNSIGNED_BYTE, dimensions])
    if head[:4] != expected:
        raise InputError(
            f"{path}: not an IDX file of {'images' if dimensions == 3 else 'labels'}: "
            f"it begins with {head[:4].hex()}, expected {expected.hex()}"
        )
    if len(head) < 4 + 4 * dimensions:
        raise InputError(f"{path}: truncated: the header stops after {len(head)} bytes")
    shape = struct.unpack(f">{dimensions}I", head[4:])
    if 0 in shape:
        raise InputError(f"{path}: empty: its header gives the sizes {' x '.join(map(str, shape))}")
    return shape


def _fill(file: BinaryIO, target: memoryview) -> int:
    filled = 0
    # Pieces, because a gzip reader takes memory for as much as it is asked for.
    while piece := file.readinto(target[filled : filled + (1 << 20)]):
        filled += piece
    return filled
