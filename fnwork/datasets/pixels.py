"""How the pixels of images are normalised: by the train part alone."""

import numpy as np

from engine.data import Preprocessing

_PIECE_PIXELS = 1 << 18


def fit_images(train_images: np.ndarray, classes: tuple[str, ...]) -> Preprocessing:
    """Mean and standard deviation of every channel of the train images (samples, height, width, channels), uint8."""
    height, width, channels = train_images.shape[1:]
    counts = np.zeros((channels, 256), np.int64)
    step = max(1, _PIECE_PIXELS // (height * width))
    for begin in range(0, len(train_images), step):
        # A histogram is exact and needs no float copy of the images; in pieces, because bincount widens its input.
        piece = train_images[begin : begin + step]
        for channel in range(channels):
            counts[channel] += np.bincount(piece[..., channel].ravel(), minlength=256)
    pixels = np.arange(256)
    total = counts.sum(axis=1)
    mean = counts @ pixels / total
    std = np.sqrt((counts * (pixels - mean[:, None]) ** 2).sum(axis=1) / total)
    std[std == 0] = 1.0  # a channel of one colour has nothing to scale
    statistics = {"channel_mean": tuple(mean.tolist()), "channel_std": tuple(std.tolist())}
    return Preprocessing("classification", train_images.shape[1:], classes, **statistics)
