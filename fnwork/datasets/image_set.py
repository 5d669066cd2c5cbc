"""Image sets in the four IDX files of MNIST: Fashion-MNIST, MNIST, and the bundled fashion-mini."""

from pathlib import Path

import numpy as np

from engine.data import DataSet, Part
from engine.errors import InputError
from fnwork.datasets import cache, idx
from fnwork.datasets.data_info import DataInfo
from fnwork.datasets.divide import Parts, data_set, divided, divided_sizes, fingerprint, image_info
from fnwork.datasets.pixels import fit_images
from fnwork.datasets.settings import DataSettings, Progress, silent

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
    names = [f"{part}-{kind}" for part in ("train", "t10k") for kind in (IMAGES, LABELS)]
    places = _places(settings)
    for place in places:
        found = [_file(place, name) for name in names]
        if all(found):
            return tuple(found)
    if settings.path:
        if not places[0].is_dir():
            raise InputError(f"data.path: {places[0]} is not a folder; {_how_to_get(settings)}")
        missing = names[found.index(None)]
        raise InputError(f"data.path: {places[0]} holds neither {missing} nor {missing}.gz; {_how_to_get(settings)}")
    raise InputError(
        f"data.path: {settings.dataset} is not there; {_how_to_get(settings)}, or name the folder with its "
        f"four IDX files ({', '.join(names)}, plain or .gz); looked in {' and '.join(map(str, places))}"
    )


def load(settings: DataSettings, seed: int, progress: Progress = silent) -> DataSet:
    """Read all images; InputError names the file that is at fault."""
    train_images, train_labels, test_images, test_labels = files(settings)
    classes = CLASSES[settings.dataset]
    train = _read_part(train_images, train_labels, classes)
    test = _read_part(test_images, test_labels, classes)
    _check_same_size(test_images, test.inputs.shape, train.inputs.shape)
    used = divided(Parts(train, test=test), settings, seed)
    return data_set(settings, used, fit_images(used.train.inputs, classes), fingerprint(train, test))


def info(settings: DataSettings, seed: int = 0) -> DataInfo:
    """Shapes and sizes from the files' headers alone."""
    train_images, train_labels, test_images, test_labels = files(settings)
    train_shape = _shape(train_images, train_labels)
    test_shape = _shape(test_images, test_labels)
    _check_same_size(test_images, test_shape, train_shape)
    sizes = divided_sizes(train_shape[0], 0, test_shape[0], settings)
    return image_info(settings, (*train_shape[1:], 1), CLASSES[settings.dataset], sizes)


def _places(settings: DataSettings) -> list[Path]:
    if settings.dataset == "fashion-mini":
        return [BUNDLED]
    if settings.path:
        return [Path(settings.path)]
    downloaded = cache.downloaded(settings.dataset)
    return [downloaded, DEBIAN_FASHION_MNIST] if settings.dataset == "fashion-mnist" else [downloaded]


def _file(folder: Path, name: str) -> Path | None:
    # Some copies of MNIST write train-images.idx3-ubyte.
    names = (name, f"{name}.gz", name.replace("-idx", ".idx"), f"{name.replace('-idx', '.idx')}.gz")
    return next((folder / candidate for candidate in names if (folder / candidate).is_file()), None)


def _how_to_get(settings: DataSettings) -> str:
    named = "; without data.path, it is looked for where that puts it" if settings.path else ""
    return f"`fnwork data get {settings.dataset}` downloads it{named}"


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
