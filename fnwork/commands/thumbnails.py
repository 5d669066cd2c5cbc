"""Pictures in a terminal: two pixels a cell in colour, or shades of characters where there is none."""

from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image
from rich.cells import set_cell_size
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from fnwork.text import harmless

SIDE = 18  # cells
_GAP = 2
_SHADES = " .:-=+*#%@"
_UPPER_HALF = "▀"


def show(images: Sequence[np.ndarray], titles: Sequence[str], console: Console) -> None:
    """Print images, uint8 (height, width, channels), with their titles below, as many in a row as there is room for."""
    in_colour = console.is_terminal and not console.no_color and console.color_system and _can_print(console)
    small = [_scaled(image) for image in images]
    each = max(1, (console.width + _GAP) // (SIDE + _GAP))
    for begin in range(0, len(small), each):
        row = small[begin : begin + each]
        for line in _coloured(row) if in_colour else _shaded(row):
            console.print(line, markup=False, highlight=False, no_wrap=True, overflow="crop")
        below = (set_cell_size(harmless(title), SIDE) for title in titles[begin : begin + each])
        console.print((" " * _GAP).join(below).rstrip(), markup=False, highlight=False, no_wrap=True, overflow="crop")


def _can_print(console: Console) -> bool:
    try:
        _UPPER_HALF.encode(console.encoding)
    except UnicodeEncodeError:
        return False
    return True


def _scaled(image: np.ndarray) -> np.ndarray:
    """uint8 (rows, SIDE, 3): a row for every half of a cell, an even number of them."""
    height, width, channels = image.shape
    picture = Image.fromarray(image[..., 0] if channels < 3 else image[..., :3]).convert("RGB")
    scale = SIDE / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    pixels = np.zeros((size[1], SIDE, 3), np.uint8)
    pixels[:, : size[0]] = picture.resize(size, Image.Resampling.BOX)
    return np.pad(pixels, ((0, size[1] % 2), (0, 0), (0, 0)), mode="edge")


def _rows(images: list[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Pairs of pixel rows (2, SIDE, 3) of every image, from the top; a lower image is black below."""
    for begin in range(0, max(len(image) for image in images), 2):
        empty = np.zeros((2, SIDE, 3), np.uint8)
        yield [image[begin : begin + 2] if begin < len(image) else empty for image in images]


def _coloured(images: list[np.ndarray]) -> Iterator[Text]:
    for pairs in _rows(images):
        line = Text()
        for upper, lower in pairs:
            for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
                line.append(_UPPER_HALF, Style(color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below)))
            line.append(" " * _GAP)
        yield line


def _shaded(images: list[np.ndarray]) -> Iterator[str]:
    for pairs in _rows(images):
        light = [pair.mean(axis=(0, 2)) * (len(_SHADES) - 1) / 255 for pair in pairs]
        yield (" " * _GAP).join("".join(_SHADES[round(value)] for value in row) for row in light).rstrip()
