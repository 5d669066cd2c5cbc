"""Columns of a table: telling numbers from categories, fitting on the train rows, and becoming features."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import InputError

MISSING = frozenset({"", "NA", "N/A", "n/a", "null", "NULL", "?"})
MOST_CATEGORIES = 100

_NUMBER = {
    False: re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"),
    True: re.compile(r"[+-]?([0-9]+,?[0-9]*|,[0-9]+)([eE][+-]?[0-9]+)?"),
}
_NOT_FINITE = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
# 1,234 may be a decimal comma or a thousands separator; 0,5 and 12,34 can only be decimal commas.
_COMMA_MAY_BE_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
# Squares of larger numbers overflow, and then so does the standard deviation.
_LARGEST = 1e150
# No train value can be further out than the square root of their number; others could overflow float16.
_FURTHEST = 1e4
# A column with fewer numbers than this is taken for text that happens to hold some.
_MOSTLY = 0.9
# From so many rows on, a text that no two rows share is a name and no category.
_ROWS_TO_JUDGE = 10


@dataclass(frozen=True)
class Column:
    """One column of a table: a number, or a category that becomes one 0/1 feature a value.

    `mean` and `std` are those of the train rows. `has_missing`: some train rows had no value, so a 0/1 feature beside
    the number says where (an empty category is a category of its own, "").
    """

    name: str
    categories: tuple[str, ...] = ()
    mean: float = 0.0
    std: float = 1.0
    has_missing: bool = False


def names(column: Column) -> tuple[str, ...]:
    """Names of the features that a column becomes."""
    if column.categories:
        return tuple(f"{column.name}={category or '(missing)'}" for category in column.categories)
    return (column.name, f"{column.name} is missing") if column.has_missing else (column.name,)


@dataclass(frozen=True)
class Cells:
    """One column of a file as text, with what a message about a cell needs."""

    file: str
    name: str
    texts: Sequence[str]
    lines: Sequence[int]

    def error(self, text: str, message: str) -> InputError:
        """The error to raise about the first cell that reads `text`."""
        line = self.lines[self.texts.index(text)]
        return InputError(f'{self.file}, line {line}, column "{self.name}": {message}')

    def first_of(self, texts: Collection[str]) -> str:
        """Which of these texts comes first in the file."""
        return next(text for text in self.texts if text in texts)


def is_number(text: str, decimal_comma: bool = False) -> bool:
    """Whether a cell is written as a finite number."""
    return _NUMBER[decimal_comma].fullmatch(text) is not None


# Below, each distinct text is looked at once: the cells of a large table repeat themselves.


def is_numeric(cells: Cells, decimal_comma: bool) -> bool:
    """Whether a column holds numbers; InputError where it nearly does, and where its decimal mark is not the file's."""
    present = set(cells.texts) - MISSING
    others = {text for text in present if not _is_numeric_text(text, decimal_comma)}
    if not others:
        return bool(present)
    first = cells.first_of(others)
    if all(_is_numeric_text(text, not decimal_comma) for text in others):
        if decimal_comma:
            raise cells.error(first, f'"{first}" has a decimal point, but the numbers of this file have commas')
        raise cells.error(
            first,
            f'"{first}" has a comma: write {first.replace(",", ".")} if it is a decimal comma, '
            f"{first.replace(',', '')} if it separates thousands",
        )
    used_as_codes = len(set(cells.texts)) * 10 <= len(cells.texts)
    rows_of_numbers = sum(text in present and text not in others for text in cells.texts)
    if rows_of_numbers >= _MOSTLY * sum(text in present for text in cells.texts) and not used_as_codes:
        raise cells.error(
            first,
            f'expected a number as in nearly every other row, got "{first}"; '
            "leave the cell empty if the value is missing",
        )
    return False


def has_decimal_commas(columns: Sequence[Cells]) -> bool:
    """Whether a file has decimal commas: some column is numbers only if read so, and they cannot be thousands."""
    for cells in columns:
        present = set(cells.texts) - MISSING
        with_comma = [text for text in present if "," in text and not _COMMA_MAY_BE_THOUSANDS.fullmatch(text)]
        if with_comma and all(is_number(text, decimal_comma=True) for text in present):
            return True
    return False


def numbers(cells: Cells, decimal_comma: bool) -> np.ndarray:
    """The column's values, float64, NaN where missing; InputError with the line of a cell that is no finite number."""
    values = {text: _value(text, decimal_comma) for text in set(cells.texts)}
    wrong = {text for text, value in values.items() if value is None}
    if not wrong:
        return np.array([values[text] for text in cells.texts], np.float64)
    text = cells.first_of(wrong)
    if is_number(text, decimal_comma):
        raise cells.error(text, f"{text} is too large a number (the limit is {_LARGEST:g})")
    if _NOT_FINITE.fullmatch(text):
        raise cells.error(text, f'"{text}" is no finite number; leave the cell empty if the value is missing')
    raise cells.error(text, f'expected a number, got "{text}"')


def _value(text: str, decimal_comma: bool) -> float | None:
    """The number a cell holds, NaN where it is missing, None where it is no number that can be used."""
    if text in MISSING:
        return np.nan
    value = float(text.replace(",", ".")) if is_number(text, decimal_comma) else np.inf
    return value if abs(value) <= _LARGEST else None


def check_categories(cells: Cells) -> None:
    """Refuse text that is no category: names, dates, free text."""
    count, rows = len(set(cells.texts)), len(cells.texts)
    if count > MOST_CATEGORIES or count == rows >= _ROWS_TO_JUDGE:
        why = f"at most {MOST_CATEGORIES}" if count > MOST_CATEGORIES else "no two rows share one"
        raise InputError(
            f'{cells.file}, column "{cells.name}": {count:,} different texts in {rows:,} rows are too many for '
            f"categories ({why}); remove the column, or replace it by numbers or fewer categories"
        )


def fit_number(name: str, train_values: np.ndarray) -> Column | None:
    """A number column with the statistics of the train rows; None where they are all the same."""
    present = train_values[~np.isnan(train_values)]
    has_missing = len(present) < len(train_values)
    if len(present) == 0:
        return None
    if np.ptp(present) == 0 or (std := float(present.std())) == 0:
        return Column(name, mean=float(present[0]), has_missing=True) if has_missing else None
    return Column(name, mean=float(present.mean()), std=std, has_missing=has_missing)


def fit_category(name: str, train_texts: Sequence[str]) -> Column | None:
    """A category column with the values of the train rows; None where they are all the same."""
    categories = tuple(sorted(set(train_texts)))
    return Column(name, categories=categories) if len(categories) > 1 else None


def encode_number(column: Column, values: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Features (rows, 1 or 2) of a number column, float32, and notes; NaN is a missing value and becomes the mean."""
    notes = []
    missing = np.isnan(values)
    with np.errstate(over="ignore"):  # what overflows is moved to the furthest distance below
        scaled = np.where(missing, 0.0, (values - column.mean) / column.std)
    if missing.any():
        said = ", and a feature of its own says where" if column.has_missing else ""
        notes.append(
            f'column "{column.name}": {missing.sum():,} of {len(values):,} values are missing; '
            f"the mean of the train rows stands in their place{said}"
        )
    if (far := int((np.abs(scaled) > _FURTHEST).sum())) > 0:
        notes.append(
            f'column "{column.name}": {far:,} values lie more than {_FURTHEST:,.0f} standard deviations '
            "from the mean of the train rows, and are moved to that distance"
        )
    features = [np.clip(scaled, -_FURTHEST, _FURTHEST)]
    if column.has_missing:
        features.append(missing)
    return np.stack(features, axis=1).astype(np.float32), notes


def encode_category(column: Column, texts: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """One 0/1 feature a category (rows, categories), float32, and notes; a category not trained on is all zeros."""
    place_of = {category: place for place, category in enumerate(column.categories)}
    features = np.zeros((len(texts), len(column.categories)), np.float32)
    unseen = []
    for row, text in enumerate(texts):
        if (place := place_of.get(text)) is None:
            unseen.append(text)
        else:
            features[row, place] = 1
    if not unseen:
        return features, []
    return features, [
        f'column "{column.name}": {len(unseen):,} rows have a category that no train row has ("{unseen[0]}"); '
        "they get none of its features"
    ]


def _is_numeric_text(text: str, decimal_comma: bool) -> bool:
    return is_number(text, decimal_comma) or _NOT_FINITE.fullmatch(text) is not None
