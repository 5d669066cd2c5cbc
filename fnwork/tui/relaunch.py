"""A copy of an archived run's spec, opened in Edit."""

from __future__ import annotations

import json
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
    text = _with_its_data(text, reader, screen.fnwork.archive.specs)
    screen.fnwork.open_spec_text(text, str(reader.status().get("name") or folder.name))


def _with_its_data(text: str, reader: RunReader, specs: Path) -> str:
    """The text with the path of the run's data in it, where its relative one would lead elsewhere from the specs."""
    from fnwork import spec_set

    resolved = reader.resolved()
    given, used = resolved.get("data", {}).get("path"), resolved.get("used", {}).get("data_path")
    if not given or not used or (specs / given).resolve() == Path(used):
        return text
    return spec_set.apply(text, [f"data.path={json.dumps(used, ensure_ascii=False)}"])[0]
