"""Make the bundled fashion-mini set from the whole of Fashion-MNIST (Debian package dataset-fashion-mnist).

    python scripts/make_fashion_mini.py [SOURCE FOLDER]

600 training and 100 test images of every class, drawn with a fixed seed; the same source always gives the same files.
"""

import gzip
import struct
import sys
from pathlib import Path

import numpy as np

from fnwork.datasets import idx

SOURCE = Path("/usr/share/datasets/fashion-mnist")
TARGET = Path(__file__).parent.parent / "fnwork" / "datasets" / "bundled"
CLASSES = 10
SEED = 2017


def chosen(labels: np.ndarray, each: int, random: np.random.Generator) -> np.ndarray:
    """Positions of `each` samples of every class, in the order of the source."""
    rows = [random.choice(np.flatnonzero(labels == label), each, replace=False) for label in range(CLASSES)]
    return np.sort(np.concatenate(rows))


def write(path: Path, array: np.ndarray) -> None:
    """Write an IDX file; no name and no time go into the gzip header, so that the bytes depend on the data alone."""
    header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(header + array.tobytes())


def make(source: Path, target: Path) -> None:
    """Write the four files of the set."""
    random = np.random.Generator(np.random.Philox(SEED))
    for part, each in (("train", 600), ("t10k", 100)):
        images = idx.read(source / f"{part}-images-idx3-ubyte.gz", 3)
        labels = idx.read(source / f"{part}-labels-idx1-ubyte.gz", 1)
        rows = chosen(labels, each, random)
        write(target / f"{part}-images-idx3-ubyte.gz", images[rows])
        write(target / f"{part}-labels-idx1-ubyte.gz", labels[rows])


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE, TARGET)
