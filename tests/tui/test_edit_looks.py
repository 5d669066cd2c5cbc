"""What Edit and the dialogs look like, against pictures that were looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pilots import FIGURES, sees
from textual.pilot import Pilot

from fnwork.tui.app import FnworkApp


@pytest.mark.parametrize("size", [pytest.param((80, 24), id="80x24"), pytest.param((120, 40), id="120x40")])
@pytest.mark.parametrize(
    ("pressed", "words"),
    [
        pytest.param((), "254,282", id="first"),
        pytest.param(("end", "e"), "2:11", id="errors"),
        pytest.param(("question_mark",), "Everywhere", id="help"),
        pytest.param(("f12",), "is there already", id="save_as"),
        pytest.param(("e", "number_sign", "ctrl+q"), "Not written yet", id="leaving"),
    ],
)
def test_edit_looks_as_before(
    experiments: Path,
    monkeypatch: pytest.MonkeyPatch,
    snapshot_baseline: None,
    snap_compare: Callable[..., bool],
    size: tuple[int, int],
    pressed: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.setattr("fnwork.outlook.outlook", lambda text, folder: FIGURES)
    monkeypatch.setattr("fnwork.tui.screens.spec_files.harmless", _without_folder(experiments))

    async def prepare(pilot: Pilot[None]) -> None:
        await sees(pilot, "254,282")
        await pilot.press(*pressed)
        await sees(pilot, words)
        await pilot.press("f8")  # to the first error, if there is one
        await pilot.pause(0.1)

    assert snap_compare(FnworkApp(experiments), terminal_size=size, run_before=prepare)


def _without_folder(experiments: Path) -> Callable[..., str]:
    """Text as it is shown, with the folder of this test run put as "experiments"."""
    from fnwork.text import harmless

    return lambda text, **how: harmless(text, **how).replace(str(experiments), "experiments")
