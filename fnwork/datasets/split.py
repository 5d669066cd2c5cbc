"""Taking the validation part from the train part."""

import numpy as np

from engine.data import draws
from engine.errors import InputError


def validation_count(samples: int, fraction: float) -> int:
    """How many of `samples` become the validation part; InputError where nothing would be left on one side."""
    count = round(samples * fraction) if 0 < fraction < 1 else 0
    if not 0 < count < samples:
        raise InputError(
            f"data.validation: {fraction:g} leaves no samples to train or to validate on ({samples} in all)"
        )
    return count


def split(targets: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the train and of the validation samples, each in ascending order.

    Class numbers (integer targets) keep their shares in both parts, to within one sample a class.
    """
    samples = len(targets)
    count = validation_count(samples, fraction)
    order = draws.generator(seed, draws.SPLIT).permutation(samples)
    if targets.dtype.kind == "i":
        order = order[_spread(targets[order])]
    return np.sort(order[count:]), np.sort(order[:count])


def _spread(labels: np.ndarray) -> np.ndarray:
    """An order in which every beginning holds the classes in their shares: the k-th of n samples of a class goes to
    the place (k + 1/2) / n of the way."""
    by_class = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    begins = np.cumsum(sizes) - sizes
    sorted_labels = labels[by_class]
    place = (np.arange(len(labels)) - begins[sorted_labels] + 0.5) / sizes[sorted_labels]
    return by_class[np.argsort(place, kind="stable")]
