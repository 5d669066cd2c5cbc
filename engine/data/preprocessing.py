"""How raw inputs become what the network is fed, fitted on the train part alone and stored with the model."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Preprocessing:
    """Everything about the train part that predicting on new inputs needs.

    Images: `channel_mean` and `channel_std`, one a channel, in pixel units (0 to 255). Tables: `columns`, as those who
    made them know them, and `target` with its mean and standard deviation where it is a number. `decimal_comma`: how
    the train file wrote its numbers.
    """

    task: str
    input_shape: tuple[int, ...]
    classes: tuple[str, ...] = ()
    channel_mean: tuple[float, ...] = ()
    channel_std: tuple[float, ...] = ()
    columns: tuple[Any, ...] = ()
    target: str = ""
    target_mean: float = 0.0
    target_std: float = 1.0
    decimal_comma: bool = False

    def pixel_table(self, dtype: np.dtype) -> np.ndarray:
        """Normalised value of every pixel value, (channels, 256)."""
        pixels = np.arange(256, dtype=np.float64)
        mean = np.array(self.channel_mean)[:, None]
        std = np.array(self.channel_std)[:, None]
        return ((pixels - mean) / std).astype(dtype)

    def in_units(self, outputs: np.ndarray) -> np.ndarray:
        """Standardised targets or outputs in the target's own units, float32 of the same shape."""
        return (outputs.astype(np.float64) * self.target_std + self.target_mean).astype(np.float32)
