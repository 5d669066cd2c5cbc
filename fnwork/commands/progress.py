"""How training shows on a terminal without the workbench: a bar, or one plain line an epoch."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fnwork.cli import let_go
from fnwork.commands.common import duration, figure, title
from fnwork.run_folder import RunReader
from fnwork.text import harmless, size


class Progress:
    """Takes a run's events. With a terminal it draws a bar; without one it prints a line an epoch.

    With `to_stderr` nothing goes to stdout. A reader that goes away (`| head`) ends the lines, not the training.
    """

    def __init__(self, folder: Path, to_stderr: bool):
        self._stream = sys.stderr if to_stderr else sys.stdout
        reader = RunReader(folder)
        self._start = next((event for event in reader.events() if event["kind"] == "start"), {})
        self._limit = reader.resolved()["train"]["limit_windows"]
        self._memory = 0
        self._loss = self._rate = ""
        self._validation = ""
        self._bar = _Bar(self._stream) if self._stream.isatty() else None
        self._silent = False
        self._last_fault = -1

    def __enter__(self) -> "Progress":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if self._bar:
            self._bar.stop()

    def note(self, message: str) -> None:
        """A line of its own, above the bar."""
        if self._silent:
            return
        try:
            if self._bar:
                self._bar.line(harmless(message))
            else:
                print(harmless(message), file=self._stream, flush=True)
        except BrokenPipeError:
            self._silent = True
            let_go(self._stream)
        except OSError:
            self._silent = True

    def take(self, event: Mapping[str, Any]) -> None:
        """Show an event of the run."""
        kind = event["kind"]
        if kind == "start":
            self._start = event
            self.note(f"on {event['device']}: {event['device_why']}")
        elif kind == "step":
            self._loss, self._rate = f"loss {event['loss']:.4f}", f"{event['samples_per_s']:,.0f}/s"
            self._update(event)
        elif kind == "memory":
            self._memory = event["peak"]["total"]
        elif kind == "epoch":
            self._take_epoch(event)
        elif kind == "warning":
            self.note(f"warning: {event['message']}")
        elif kind == "nonfinite" and event["step"] != self._last_fault:
            self._last_fault = event["step"]  # a window that is tried again has the same step
            self.note(f"not finite: {event['where']} in {event['layer']}, step {event['step']}: {event['action']}")
        elif kind == "check" and event["state"] == "firing":
            self.note(f"checklist: {title(event['symptom'])}: {event['evidence']}")

    def _take_epoch(self, event: Mapping[str, Any]) -> None:
        metric = next((key for key in ("val_accuracy", "val_r2", "val_loss") if key in event), "")
        self._validation = f"{metric} {figure(metric, event.get(metric))}"
        if self._bar:
            self._update(event)
            return
        metrics = "  ".join(
            f"{key} {figure(key, value)}" for key, value in event.items() if key.startswith(("train_", "val_"))
        )
        best = "  best" if event["best"] else ""
        epochs = self._start.get("epochs", "?")
        self.note(
            f"epoch {event['epoch']}/{epochs}  {metrics}  {duration(event['seconds'])}  "
            f"{event['samples_per_s']:,.0f} samples/s  {size(self._memory)}{best}"
        )

    def _update(self, event: Mapping[str, Any]) -> None:
        if self._bar and not self._silent:
            epochs = self._start.get("epochs", 1)
            updates = epochs * self._start.get("windows_per_epoch", 1)
            facts = (self._loss, self._validation, self._rate, size(self._memory))
            total = min(updates, self._limit or updates)
            self._bar.update(f"epoch {event['epoch']}/{epochs}", event["step"], total, facts)


class _Bar:
    """A line that redraws itself: epoch, bar, loss, validation, rate, memory, time left."""

    def __init__(self, stream: Any):
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._progress = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[facts]}", markup=False),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=Console(file=stream),
            expand=True,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task("preparing", total=None, facts="")

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

    def line(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)

    def update(self, description: str, done: int, total: int, facts: tuple[str, ...]) -> None:
        shown = "  ".join(fact for fact in facts if fact)
        self._progress.update(self._task, description=description, completed=done, total=total, facts=shown)
