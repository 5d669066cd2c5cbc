"""Which data sets there are, what reads each of them, and what a spec may ask of each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Kind:
    """One value of `data.dataset`.

    `module` reads it. `path`: whether a spec may or must say where it lies. `holds`: pictures are augmented, columns
    are not; where it is "either", the files tell. `numbers`: it can be learnt as a number too. `tested`: it may have
    a test part.
    """

    module: str
    what: str
    path: Literal["bundled", "optional", "needed"] = "optional"
    holds: Literal["pictures", "columns", "either"] = "pictures"
    target: bool = False
    numbers: bool = False
    tested: bool = True


KINDS = {
    "fashion-mini": Kind(
        "image_set", "6,000 train and 1,000 test images of Fashion-MNIST, 28x28; comes with fnwork", path="bundled"
    ),
    "mnist": Kind("image_set", "handwritten digits, 28x28; `fnwork data get mnist`, or IDX files in data.path"),
    "fashion-mnist": Kind(
        "image_set", "all of Fashion-MNIST, 28x28; `fnwork data get fashion-mnist`, or IDX files in data.path"
    ),
    "cifar10": Kind(
        "cifar",
        "pictures of ten kinds of things, 32x32; `fnwork data get cifar10`, or the binary version in data.path",
    ),
    "image-folder": Kind(
        "image_folder",
        "pictures of your own: data.path is a folder with a folder a class, or with train, val, test of such folders",
        path="needed",
    ),
    "csv": Kind(
        "table_set",
        "a table of your own: data.path is the file, data.target its column to predict",
        path="needed",
        holds="columns",
        target=True,
        numbers=True,
        tested=False,
    ),
    "npz": Kind(
        "npz_set",
        "NumPy arrays of your own: data.path is a .npz file with x and y, or x_train, y_train, x_test, y_test",
        path="needed",
        holds="either",
        numbers=True,
    ),
    "text": Kind(
        "text_set",
        "the next character of a text; without data.path, what Python's own documentation says of its topics",
        holds="columns",
        tested=False,
    ),
}

Fault = tuple[tuple[str | int, ...], bool, str]  # the key below [data], whether the key itself is at fault, what it is


def faults(get: Callable[[str], Any]) -> Iterator[Fault]:
    """What a spec asks of its data set that it cannot give; `get` is a key's value, None where that is not known."""
    name = get("dataset")
    kind = KINDS[name]
    if kind.path == "needed" and get("path") == "":
        yield ("path",), True, f'{name} needs path = "...", relative to the spec\'s folder'
    if kind.path == "bundled" and get("path"):
        yield ("path",), True, f"{name} comes with fnwork; it has no path"
    if kind.target and get("target") == "":
        yield ("target",), True, f"{name} needs target = the name of the column to learn"
    if not kind.target and get("target"):
        yield ("target",), True, f"only a csv table has a target column; {name} has none"
    if not kind.numbers and get("task") == "regression":
        yield ("task",), False, f'{name} has classes, not numbers, to learn: expected "classification"'
    if not kind.tested and get("validation") == "test":
        yield ("validation",), False, f"{name} has no test part: expected a fraction above 0 and below 1"
    if kind.holds == "columns":
        for index, augmentation in enumerate(get("augment") or ()):
            yield ("augment", index), False, f'"{augmentation}" changes pictures; {name} has none'
