"""How far a data set is read or downloaded, on stderr: a bar on a terminal, elsewhere a line for what takes long."""

import math
import sys
import time
from collections.abc import Callable

from fnwork.text import harmless

_PATIENCE = 1.0


class Reading:
    """A progress for `datasets.load` and `download.get`; `figure` writes its numbers. The bar is gone in the end."""

    def __init__(self, figure: Callable[[int], str] = "{:,}".format):
        self._figure = figure
        self._bar = None
        self._tasks: dict[str, object] = {}
        self._began: dict[str, float] = {}

    def __enter__(self) -> "Reading":
        return self

    def __exit__(self, *failure: object) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        figures = f"{self._figure(done)} of {self._figure(total)}"
        if not sys.stderr.isatty():
            now = time.monotonic()
            if now - self._began.setdefault(what, now) >= _PATIENCE and done < total:
                print(harmless(f"{what}: {figures}"), file=sys.stderr, flush=True)
                self._began[what] = math.inf
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.start()
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(harmless(what), total=total, figures="")
        self._bar.update(self._tasks[what], completed=done, total=total, figures=figures)


def _bar():
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[figures]}", markup=False),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        expand=True,
        transient=True,
        refresh_per_second=4,
    )
