"""What an exact resume needs of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class State:
    """Arrays by name, and JSON-able values."""

    arrays: Mapping[str, np.ndarray]
    values: Mapping[str, Any]


def trained(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of a checkpoint's arrays the trained model by name: its weights, averaged where they are, and its statistics."""
    found: dict[str, np.ndarray] = {}
    for prefix in ("model.", "average."):
        found |= {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return found
