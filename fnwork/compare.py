"""Runs side by side: the spec keys in which they differ, and their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fnwork.archive import RunSummary, numbers, summary
from fnwork.run_folder import RunReader

Value = Any  # what TOML holds, or None where a run has no such key


@dataclass(frozen=True)
class Row:
    """One key and its value in each run, in the runs' order."""

    key: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Comparison:
    """`keys`: the spec keys that differ, and only those. `results`: every result that any of the runs has."""

    runs: tuple[RunSummary, ...]
    keys: tuple[Row, ...]
    results: tuple[Row, ...]


def compare(folders: Sequence[Path]) -> Comparison:
    """Compare the runs in `folders`."""
    from fnwork.spec import flatten

    runs = tuple(summary(folder) for folder in folders)
    specs = [flatten(RunReader(folder).resolved()) for folder in folders]
    results = [run.results | record_figures(RunReader(run.path).record()) for run in runs]
    return Comparison(runs, tuple(row for row in _rows(specs) if _differs(row.values)), tuple(_rows(results)))


def record_figures(record: Mapping[str, Any] | None) -> dict[str, float]:
    """What a record tells beside the metrics: best epoch, seconds, number of parameters, peak of memory in bytes."""
    record = record or {}
    peak = record.get("peak")
    figures = {key: record.get(key) for key in ("best_epoch", "seconds", "parameters")}
    return numbers(figures | {"peak_bytes": peak.get("total") if isinstance(peak, Mapping) else None})


def _rows(tables: Sequence[Mapping[str, Any]]) -> list[Row]:
    keys = dict.fromkeys(key for table in tables for key in table)
    order = {section: place for place, section in enumerate(dict.fromkeys(map(_section, keys)))}
    keys = sorted(keys, key=lambda key: order[_section(key)])  # what only a later run has stays in its section
    return [Row(key, tuple(table.get(key) for table in tables)) for key in keys]


def _section(key: str) -> str:
    return key.partition(".")[0] if "." in key else ""


def _differs(values: tuple[Value, ...]) -> bool:
    return len({repr(value) for value in values}) > 1  # by repr: nan equals nan, and 1 is not true
