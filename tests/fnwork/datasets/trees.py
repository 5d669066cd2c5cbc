"""Folders of small pictures."""

from pathlib import Path

import numpy as np
from PIL import Image


def picture(path: Path, colour: tuple[int, int, int] = (200, 10, 20), size: tuple[int, int] = (12, 10)) -> Path:
    """A picture of one colour, in folders that are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def classes(folder: Path, **counts: int) -> Path:
    """A folder of class folders with so many pictures each: c0.png, c1.png, ... of different greys."""
    for number, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for place in range(count):
            picture(folder / name / f"c{place}.png", (40 * number + 5, place % 256, 7))
    return folder


def pixels(part) -> np.ndarray:
    """All inputs of a part."""
    return np.asarray(part.inputs[:])
