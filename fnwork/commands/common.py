"""What the commands share: finding the experiments folder, specs and runs; tables, sizes and JSON on stdout."""

import json
import math
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len, set_cell_size

from engine.errors import InputError
from fnwork.archive import Archive
from fnwork.text import harmless, size


def say(message: str) -> None:
    """A line for the person; on stderr, so that stdout holds what was asked for."""
    print(harmless(message, keep_lines=True), file=sys.stderr)


def at_a_terminal() -> bool:
    """Whether a person sits there to be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, default: bool) -> bool:
    """Ask a person; an empty answer is the default, the end of the input is no."""
    print(f"{harmless(question)} [{'Y/n' if default else 'y/N'}] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    return (answer.strip().lower() in ("y", "yes")) if answer.strip() else (default and bool(answer))


def archive_of(arguments: Namespace) -> Archive:
    """The experiments folder to read from, whether it is there or not."""
    return Archive(arguments.experiments)


def made_archive(arguments: Namespace) -> Archive:
    """The experiments folder, made with the starter specs where there is none: offered in a terminal, else said."""
    archive = archive_of(arguments)
    if archive.root.is_dir() and any(archive.root.iterdir()):
        return archive
    asked = at_a_terminal()
    if asked and not confirm(f"There is no {archive.root} folder here. Make one with the starter specs in it?", True):
        raise InputError(f"without the folder {harmless(archive.root)} there is no place for runs")
    archive.make()
    if not asked:
        say(f"note: made {archive.root} with the starter specs in it")
    return archive


def spec_file(arguments: Namespace) -> Path:
    """The file that SPEC means; only a spec's name needs the experiments folder."""
    path = Path(arguments.spec)
    if path.is_file():
        return path
    is_name = len(path.parts) == 1 and not path.is_dir()
    return (made_archive if is_name else archive_of)(arguments).find_spec(arguments.spec)


def run_folder(arguments: Namespace) -> Path:
    return archive_of(arguments).find(arguments.run)


def print_json(document: Any) -> None:
    """One JSON document on stdout; numbers that are not finite are null."""
    print(
        json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace").decode()
    )


def plain(value: Any) -> Any:
    """`value` as strict JSON can hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as they need, two blanks apart; every cell is made harmless."""
    lines = [[harmless(cell) for cell in row] for row in [headings, *rows]]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True))
        print(_cut("  ".join(padded).rstrip()))


def _cut(line: str) -> str:
    """The line as far as a terminal shows it in one row; whole where something else reads it."""
    width = shutil.get_terminal_size().columns
    return f"{set_cell_size(line, width - 1)}…" if sys.stdout.isatty() and cell_len(line) > width else line


def duration(seconds: float) -> str:
    """Seconds for people: "0.8 s", "27 s", "1:05" or "2:03:04"."""
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def figure(key: str, value: Any) -> str:
    """A result or a spec's value for people, by its name: accuracies in per cent, sizes with units."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        if key.endswith("accuracy"):
            return f"{100 * value:.2f}%"
        if key.endswith("bytes"):
            return size(value)
        if key.endswith("seconds"):
            return duration(value)
        return f"{value:.4g}" if isinstance(value, float) else str(value) if key == "seed" else f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "[]"
    return str(value) or '""'


def title(symptom: object) -> str:
    """A checklist entry's title by its key; the key itself for one that this version does not know."""
    from fnwork.checklist import SYMPTOMS

    return next((entry.title for entry in SYMPTOMS if entry.key == symptom), str(symptom))
