"""The help, with real keys: what the text editor can do is in it, and nothing lies over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pilots import edit, sees, shown, until

from fnwork.tui.app import FnworkApp
from fnwork.tui.screens.dialogs import Help


async def test_undo_and_redo_are_in_the_help_and_work_from_text_and_list(experiments: Path) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.press("f1")
        await sees(pilot, "^z", "Undo", "^y", "Redo")
        await pilot.press("escape", "e", "number_sign")
        text = edit(app).editor.text
        await pilot.press("ctrl+z")
        assert edit(app).editor.text == text.removeprefix("#")
        await pilot.press("escape", "ctrl+y")
        assert edit(app).editor.text == text
        await pilot.press("ctrl+z")
        assert edit(app).editor.text == text.removeprefix("#")


@pytest.mark.parametrize(
    ("key", "arrived"),
    [("f1", lambda app: isinstance(app.screen, Help)), ("f4", lambda app: app.current_mode == "runs")],
)
async def test_what_a_place_notified_of_lies_neither_over_the_help_nor_over_another_place(
    experiments: Path, key: str, arrived: Callable[[FnworkApp], bool]
) -> None:
    app = FnworkApp(experiments)
    async with app.run_test(size=(100, 40), notifications=True) as pilot:
        app.notify("something was said", timeout=60)
        await sees(pilot, "something was said")
        await pilot.press(key)
        await until(pilot, lambda: arrived(app))
        await until(pilot, lambda: "something was said" not in shown(app))
