"""Augmentation of train images, on bytes and for many at once: crops, mirror images, colour jitter, cutout, mixup.

All draws of an epoch are made when it begins, so what a sample gets depends on its place in the epoch, not on batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from engine.data import draws
from engine.errors import InputError

_LUMINANCE = np.array((0.299, 0.587, 0.114), np.float32)  # of red, green and blue (ITU-R BT.601)
WHOLE = 256  # an image's share in a mixture with another one is counted in 1/256


@dataclass(frozen=True)
class Augmentation:
    """What is done to train images, in this order; 0 or "" for what is not done.

    crop: pixels that the image may move in each direction, mirrored at its border where room is left.
    flip: "random", a mirror image half of the time; "alternating", in every second epoch (Jordan 2024).
    jitter: brightness, contrast and saturation change by factors within 1 +- jitter.
    cutout: side in pixels of a square of the mean colour, its centre anywhere (DeVries and Taylor 2017).
    mixup: a second image is blended in, its share from Beta(mixup, mixup) (Zhang et al. 2018).
    """

    crop: int = 0
    flip: str = ""
    jitter: float = 0.0
    cutout: int = 0
    mixup: float = 0.0

    def __bool__(self) -> bool:
        return self != NOTHING

    def check(self, shape: Sequence[int]) -> None:
        """InputError where images of this shape would be lost from sight."""
        for name in ("crop", "cutout"):
            if getattr(self, name) >= min(shape[:2]):
                size = f"{shape[0]} x {shape[1]} pixels"
                raise InputError(f'data.augment: "{name}:{getattr(self, name)}" puts images of {size} out of sight')

    def draw(self, seed: int, epoch: int, order: np.ndarray, shape: Sequence[int]) -> "Draws":
        """The draws of an epoch in which the samples come in `order`, for images of `shape`."""
        random, samples = draws.generator(seed, draws.AUGMENT, epoch), len(order)
        shift = random.integers(-self.crop, self.crop + 1, (samples, 2), np.int16)
        flip = random.integers(0, 2 if self.flip else 1, samples, np.uint8)
        if self.flip == "alternating":
            flip = draws.generator(seed, draws.FLIP).integers(0, 2, samples, np.uint8)[order] ^ epoch % 2
        factors = random.uniform(1.0 - self.jitter, 1.0 + self.jitter, (samples, 3)).astype(np.float32)
        hole = random.integers(0, shape[:2], (samples, 2), np.int16)
        partner = random.permutation(samples)
        share = random.beta(self.mixup, self.mixup, samples) if self.mixup else np.ones(samples)
        return Draws(shift, flip.astype(bool), factors, hole, partner, np.rint(share * WHOLE).astype(np.uint16))

    def apply(self, images: np.ndarray, drawn: "Draws", colour: np.ndarray) -> np.ndarray:
        """Images (samples, height, width, channels), uint8, with what was drawn for each; `colour` fills the holes."""
        samples, height, width, channels = images.shape
        down = _mirrored(np.arange(height) + drawn.shift[:, :1], height)
        right = _mirrored(np.arange(width) + drawn.shift[:, 1:], width)
        right = np.where(drawn.flip[:, None], right[:, ::-1], right)
        rows = (np.arange(samples)[:, None] * height + down) * width
        pixels = np.take(images.reshape(-1, channels), rows[:, :, None] + right[:, None, :], axis=0)
        if self.jitter:
            pixels = _jittered(pixels, drawn.factors)
        if self.cutout:
            first = drawn.hole - self.cutout // 2
            cut = [np.arange(side) - first[:, axis : axis + 1] for axis, side in enumerate((height, width))]
            inside = [(place >= 0) & (place < self.cutout) for place in cut]
            pixels[inside[0][:, :, None] & inside[1][:, None, :]] = colour
        return pixels

    def mix(self, pixels: np.ndarray, others: np.ndarray, share: np.ndarray) -> np.ndarray:
        """pixels * share + others * (1 - share), uint8; share in 1/256, uint16."""
        share = share[:, None, None, None]
        return ((pixels * share + others * (WHOLE - share) + WHOLE // 2) // WHOLE).astype(np.uint8)


NOTHING = Augmentation()


@dataclass(frozen=True)
class Draws:
    """What happens to each sample, by its place in the epoch.

    shift: pixels down and right (samples, 2); flip (samples,); factors of brightness, contrast and saturation
    (samples, 3); hole: the centre of the cut-out square (samples, 2); partner: the place of the sample that is mixed
    in, and share: what is kept of this one, in 1/256.
    """

    shift: np.ndarray
    flip: np.ndarray
    factors: np.ndarray
    hole: np.ndarray
    partner: np.ndarray
    share: np.ndarray

    @property
    def weight(self) -> np.ndarray:
        """What is kept of each sample, float32."""
        return self.share.astype(np.float32) / WHOLE

    def at(self, places: np.ndarray) -> "Draws":
        """What happens to the samples at some places."""
        return Draws(*(getattr(self, field.name)[places] for field in fields(self)))


def _mirrored(places: np.ndarray, side: int) -> np.ndarray:
    """Places beyond a side of pixels, reflected into it at its first and last pixel."""
    return side - 1 - np.abs(side - 1 - np.abs(places))


def _jittered(pixels: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Pixels times the first factor, their distance from the image's mean times the second, from gray the third."""
    brightness, contrast, saturation = factors.T[:, :, None, None, None]
    values = pixels * brightness
    values += (contrast - 1.0) * (values - values.mean(axis=(1, 2, 3), keepdims=True))
    if pixels.shape[3] == len(_LUMINANCE):
        values += (saturation - 1.0) * (values - (values @ _LUMINANCE)[..., None])
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)
