"""What the screen shows while a run's data are being read, and that a stop reaches the reading."""

import threading
from pathlib import Path

import pytest

from engine.errors import InputError
from fnwork.tui.app import FnworkApp
from fnwork.tui.screens.dialogs import Ask
from fnwork.tui.training import Training
from tests.tui.pilots import until


async def test_the_screen_tells_how_far_the_data_are_read(experiments: Path) -> None:
    app, go_on = FnworkApp(experiments), threading.Event()

    def make() -> None:
        app.training.tell_reading("decoding tra\x1bin", 1024, 20_000)
        go_on.wait(10)
        raise InputError("enough")

    async with app.run_test() as pilot:
        app.training.start(make)
        app.show_place("live")
        await until(pilot, lambda: "1,024 of 20,000" in app.run_line[1])
        nothing = app.screen.query_one("#nothing")
        await until(pilot, lambda: "decoding tra␛in, 1,024 of 20,000" in str(nothing.render()))
        go_on.set()
        await until(pilot, lambda: isinstance(app.screen, Ask) and bool(app.screen.query("#cancel")))
        await pilot.press("o")
        await until(pilot, lambda: not isinstance(app.screen, Ask))


def test_a_stop_ends_the_reading() -> None:
    training, began = Training(), threading.Event()

    def make() -> None:
        while True:
            training.tell_reading("decoding train", 1, 2)
            began.set()

    training.start(make)
    assert began.wait(10)
    training.finish()
    assert training.state == "idle"
    with pytest.raises(InputError, match="stopped before the run began"):
        raise training.error
