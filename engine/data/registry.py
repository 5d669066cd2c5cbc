"""The data sets this version reads, by the name that `data.dataset` gives."""

import hashlib
from pathlib import Path

import numpy as np

from engine.data import idx, split
from engine.data.dataset import DataInfo, DataSet, DataSettings, Part
from engine.data.preprocessing import fit_images

BUNDLED = Path(__file__).parent / "bundled"
DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
CLASSES = {"fashion-mini": FASHION_CLASSES, "fashion-mnist": FASHION_CLASSES, "mnist": tuple("0123456789")}
DATASETS = ("fashion-mini", "mnist", "fashion-mnist", "csv")


def load(settings: DataSettings, seed: int) -> DataSet:
    """Read a data set and take its validation part; InputError says what is wrong with the settings or the files."""
    return _load_idx(settings, seed)


def info(settings: DataSettings) -> DataInfo:
    """Shapes and sizes of a data set."""
    data = load(settings, 0)
    return DataInfo(
        data.name,
        data.task,
        data.input_shape,
        data.outputs,
        data.classes,
        len(data.train),
        len(data.validation),
        len(data.test) if data.test else 0,
        data.nbytes,
    )


def _load_idx(settings: DataSettings, seed: int) -> DataSet:
    folder = BUNDLED
    images = idx.read(folder / "train-images-idx3-ubyte.gz", 3)[..., None]
    labels = idx.read(folder / "train-labels-idx1-ubyte.gz", 1).astype(np.int32)
    test = Part(
        idx.read(folder / "t10k-images-idx3-ubyte.gz", 3)[..., None],
        idx.read(folder / "t10k-labels-idx1-ubyte.gz", 1).astype(np.int32),
    )
    classes = CLASSES["fashion-mini"]
    fingerprint = hashlib.sha256(images.tobytes()).hexdigest()[:16]
    if settings.validation == "test":
        train, validation, test = Part(images, labels), test, None
    else:
        rows, held_out = split.split(labels, settings.validation, seed)
        train, validation = Part(images[rows], labels[rows]), Part(images[held_out], labels[held_out])
    return DataSet(
        settings.dataset,
        "classification",
        train,
        validation,
        test,
        images.shape[1:],
        classes,
        fit_images(train.inputs, classes),
        fingerprint,
    )
