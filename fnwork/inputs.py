"""New inputs for a trained model, read from files: pictures of any kind, and tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from engine.data import Preprocessing
from engine.errors import InputError
from fnwork.datasets import csv_file, table_set
from fnwork.files import reason
from fnwork.text import harmless


@dataclass(frozen=True)
class Inputs:
    """`values` as a data set's part holds them, a name for each of them, and sentences about what was done to them."""

    values: np.ndarray
    names: tuple[str, ...]
    notes: tuple[str, ...]
    faults: tuple[str, ...] = ()


def read(files: Sequence[Path], preprocessing: Preprocessing) -> Inputs:
    """The inputs of all files that can be read: one a picture, one a row of a table; `faults` names the other files.

    InputError where none can be read.
    """
    parts, faults = [], []
    for file in files:
        try:
            parts.append((_read_table if preprocessing.columns else _read_image)(file, preprocessing))
        except InputError as error:
            faults.append(str(error))
    if not parts:
        raise InputError("\n".join(faults))
    return Inputs(
        np.concatenate([part.values for part in parts]),
        tuple(name for part in parts for name in part.names),
        tuple(note for part in parts for note in part.notes),
        tuple(faults),
    )


def _read_table(file: Path, preprocessing: Preprocessing) -> Inputs:
    if file.suffix.lower() not in (".csv", ".tsv", ".txt"):
        raise InputError(f"{harmless(file)}: the model was trained on a table, so a .csv file is expected")
    table = csv_file.read(file)
    values, notes = table_set.features(preprocessing, table)
    return Inputs(values, tuple(f"{file}:{line}" for line in table.lines), tuple(f"{file}: {note}" for note in notes))


def _read_image(file: Path, preprocessing: Preprocessing) -> Inputs:
    height, width, channels = preprocessing.input_shape
    try:
        with Image.open(file) as picture:
            upright = _opaque(ImageOps.exif_transpose(picture))
            shape = (upright.height, upright.width)
            converted = upright.convert("L" if channels == 1 else "RGB")
            pixels = np.asarray(
                converted.resize((width, height), Image.Resampling.BOX if shape > (height, width) else 3)
            )
    except FileNotFoundError:
        raise InputError(f"{harmless(file)}: there is no such file") from None
    except UnidentifiedImageError:
        raise InputError(f"{harmless(file)}: not a picture of any kind that is known") from None
    except IsADirectoryError:
        raise InputError(f"{harmless(file)}: this is a folder; expected a picture") from None
    except OSError as error:
        raise InputError(f"{harmless(file)}: not a picture that can be read: {harmless(reason(error))}") from None
    except (ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{harmless(file)}: not a picture that can be read: {harmless(error)}") from None
    notes = ()
    if shape != (height, width):
        notes = (f"{file}: {shape[1]}x{shape[0]} pixels, scaled to the {width}x{height} that the model was trained on",)
    return Inputs(pixels.reshape(1, height, width, channels), (str(file),), notes)


def _opaque(picture: Image.Image) -> Image.Image:
    """The picture on white where it is transparent, and 16 bits a pixel brought down to 8."""
    if picture.mode.startswith("I") or picture.mode == "F":
        values = np.asarray(picture, np.float64)
        return Image.fromarray(np.clip(values / 257 if values.max() > 255 else values, 0, 255).astype(np.uint8))
    if picture.has_transparency_data:
        layered = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered)
    return picture
