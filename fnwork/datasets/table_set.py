"""A CSV file as a data set: columns typed and scaled by the train rows, the target split off."""

from pathlib import Path

import numpy as np

from engine.data import DataSet, Part, Preprocessing
from engine.errors import InputError, nearest
from fnwork.datasets import columns as table_columns
from fnwork.datasets import csv_file
from fnwork.datasets import targets as target_values
from fnwork.datasets.columns import MISSING, MOST_CATEGORIES, Cells, Column, is_number
from fnwork.datasets.csv_file import Table
from fnwork.datasets.data_info import DataInfo, data_info
from fnwork.datasets.settings import DataSettings, Progress, silent
from fnwork.datasets.split import split


def load(settings: DataSettings, seed: int, progress: Progress = silent) -> DataSet:
    """Read the CSV file at `settings.path`; InputError names the line or the column that is at fault."""
    table = csv_file.read(Path(settings.path))
    _check_target_name(table, settings.target)
    others = [table.cells(name) for name in table.columns if name != settings.target]
    target = table.cells(settings.target)
    decimal_comma = table_columns.has_decimal_commas([*others, target])
    notes: list[str] = []
    if settings.task == "classification":
        classes, targets = _class_numbers(target)
        if all(is_number(name, decimal_comma) for name in classes) and not all(map(str.isdigit, classes)):
            notes.append(
                f'column "{settings.target}": {len(classes)} different numbers, each taken as a class of its own; '
                'with data.task = "regression" the number is learnt'
            )
    else:
        classes, targets = (), _target_values(target, decimal_comma)
    train_rows, validation_rows = split(targets, settings.validation, seed)
    fitted, dropped = _fit(others, train_rows, decimal_comma)
    scaling = {}
    if settings.task == "regression":
        name = f'data.target: column "{settings.target}"'
        mean, std = target_values.fit(targets[train_rows], name)
        targets, scaling = target_values.scaled(targets, mean, std, name), {"target_mean": mean, "target_std": std}
    shape = (sum(len(table_columns.names(column)) for column in fitted),)
    table_fields = {"columns": fitted, "target": settings.target, "decimal_comma": decimal_comma}
    preprocessing = Preprocessing(settings.task, shape, classes, **table_fields, **scaling)
    inputs, more_notes = features(preprocessing, table)
    train, validation = (Part(inputs[rows], targets[rows]) for rows in (train_rows, validation_rows))
    fingerprint, notes = table.digest[:16], (*notes, *dropped, *more_notes)
    return DataSet(
        settings.dataset, settings.task, train, validation, None, shape, classes, preprocessing, fingerprint, notes
    )


def files(settings: DataSettings) -> tuple[Path, ...]:
    """The one file."""
    return (Path(settings.path),)


def info(settings: DataSettings, seed: int) -> DataInfo:
    """Which columns there are, and how many rows: that takes reading them."""
    return data_info(load(settings, seed))


def features(preprocessing: Preprocessing, table: Table) -> tuple[np.ndarray, tuple[str, ...]]:
    """Features of a table's rows, float32 (rows, features), as a part would hold them, and notes for its owner.

    The table needs the columns that the model was trained on, in any order; others are ignored. InputError tells
    which ones are missing, and the line and column of a cell that cannot be read.
    """
    missing = [column.name for column in preprocessing.columns if column.name not in table.columns]
    if missing:
        raise InputError(
            f"{table.file}: columns that the model was trained on are missing: "
            f"{', '.join(_with_nearest(name, table) for name in missing)}"
        )
    decimal_comma = _writes_decimal_commas(preprocessing, table)
    made, notes = [], []
    for column in preprocessing.columns:
        cells = table.cells(column.name)
        if column.categories:
            encoded, said = table_columns.encode_category(column, cells.texts)
        else:
            encoded, said = table_columns.encode_number(column, table_columns.numbers(cells, decimal_comma))
        made.append(encoded)
        notes += said
    return np.concatenate(made, axis=1), tuple(notes)


def _writes_decimal_commas(preprocessing: Preprocessing, table: Table) -> bool:
    """How the table writes its numbers; as the train file did where its own numbers do not tell."""
    cells = [table.cells(column.name) for column in preprocessing.columns if not column.categories]
    has_points = any("." in text for column in cells for text in column.texts)
    return table_columns.has_decimal_commas(cells) or (preprocessing.decimal_comma and not has_points)


def _with_nearest(name: str, table: Table) -> str:
    return f'"{name}"' + nearest(name, table.columns, ' (is it "{}"?)')


def _check_target_name(table: Table, target: str) -> None:
    if target in table.columns:
        return
    names = ", ".join(f'"{name}"' for name in table.columns)
    if not target:
        raise InputError(f"data.target: name the column to predict; {table.file} has {names}")
    hint = nearest(target, table.columns, '; the nearest is "{}"', cutoff=0.5)
    raise InputError(f'data.target: {table.file} has no column "{target}"{hint}; its columns are {names}')


def _class_numbers(target: Cells) -> tuple[tuple[str, ...], np.ndarray]:
    """Sorted class names (as numbers, where all are) and the class number of every row, int32."""
    if "" in target.texts:
        raise target.error("", "the target is missing; fill it in, or remove the row")
    names = set(target.texts)
    numeric = all(is_number(name) for name in names)
    classes = tuple(sorted(names, key=lambda name: (float(name) if numeric else 0.0, name)))
    if not 2 <= len(classes) <= MOST_CATEGORIES:
        hint = '; for numbers use data.task = "regression"' if numeric and len(classes) > 2 else ""
        raise InputError(
            f'{target.file}, column "{target.name}": expected 2 to {MOST_CATEGORIES} classes, '
            f"got {len(classes):,}{hint}"
        )
    number_of = {name: number for number, name in enumerate(classes)}
    return classes, np.array([number_of[text] for text in target.texts], np.int32)


def _target_values(target: Cells, decimal_comma: bool) -> np.ndarray:
    """Values of the target in its own units, float64 (rows, 1)."""
    values = table_columns.numbers(target, decimal_comma)
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise target.error(target.texts[missing[0]], "the target is missing; fill it in, or remove the row")
    return values[:, None]


def _fit(
    cells_of_columns: list[Cells], train_rows: np.ndarray, decimal_comma: bool
) -> tuple[tuple[Column, ...], list[str]]:
    """Columns that carry something, fitted on the train rows, and a note about each that was dropped."""
    fitted, notes = [], []
    for cells in cells_of_columns:
        if all(text in MISSING for text in cells.texts):
            column = None
        elif table_columns.is_numeric(cells, decimal_comma):
            column = table_columns.fit_number(cells.name, table_columns.numbers(cells, decimal_comma)[train_rows])
        else:
            table_columns.check_categories(cells)
            column = table_columns.fit_category(cells.name, [cells.texts[row] for row in train_rows])
        if column is None:
            notes.append(f'column "{cells.name}": the same in every train row, so it is left out')
        else:
            fitted.append(column)
    if not fitted:
        raise InputError(f"{cells_of_columns[0].file}: no column besides the target tells the rows apart")
    return tuple(fitted), notes
