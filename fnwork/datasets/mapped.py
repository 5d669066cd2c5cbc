"""Rows of a file that is mapped into memory: what is read stays in the system's page cache, not in the process."""

import math
import mmap
import os
import weakref
from pathlib import Path

import numpy as np

# So much is read through one mapping before it is given up: its pages count as the process's memory until then.
_LARGEST_MAPPING = 32 * 2**20


class MappedRows:
    """Some rows, in a given order, of the uint8 array that begins a file; stands for `array[rows]` without holding it.

    The file stays open, so that it can be replaced or deleted meanwhile.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, file: Path | int, shape: tuple[int, ...], rows: np.ndarray):
        """`file` is a path or an open descriptor, `shape` that of one row, `rows` intp."""
        self._descriptor = os.dup(file) if isinstance(file, int) else os.open(file, os.O_RDONLY | _BINARY)
        weakref.finalize(self, os.close, self._descriptor)
        self._rows = rows
        self.shape = (len(rows), *shape)
        self._mapping: np.ndarray | None = None
        self._read = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the list of rows: the pages of the file are the system's."""
        return self._rows.nbytes

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: int | slice | np.ndarray) -> np.ndarray:
        rows = self._rows[key]
        return self._array(np.size(rows))[rows]

    def only(self, rows: np.ndarray) -> "MappedRows":
        """Some of these rows."""
        return MappedRows(self._descriptor, self.shape[1:], self._rows[rows])

    def _array(self, rows: int) -> np.ndarray:
        """The whole array, mapped anew once enough was read; `rows` are going to be read."""
        size = math.prod(self.shape[1:])
        if self._mapping is None or self._read > _LARGEST_MAPPING:
            mapping = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)
            count = len(mapping) // size
            self._mapping = np.frombuffer(mapping, np.uint8, count * size).reshape(count, *self.shape[1:])
            self._read = 0
        self._read += rows * size
        return self._mapping


_BINARY = getattr(os, "O_BINARY", 0)  # Windows
