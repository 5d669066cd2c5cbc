"""Writing IDX files, the format of MNIST and its relatives."""

import gzip
import struct
from pathlib import Path

import numpy as np


def write(path: Path, array: np.ndarray) -> None:
    """Write unsigned bytes as a gzip file; no name and no time go into it, so that it depends on the data alone."""
    header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(header + array.tobytes())
