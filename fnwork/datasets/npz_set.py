"""NumPy arrays in a .npz file as a data set: images as bytes, or tables of numbers, with classes or values to learn.

The file has x_train and y_train, and may have x_val and y_val, x_test and y_test; or x and y alone.
"""

import dataclasses
import hashlib
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from engine.data import DataSet, Part, Preprocessing
from engine.errors import InputError, nearest
from fnwork.datasets import columns as table_columns
from fnwork.datasets import targets as target_values
from fnwork.datasets.columns import Column
from fnwork.datasets.data_info import DataInfo, data_info
from fnwork.datasets.divide import Parts, data_set, divided
from fnwork.datasets.pixels import fit_images
from fnwork.datasets.settings import DataSettings, Progress, silent
from fnwork.files import reason
from fnwork.text import harmless

MOST_CLASSES = 1000
_ENDS = {"train": "_train", "validation": "_val", "test": "_test"}
_KEYS = tuple(f"{letter}{end}" for end in (*_ENDS.values(), "") for letter in "xy")
_LARGEST = 1e150  # squares of larger numbers overflow
_NOTES = 3
_ONE_ARRAY = b"\x93NUMPY"
_CHANNELS_FIRST = "images are (samples, height, width, channels): np.transpose(x, (0, 2, 3, 1)) moves the channels"


def files(settings: DataSettings) -> tuple[Path, ...]:
    """The one file."""
    return (Path(settings.path),)


def info(settings: DataSettings, seed: int) -> DataInfo:
    """Shapes and sizes, by reading the arrays."""
    return data_info(load(settings, seed))


def load(settings: DataSettings, seed: int, progress: Progress = silent) -> DataSet:
    """Read the file at `settings.path`; InputError names the array, and the row where one is at fault."""
    file = Path(settings.path)
    arrays = read(file)
    ends = _ends(file, arrays)
    inputs = {part: checked_inputs(file, f"x{end}", arrays[f"x{end}"]) for part, end in ends.items()}
    _check_alike(file, inputs)
    if settings.task == "regression":
        classes = ()
        targets = {part: _values(file, f"y{end}", arrays[f"y{end}"]) for part, end in ends.items()}
    else:
        classes, targets = _class_numbers(file, {part: (f"y{end}", arrays[f"y{end}"]) for part, end in ends.items()})
    for part, end in ends.items():
        if len(inputs[part]) != len(targets[part]):
            raise InputError(
                f"{harmless(file)}: x{end} has {len(inputs[part]):,} rows, but y{end} has {len(targets[part]):,}"
            )
    used = divided(Parts(**{part: Part(inputs[part], targets[part]) for part in ends}), settings, seed)
    scaling = {}
    if settings.task == "regression":
        name = f"{harmless(file)}: y"
        mean, std = target_values.fit(used.train.targets, name)
        used = used.each(lambda part: Part(part.inputs, target_values.scaled(part.targets, mean, std, name)))
        scaling = {"task": "regression", "target": "y", "target_mean": mean, "target_std": std}
    is_table = used.train.inputs.ndim == 2
    fitted = _fit_table(file, used.train.inputs, classes) if is_table else fit_images(used.train.inputs, classes)
    preprocessing, notes = dataclasses.replace(fitted, **scaling), dict[str, None]()
    if is_table:
        constant = used.train.inputs.shape[1] - len(preprocessing.columns)
        if constant:
            notes[f"{constant:,} columns of x are the same in every train row, so they are left out"] = None
        used = used.each(lambda part: Part(_features(preprocessing, part.inputs, notes), part.targets))
    return data_set(settings, used, preprocessing, _fingerprint(arrays), tuple(notes))


def read(file: Path, keys: Collection[str] = _KEYS) -> dict[str, np.ndarray]:
    """Those of these arrays that a .npz file has; InputError where it is none, is damaged, or would have to run code
    to be read."""
    where = harmless(file)
    try:
        with file.open("rb") as beginning:
            if beginning.read(len(_ONE_ARRAY)) == _ONE_ARRAY:
                raise InputError(f"{where}: one array, .npy; expected a .npz file: np.savez(file, x=x, y=y)")
        arrays = {}
        with zipfile.ZipFile(file) as archive:
            for key in (key for key in keys if f"{key}.npy" in archive.namelist()):
                where = f"{harmless(file)}: {key}"
                with archive.open(f"{key}.npy") as member:
                    arrays[key] = np.lib.format.read_array(member, allow_pickle=False)
        return arrays
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{where}: cannot be read: {reason(error)}") from None
    except MemoryError:
        raise InputError(f"{where}: larger than this machine's memory") from None
    except Exception as error:  # the readers raise whatever a damaged file leads them to
        if "allow_pickle" in str(error):
            said = " holds Python objects; reading them could run code, so save numbers or texts"
        elif isinstance(error, zipfile.BadZipFile):
            said = ": no .npz file, or a damaged one: np.savez(file, x=x, y=y) writes them"
        else:
            said = f": damaged: {harmless(error)}"
        raise InputError(f"{where}{said}") from None


def features(preprocessing: Preprocessing, values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rows of numbers (samples, columns) as a part would hold them, float32, and notes for their owner; InputError
    where there are fewer columns than the model was trained on."""
    notes = dict[str, None]()
    made = _features(preprocessing, values, notes)
    return made, tuple(notes)


def checked_inputs(file: Path, key: str, array: np.ndarray) -> np.ndarray:
    """Images uint8 (samples, height, width, channels) or numbers (samples, columns); InputError where it is neither."""
    where = f"{harmless(file)}: {key}"
    shape = f"{array.dtype} of shape {array.shape}"
    if 0 in array.shape or array.ndim == 0:
        raise InputError(f"{where} is empty: {shape}")
    if array.ndim in (3, 4):
        if array.dtype != np.uint8:
            example = "np.rint(x * 255).astype(np.uint8)" if array.dtype.kind == "f" else "x.astype(np.uint8)"
            raise InputError(f"{where} is {shape}; images are bytes from 0 to 255, uint8: {example}")
        images = array[..., None] if array.ndim == 3 else array
        if images.shape[3] > 4 and images.shape[1] in (1, 3, 4):
            raise InputError(f"{where} is {shape}; {_CHANNELS_FIRST}")
        return images
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(f"{where} is {shape}; expected images, uint8 of 3 or 4 axes, or numbers, (samples, columns)")
    too_large = np.abs(array) > _LARGEST if array.dtype.itemsize >= 8 else np.isinf(array)
    if too_large.any():
        row, column = np.argwhere(too_large)[0]
        raise InputError(f"{where}, row {row:,}, column {column:,}: {array[row, column]} is no number that can be used")
    return array


def _ends(file: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Which parts the file has, and how the names of their arrays end."""
    ends = {part: end for part, end in _ENDS.items() if f"x{end}" in arrays or f"y{end}" in arrays}
    if {"x", "y"} & set(arrays):
        if ends:
            raise InputError(
                f"{harmless(file)}: has x or y beside {', '.join(sorted(arrays))}: which are to be learnt?"
            )
        ends = {"train": ""}
    if "train" not in ends:
        raise InputError(f"{harmless(file)}: has neither x_train and y_train nor x and y")
    for key in (f"{letter}{end}" for end in ends.values() for letter in "xy"):
        if key not in arrays:
            raise InputError(f"{harmless(file)}: {key} is missing")
    return ends


def _check_alike(file: Path, inputs: Mapping[str, np.ndarray]) -> None:
    train = inputs["train"]
    for part, array in inputs.items():
        if array.shape[1:] != train.shape[1:]:
            raise InputError(
                f"{harmless(file)}: the {part} rows have the shape {array.shape[1:]}, "
                f"but those to train on {train.shape[1:]}"
            )


def _flat(file: Path, key: str, array: np.ndarray) -> np.ndarray:
    """One target a row."""
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim != 1 or not len(flat):
        one_hot = "; of one column a class, np.argmax(y, axis=1) makes class numbers" if array.ndim == 2 else ""
        raise InputError(f"{harmless(file)}: {key} has the shape {array.shape}; expected one target a row{one_hot}")
    return flat


def _values(file: Path, key: str, array: np.ndarray) -> np.ndarray:
    """Values to learn in their own units, float64 (rows, 1)."""
    flat = _flat(file, key, array)
    if flat.dtype.kind not in "fiu":
        raise InputError(f"{harmless(file)}: {key} is {flat.dtype}; a regression learns numbers")
    values = flat.astype(np.float64)
    if len(wrong := np.flatnonzero(~(np.abs(values) <= _LARGEST))):
        raise InputError(
            f"{harmless(file)}: {key}, row {wrong[0]:,}: {values[wrong[0]]} is no number that can be learnt"
        )
    return values[:, None]


def _class_numbers(
    file: Path, arrays: Mapping[str, tuple[str, np.ndarray]]
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Names of the classes in the order of the train part's sorted labels, and each part's class numbers, int32."""
    labels = {part: _flat(file, key, array) for part, (key, array) in arrays.items()}
    known = np.unique(labels["train"])
    for part, (key, _) in arrays.items():
        kind = labels[part].dtype.kind
        if kind not in "iubU" or (kind == "U") != (known.dtype.kind == "U"):
            number = '; for numbers to learn use data.task = "regression"' if kind == "f" else ""
            raise InputError(
                f"{harmless(file)}: {key} is {labels[part].dtype}; expected classes, as whole numbers or as texts in "
                f"every part{number}"
            )
    if not 2 <= len(known) <= MOST_CLASSES:
        raise InputError(
            f"{harmless(file)}: {arrays['train'][0]} has {len(known):,} classes; expected 2 to {MOST_CLASSES:,}"
        )
    classes = tuple(str(label) for label in known)
    for part, (key, _) in arrays.items():
        if len(others := np.setdiff1d(labels[part], known)):
            raise InputError(
                f'{harmless(file)}: {key} has the class "{harmless(others[0])}", of which there is no row to train on'
                + nearest(harmless(others[0]), map(harmless, classes), '; is it "{}"?')
            )
    return classes, {part: np.searchsorted(known, each).astype(np.int32) for part, each in labels.items()}


def _fit_table(file: Path, train: np.ndarray, classes: tuple[str, ...]) -> Preprocessing:
    """Columns named x0, x1, ... with the statistics of the train rows; those that are all the same are left out."""
    fitted = (table_columns.fit_number(f"x{place}", _column(train, place)) for place in range(train.shape[1]))
    columns = tuple(column for column in fitted if column is not None)
    if not columns:
        raise InputError(f"{harmless(file)}: no column of x tells the train rows apart")
    shape = (sum(len(table_columns.names(column)) for column in columns),)
    return Preprocessing("classification", shape, classes, columns=columns)


def _column(table: np.ndarray, place: int) -> np.ndarray:
    return table[:, place].astype(np.float64)


def _features(preprocessing: Preprocessing, table: np.ndarray, notes: dict[str, None]) -> np.ndarray:
    """The features of a table's rows; the first few notes about its columns are added to `notes`."""
    made = np.empty((len(table), *preprocessing.input_shape), np.float32)
    end, said = 0, []
    for column in preprocessing.columns:
        place = _place(column)
        if place >= table.shape[1]:
            raise InputError(
                f"the model was trained on a column {column.name}; this table has {table.shape[1]:,} columns"
            )
        encoded, about = table_columns.encode_number(column, _column(table, place))
        made[:, end : end + encoded.shape[1]] = encoded
        end += encoded.shape[1]
        said += about
    notes.update(dict.fromkeys(said[:_NOTES]))
    if len(said) > _NOTES:
        notes[f"{len(said) - _NOTES:,} more such notes about columns of x"] = None
    return made


def _place(column: Column) -> int:
    return int(column.name.removeprefix("x"))


def _fingerprint(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for key in sorted(arrays):
        array = np.ascontiguousarray(arrays[key])
        digest.update(f"{key} {array.dtype} {array.shape}".encode())
        digest.update(array.view(np.uint8).reshape(-1) if array.dtype.kind != "U" else array.tobytes())
    return digest.hexdigest()[:16]
