"""Values to learn: standardised by those of the train part, so that their mean is 0 and their deviation 1."""

import numpy as np

from engine.errors import InputError


def fit(train_values: np.ndarray, name: str) -> tuple[float, float]:
    """Mean and standard deviation; InputError where there is nothing to learn."""
    mean, std = float(train_values.mean()), float(train_values.std())
    if np.ptp(train_values) == 0 or std == 0:
        raise InputError(f"{name} has the same value in every train row")
    return mean, std


def scaled(values: np.ndarray, mean: float, std: float, name: str) -> np.ndarray:
    """Standardised values, float32."""
    with np.errstate(over="ignore"):
        result = ((values - mean) / std).astype(np.float32)
    if not np.isfinite(result).all():
        raise InputError(f"{name} has values too far apart to be scaled")
    return result
