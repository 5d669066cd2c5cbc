"""A copy of an archived run's spec, opened in Edit."""

from __future__ import annotations

from pathlib import Path

from engine.errors import InputError
from fnwork.run_folder import RunReader
from fnwork.tui.place import PlaceScreen


def open_copy(screen: PlaceScreen, folder: Path) -> None:
    """Open a copy of the spec of the run in `folder` as a new, unsaved text."""
    reader = RunReader(folder)
    try:
        text = reader.spec_text()
    except InputError as error:
        screen.notify(str(error), severity="error", markup=False)
        return
    screen.fnwork.open_spec_text(text, str(reader.status().get("name") or folder.name))
