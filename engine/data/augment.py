"""Augmentation of train images: random crops of the padded image, and mirror images."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.data import draws
from engine.errors import InputError


@dataclass(frozen=True)
class Augmentation:
    """`padding`: pixels added on every side before a random crop to the old size, or 0. `flip`: mirror images."""

    padding: int = 0
    flip: bool = False

    def __bool__(self) -> bool:
        return self.padding > 0 or self.flip

    def check(self, shape: Sequence[int]) -> None:
        """InputError where crops would lose sight of images of this shape."""
        if self.padding >= min(shape[:2]):
            raise InputError(
                f'data.augment: "crop:{self.padding}" moves images of {shape[0]} x {shape[1]} pixels out of sight'
            )


def parse(names: Sequence[str]) -> Augmentation:
    """Read `data.augment`, a list of "crop:N" and "flip"; InputError on anything else."""
    padding, flip = 0, False
    for name in names:
        kind, _, number = name.partition(":")
        if kind == "crop" and re.fullmatch("[1-9][0-9]{0,3}", number):
            padding = int(number)
        elif name == "flip":
            flip = True
        else:
            raise InputError(f'data.augment: expected "crop:N" (N pixels, at least 1) or "flip", got "{name}"')
    return Augmentation(padding, flip)


@dataclass(frozen=True)
class Draws:
    """What happens to each sample of one epoch, in the order of the epoch: `shift` int16 (samples, 2) down and right
    into the image, `flip` bool (samples,)."""

    shift: np.ndarray
    flip: np.ndarray


def draw(augmentation: Augmentation, seed: int, epoch: int, samples: int) -> Draws:
    """Draw a whole epoch at once: what a sample gets depends on its place in the epoch, not on the batch size."""
    random = draws.generator(seed, draws.AUGMENT, epoch)
    padding = augmentation.padding
    shift = random.integers(-padding, padding + 1, size=(samples, 2), dtype=np.int16)
    flip = np.zeros(samples, bool)
    if augmentation.flip:
        flip = random.integers(0, 2, size=samples, dtype=np.uint8).view(bool)
    return Draws(shift, flip)


def shifted(length: int, shift: int) -> tuple[slice, slice]:
    """Which part of a side of `length` pixels goes where when the crop begins `shift` pixels into it: (to, from)."""
    return slice(max(0, -shift), length - max(0, shift)), slice(max(0, shift), length + min(0, shift))
