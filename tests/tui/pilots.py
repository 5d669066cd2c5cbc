"""Specs and steps that the tests of the screen share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from fnwork.outlook import Outlook
from fnwork.run_folder import write_status
from fnwork.tui.app import FnworkApp
from fnwork.tui.screens.dialogs import Ask
from fnwork.tui.screens.edit import EditScreen

GOOD = """\
# A small network.
[data]
dataset = "fashion-mini"

[model]
preset = "mlp"

[train]
epochs = 3
lr = 1e-3
"""

WRONG = """\
[data]
dataset = "fashion-mni"

[model]
preset = "mlp"

[train]
epochss = 3
lr = "fast"
"""


FIGURES = Outlook(
    parameters=254_282,
    peak={
        "total": 13_000_000,
        "weights": 1_017_128,
        "gradients": 1_017_128,
        "optimizer": 2_034_256,
        "activations": 7_600_000,
        "workspace": 900_000,
        "data": 431_488,
    },
    budget=1 << 30,
    input_shape=(28, 28, 1),
    outputs=10,
    train_samples=5400,
    validation_samples=600,
    updates_per_epoch=85,
    updates=1275,
    effective_batch=64,
)


async def until(pilot: Pilot[None], condition: Callable[[], bool], what: str = "the condition") -> None:
    """Let the app work until the condition holds; fails when it does not come true."""
    for _ in range(400):
        if condition():
            await pilot.pause()
            return
        await asyncio.sleep(0.025)
    raise AssertionError(f"{what} did not come true")


async def sees(pilot: Pilot[None], *words: str) -> None:
    """Wait until all these words are on the screen."""
    for word in words:
        await until(pilot, lambda word=word: word in shown(pilot.app), f"{word!r} on the screen")


def edit(app: FnworkApp) -> EditScreen:
    """The Edit place."""
    return app.edit_screen


def question(app: FnworkApp) -> str:
    """The title of the question that is being asked, or nothing."""
    return app.screen.title_text if isinstance(app.screen, Ask) else ""


def shown(app: FnworkApp) -> str:
    """Everything on the screen as plain text."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


class FakeRun:
    """Stands in for a run: goes on until it is stopped or let go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = "running"
        self.stop_asked = threading.Event()
        self.may_end = threading.Event()
        self.error: BaseException | None = None

    def execute(self) -> None:
        self.stop_asked.wait(20)
        self.may_end.wait(5)
        self.state = "stopped"
        write_status(self.folder, {"state": self.state})
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.state = "stopping"
        self.stop_asked.set()
