"""A folder of pictures as a data set: class folders, in train, val and test or with a part of train split off."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.data import DataSet, Part
from engine.errors import InputError
from fnwork.datasets import picture_cache, picture_tree
from fnwork.datasets.data_info import DataInfo
from fnwork.datasets.divide import Parts, data_set, divided, divided_sizes
from fnwork.datasets.picture_cache import Decoded
from fnwork.datasets.picture_tree import Pictures, Tree
from fnwork.datasets.pixels import fit_images
from fnwork.datasets.settings import DataSettings, Progress
from fnwork.text import first_few, harmless

_SAMPLE_BYTES = np.dtype(np.intp).itemsize + np.dtype(np.int32).itemsize  # its place in the file, and its class
_NAMED = 3


def load(settings: DataSettings, seed: int, progress: Progress) -> DataSet:
    """Decode the pictures where that has not been done; InputError names what in the folder is at fault."""
    tree = _tree(settings)
    decoded = {
        name: picture_cache.decoded(pictures, settings.image_size, progress) for name, pictures in tree.parts.items()
    }
    notes = _check_faults(tree, {name: found.faults for name, found in decoded.items()})
    parts = {name: Part(found.inputs, tree.parts[name].classes[found.kept]) for name, found in decoded.items()}
    used = divided(Parts(**parts), settings, seed)
    preprocessing = fit_images(used.train.inputs, tree.classes)
    fingerprint = _fingerprint(tree, decoded, parts)
    return data_set(settings, used, preprocessing, fingerprint, (*tree.notes, *notes))


def info(settings: DataSettings, seed: int) -> DataInfo:
    """Shapes and sizes from the files' names; what cannot be read is known once the pictures were decoded."""
    tree = _tree(settings)
    faults = {name: picture_cache.known_faults(pictures, settings.image_size) for name, pictures in tree.parts.items()}
    notes = _check_faults(tree, faults)
    counts = {name: len(pictures.files) - len(faults[name]) for name, pictures in tree.parts.items()}
    sizes = divided_sizes(counts["train"], counts.get("validation", 0), counts.get("test", 0), settings)
    shape, outputs = (settings.image_size, settings.image_size, 3), len(tree.classes)
    nbytes = sum(sizes) * _SAMPLE_BYTES
    return DataInfo(
        settings.dataset, "classification", shape, outputs, tree.classes, *sizes, nbytes, (*tree.notes, *notes)
    )


def _tree(settings: DataSettings) -> Tree:
    """The parts that are used, and a note on what comes of a validation part."""
    tree = picture_tree.read(Path(settings.path))
    if "validation" not in tree.parts:
        return tree
    parts, folder = dict(tree.parts), harmless(tree.parts["validation"].folder)
    note = f"{folder} is the validation part; data.validation takes nothing from train"
    if settings.validation == "test":
        del parts["validation"]
        note = f'{folder} is not used: data.validation = "test" validates on the test part'
    return replace(tree, parts=parts, notes=(*tree.notes, note))


def _check_faults(tree: Tree, faults: Mapping[str, Mapping[int, str]]) -> list[str]:
    """A note on every part with pictures that cannot be read; InputError where they were all there is of a class."""
    notes = []
    for name, broken in faults.items():
        pictures = tree.parts[name]
        if broken:
            notes.append(
                f"{harmless(pictures.folder)}: {len(broken):,} of {len(pictures.files):,} pictures cannot be read and "
                f"are left out: {_listed(pictures, broken)}"
            )
    train, broken = tree.parts["train"], faults["train"]
    whole = np.delete(train.classes, [*broken])
    for number in set(range(len(tree.classes))) - set(whole.tolist()):
        raise InputError(
            f'data.path: no picture of the class "{harmless(tree.classes[number])}" can be read: '
            + _listed(train, {place: why for place, why in broken.items() if train.classes[place] == number})
        )
    for name, pictures in tree.parts.items():
        if len(faults[name]) == len(pictures.files):
            raise InputError(f"data.path: {harmless(pictures.folder)} has no picture that can be read")
    return notes


def _listed(pictures: Pictures, broken: Mapping[int, str]) -> str:
    return first_few([f"{harmless(pictures.files[place])} ({why})" for place, why in broken.items()], _NAMED)


def _fingerprint(tree: Tree, decoded: Mapping[str, Decoded], parts: Mapping[str, Part]) -> str:
    """Of what the pictures show and of which class they are, not of when they were written."""
    digest = hashlib.sha256(repr(tree.classes).encode("utf-8", "backslashreplace"))
    for name, found in decoded.items():
        digest.update(f"{name} {found.digest} {found.inputs.shape}".encode())
        digest.update(parts[name].targets)
    return digest.hexdigest()[:16]
