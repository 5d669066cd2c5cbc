"""How raw inputs become what the network is fed, fitted on the train part alone and stored with the model."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.data import columns as table_columns
from engine.data.columns import Column
from engine.data.csv_file import Table
from engine.errors import InputError, nearest


@dataclass(frozen=True)
class Preprocessing:
    """Everything about the train part that predicting on new inputs needs.

    Images: `channel_mean` and `channel_std`, one a channel, in pixel units (0 to 255). Tables: `columns`, and `target`
    with its mean and standard deviation where it is a number. `decimal_comma`: how the train file wrote its numbers.
    """

    task: str
    input_shape: tuple[int, ...]
    classes: tuple[str, ...] = ()
    channel_mean: tuple[float, ...] = ()
    channel_std: tuple[float, ...] = ()
    columns: tuple[Column, ...] = ()
    target: str = ""
    target_mean: float = 0.0
    target_std: float = 1.0
    decimal_comma: bool = False

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values, for the model file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Preprocessing":
        """The inverse of `to_dict`, also after a trip through JSON; InputError where the values do not fit."""
        try:
            values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
            columns = (Column(**{**each, "categories": tuple(each["categories"])}) for each in values["columns"])
            return cls(**{**values, "columns": tuple(columns)})
        except (TypeError, KeyError, AttributeError) as error:
            raise InputError(f"the preprocessing stored with the model is damaged: {error}") from None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of a table's features, in the order of the inputs' columns."""
        return tuple(feature for column in self.columns for feature in column.features)

    def pixel_table(self, dtype: np.dtype) -> np.ndarray:
        """Normalised value of every pixel value, (channels, 256)."""
        pixels = np.arange(256, dtype=np.float64)
        mean = np.array(self.channel_mean)[:, None]
        std = np.array(self.channel_std)[:, None]
        return ((pixels - mean) / std).astype(dtype)

    def in_units(self, outputs: np.ndarray) -> np.ndarray:
        """Standardised targets or outputs in the target's own units, float32 of the same shape."""
        return (outputs.astype(np.float64) * self.target_std + self.target_mean).astype(np.float32)

    def transform_table(self, table: Table) -> tuple[np.ndarray, tuple[str, ...]]:
        """Features of a table's rows, float32 (rows, features), as a part would hold them, and notes for its owner.

        The table needs the columns that the model was trained on, in any order; others are ignored. InputError tells
        which ones are missing, and the line and column of a cell that cannot be read.
        """
        missing = [column.name for column in self.columns if column.name not in table.columns]
        if missing:
            raise InputError(
                f"{table.file}: columns that the model was trained on are missing: "
                f"{', '.join(_with_nearest(name, table) for name in missing)}"
            )
        decimal_comma = self._has_decimal_commas(table)
        features, notes = [], []
        for column in self.columns:
            cells = table.cells(column.name)
            if column.categories:
                encoded, said = table_columns.encode_category(column, cells.texts)
            else:
                encoded, said = table_columns.encode_number(column, table_columns.numbers(cells, decimal_comma))
            features.append(encoded)
            notes += said
        return np.concatenate(features, axis=1), tuple(notes)

    def _has_decimal_commas(self, table: Table) -> bool:
        """How the table writes its numbers; as the train file did where its own numbers do not tell."""
        cells = [table.cells(column.name) for column in self.columns if not column.categories]
        has_points = any("." in text for column in cells for text in column.texts)
        return table_columns.has_decimal_commas(cells) or (self.decimal_comma and not has_points)


def fit_images(train_images: np.ndarray, classes: tuple[str, ...]) -> Preprocessing:
    """Mean and standard deviation of every channel of the train images (samples, height, width, channels), uint8."""
    channels = train_images.shape[3]
    counts = np.zeros((channels, 256), np.int64)
    for begin in range(0, len(train_images), 1024):
        # A histogram is exact and needs no float copy of the images; in pieces, because bincount widens its input.
        piece = train_images[begin : begin + 1024]
        for channel in range(channels):
            counts[channel] += np.bincount(piece[..., channel].ravel(), minlength=256)
    pixels = np.arange(256)
    total = counts.sum(axis=1)
    mean = counts @ pixels / total
    std = np.sqrt((counts * (pixels - mean[:, None]) ** 2).sum(axis=1) / total)
    std[std == 0] = 1.0  # a channel of one colour has nothing to scale
    statistics = {"channel_mean": tuple(mean.tolist()), "channel_std": tuple(std.tolist())}
    return Preprocessing("classification", train_images.shape[1:], classes, **statistics)


def _with_nearest(name: str, table: Table) -> str:
    return f'"{name}"' + nearest(name, table.columns, ' (is it "{}"?)')
