"""The thread that trains, and what state it is in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from engine.errors import InputError

if TYPE_CHECKING:
    from fnwork.run import Run

LONGEST_WAIT = 60.0
"""Seconds; a run stops within one micro-batch, so one that takes longer hangs."""

State = Literal["idle", "running", "stopping"]


class Training:
    """At most one run in a thread of this process: idle -> running -> stopping -> (the thread has ended) -> idle.

    The thread touches no widget: it sets `run`, `error`, `reading` and nothing else, and whoever shows them looks on a
    timer.
    """

    def __init__(self) -> None:
        self.run: Run | None = None
        self.error: BaseException | None = None
        self.reading = ""
        """How far the data are read, before there is a run."""
        self._thread: threading.Thread | None = None
        self._stopping = False

    @property
    def state(self) -> State:
        """What is going on; "idle" only when the thread has really ended."""
        if self._thread is None or not self._thread.is_alive():
            return "idle"
        return "stopping" if self._stopping else "running"

    def start(self, make: Callable[[], Run]) -> None:
        """Make the run and execute it in a new thread. RuntimeError if one has not ended yet."""
        if self.state != "idle":
            raise RuntimeError("a run is still going on")
        self.run, self.error, self.reading, self._stopping = None, None, "", False
        self._thread = threading.Thread(target=self._work, args=(make,), name="training", daemon=True)
        self._thread.start()

    def _work(self, make: Callable[[], Run]) -> None:
        try:
            self.run = run = make()
            if self._stopping:
                run.stop()
            run.execute()
        except BaseException as error:
            self.error = error

    def tell_reading(self, what: str, done: int, total: int) -> None:
        """The progress of reading a data set; InputError ends it where a stop was asked for."""
        if self._stopping:
            raise InputError("stopped before the run began")
        self.reading = f"{what}, {done:,} of {total:,}"

    def stop(self) -> None:
        """Ask the run to save and stop; returns at once."""
        self._stopping = True
        if self.run is not None:
            self.run.stop()

    def finish(self) -> None:
        """Stop the run and wait until its thread has ended, whatever way the app goes down."""
        if self._thread is not None and self._thread.is_alive():
            self.stop()
            self._thread.join(LONGEST_WAIT)

    def abandon(self) -> None:
        """Wait for the thread no longer; it ends with the process, and the run counts as interrupted."""
        self._thread = None
