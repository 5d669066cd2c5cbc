"""One picture as pixels: any size and mode that Pillow reads, upright, opaque, cut to proportions and scaled."""

import functools
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from engine.errors import InputError
from fnwork.files import reason
from fnwork.text import harmless

# Not pictures, or read by starting another program.
_NOT_READ = frozenset({"EPS", "BUFR", "GRIB", "HDF5", "MPEG", "WMF"})


@functools.cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in Image.OPEN if name not in _NOT_READ)


@functools.cache
def suffixes() -> frozenset[str]:
    """Endings of the names of picture files, in lower case: ".jpg"."""
    return frozenset(suffix for suffix, name in Image.registered_extensions().items() if name in _formats())


@contextmanager
def quiet() -> Iterator[None]:
    """Without Pillow's warnings about files that it reads all the same. For the whole process, so it is for those who
    start reading, not for `read`, which runs in many threads."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        yield


def read(file: Path, height: int, width: int, channels: int) -> np.ndarray:
    """A picture as uint8 (height, width, channels), channels 1 or 3; InputError says why it cannot be read.

    It is turned upright as its EXIF data say, laid on white where it is transparent, cut to the proportions of the
    result about its centre, and scaled with every pixel counted.
    """
    try:
        with Image.open(file, formats=_formats()) as picture:
            picture.draft(None, (2 * width, 2 * height))  # a large JPEG is unpacked no finer than that
            colours = _opaque(_upright(picture)).convert("L" if channels == 1 else "RGB")
        fitted = ImageOps.fit(colours, (width, height), Image.Resampling.BILINEAR)
        return np.asarray(fitted).reshape(height, width, channels)
    except Exception as error:  # Pillow's readers raise whatever a broken file leads them to
        raise InputError(_why(error)) from None


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a folder; expected a picture"
    if isinstance(error, UnidentifiedImageError):
        return "not a picture of any kind that is known"
    said = reason(error) if isinstance(error, OSError) else str(error) or type(error).__name__
    return f"not a picture that can be read: {harmless(said)}"


def _upright(picture: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(picture)
    except (ValueError, SyntaxError, TypeError, KeyError, struct.error):  # broken EXIF data in a whole picture
        return picture


def _opaque(picture: Image.Image) -> Image.Image:
    """The picture on white where it is transparent, and 16 or 32 bits a pixel brought down to 8."""
    if picture.mode.startswith("I") or picture.mode == "F":
        values = np.nan_to_num(np.asarray(picture, np.float64))
        largest = values.max()
        if picture.mode.startswith("I;16") or largest > 255:
            values = values / 257
        elif picture.mode == "F" and largest <= 1:
            values = values * 255
        return Image.fromarray(np.clip(values.round(), 0, 255).astype(np.uint8))
    if picture.has_transparency_data:
        layered = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered)
    return picture
