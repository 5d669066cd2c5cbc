"""The process is asked to end from outside: the terminal was closed, or the system wants it gone."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from fnwork import ending

if TYPE_CHECKING:
    from fnwork.tui.app import FnworkApp

_LEAVING = 3.0
"""Seconds for the screen to be put away, which may never end on a terminal that is gone."""


def end_on_signals(app: FnworkApp) -> None:
    """From now on these signals stop and save the run, wait for its thread, and then end the process.

    In the terminal itself Ctrl+C is a key and no signal.
    """

    def asked(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=_end, args=(app, number), name="ending", daemon=True).start()

    for number in ending.SIGNALS:
        signal.signal(number, asked)


def _end(app: FnworkApp, number: int) -> None:
    app.training.finish()
    code = 128 + number
    threading.Thread(target=_leave, args=(app, code), daemon=True).start()
    time.sleep(_LEAVING)
    os._exit(code)


def _leave(app: FnworkApp, code: int) -> None:
    with suppress(RuntimeError):  # not running yet, or no more
        app.call_from_thread(app.exit, None, code)
