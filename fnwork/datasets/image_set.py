"""Image sets in the four IDX files of MNIST: Fashion-MNIST, MNIST, and the bundled fashion-mini."""

import hashlib
from pathlib import Path

import numpy as np

from engine.data import DataInfo, DataSet, Part, fit_images
from engine.errors import InputError
from fnwork.datasets import idx
from fnwork.datasets.settings import DataSettings
from fnwork.datasets.split import split, validation_count

BUNDLED = Path(__file__).parent / "bundled"
DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")

_FASHION = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
CLASSES = {
    "fashion-mini": tuple(_FASHION.split(",")),
    "fashion-mnist": tuple(_FASHION.split(",")),
    "mnist": tuple("0123456789"),
}

IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"


def files(settings: DataSettings) -> tuple[Path, ...]:
    """Train images and labels, test images and labels; InputError says where they were looked for."""
    folder = _folder(settings)
    return tuple(_file(folder, f"{part}-{kind}") for part in ("train", "t10k") for kind in (IMAGES, LABELS))


def load(settings: DataSettings, seed: int) -> DataSet:
    """Read all images; InputError names the file that is at fault."""
    train_images, train_labels, test_images, test_labels = files(settings)
    classes = CLASSES[settings.dataset]
    train = _read_part(train_images, train_labels, classes)
    test = _read_part(test_images, test_labels, classes)
    _check_same_size(test_images, test.inputs.shape, train.inputs.shape)
    fingerprint = _fingerprint(train, test)
    if settings.validation == "test":
        validation, test = test, None
    else:
        places = split(train.targets, settings.validation, seed)
        train, validation = (Part(train.inputs[rows], train.targets[rows]) for rows in places)
    preprocessing = fit_images(train.inputs, classes)
    shape = preprocessing.input_shape
    return DataSet(
        settings.dataset, "classification", train, validation, test, shape, classes, preprocessing, fingerprint
    )


def info(settings: DataSettings) -> DataInfo:
    """Shapes and sizes from the files' headers alone."""
    train_images, train_labels, test_images, test_labels = files(settings)
    train_shape = _shape(train_images, train_labels)
    test_shape = _shape(test_images, test_labels)
    _check_same_size(test_images, test_shape, train_shape)
    (samples, height, width), test_samples = train_shape, test_shape[0]
    if settings.validation == "test":
        validation_samples, test_samples = test_samples, 0
    else:
        validation_samples = validation_count(samples, settings.validation)
        samples -= validation_samples
    classes, parts = CLASSES[settings.dataset], (samples, validation_samples, test_samples)
    nbytes = sum(parts) * (height * width + np.dtype(np.int32).itemsize)
    return DataInfo(settings.dataset, "classification", (height, width, 1), len(classes), classes, *parts, nbytes)


def _folder(settings: DataSettings) -> Path:
    if settings.dataset == "fashion-mini":
        return BUNDLED
    if settings.path:
        return Path(settings.path)
    if settings.dataset == "fashion-mnist" and DEBIAN_FASHION_MNIST.is_dir():
        return DEBIAN_FASHION_MNIST
    looked = ""
    if settings.dataset == "fashion-mnist":
        looked = f"; {DEBIAN_FASHION_MNIST}, where Debian's package dataset-fashion-mnist puts it, is not there either"
    raise InputError(
        f'data.path: dataset "{settings.dataset}" needs the folder with its four IDX files '
        f"(train-{IMAGES}, train-{LABELS}, t10k-{IMAGES}, t10k-{LABELS}, plain or .gz){looked}"
    )


def _file(folder: Path, name: str) -> Path:
    # Some copies of MNIST write train-images.idx3-ubyte.
    names = (name, f"{name}.gz", name.replace("-idx", ".idx"), f"{name.replace('-idx', '.idx')}.gz")
    for candidate in names:
        if (folder / candidate).is_file():
            return folder / candidate
    if not folder.is_dir():
        raise InputError(f"data.path: {folder} is not a folder")
    raise InputError(f"data.path: {folder} holds neither {name} nor {name}.gz")


def _read_part(images: Path, labels: Path, classes: tuple[str, ...]) -> Part:
    _shape(images, labels)
    numbers = idx.read(labels, 1)
    if (wrong := np.flatnonzero(numbers >= len(classes))).size:
        raise InputError(f"{labels}: label {numbers[wrong[0]]} at place {wrong[0]:,}; expected 0 to {len(classes) - 1}")
    return Part(idx.read(images, 3)[..., None], numbers.astype(np.int32))


def _shape(images: Path, labels: Path) -> tuple[int, ...]:
    """Sizes of the images; InputError where the labels are not as many."""
    shape, (count,) = idx.read_shape(images, 3), idx.read_shape(labels, 1)
    if shape[0] != count:
        raise InputError(f"{images} has {shape[0]:,} images, but {labels} has {count:,} labels")
    return shape


def _check_same_size(test_images: Path, test_shape: tuple[int, ...], train_shape: tuple[int, ...]) -> None:
    if test_shape[1:3] != train_shape[1:3]:
        raise InputError(
            f"{test_images}: images of {test_shape[1]} x {test_shape[2]} pixels, "
            f"but those to train on have {train_shape[1]} x {train_shape[2]}"
        )


def _fingerprint(*parts: Part) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part.inputs.shape).encode())
        digest.update(part.inputs)
        digest.update(part.targets)
    return digest.hexdigest()[:16]
