"""Make the bundled fashion-mini set from the whole of Fashion-MNIST (Debian package dataset-fashion-mnist).

    python scripts/make_fashion_mini.py [SOURCE FOLDER]

600 training and 100 test images of every class, drawn with a fixed seed; the same source always gives the same files.
"""

import sys
from pathlib import Path

import numpy as np
from idx_files import write

from fnwork.datasets import idx

SOURCE = Path("/usr/share/datasets/fashion-mnist")
TARGET = Path(__file__).parent.parent / "fnwork" / "datasets" / "bundled"
CLASSES = 10
SEED = 2017


def chosen(labels: np.ndarray, each: int, random: np.random.Generator) -> np.ndarray:
    """Positions of `each` samples of every class, in the order of the source."""
    rows = [random.choice(np.flatnonzero(labels == label), each, replace=False) for label in range(CLASSES)]
    return np.sort(np.concatenate(rows))


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
