"""The device, and why it was chosen, on the screens."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from pilots import FIGURES
from rich.console import Console
from synthetic import append, make_run

from fnwork.tui.event_text import describe
from fnwork.tui.watch import RunWatch
from fnwork.tui.widgets.spec_outlook import ROOMY, _figures


def test_the_log_of_a_run_begins_with_its_device_and_the_reason(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "one")
    choice = {"device": "NVIDIA [red]\x1b[2J", "device_why": "the most free memory among 2"}
    append(folder, {"kind": "start", "t": 0.0, "windows_per_epoch": 1, "epochs": 1, **choice})
    watch = RunWatch(folder)
    while watch.look():
        pass
    told = [describe(event, 80)[2] for event in watch.log if event["kind"] == "start"]
    assert told == ["on NVIDIA [red]␛[2J: the most free memory among 2"]


def test_the_outlook_names_the_device_where_there_is_room() -> None:
    def shown(width: int) -> str:
        console = Console(width=width, file=io.StringIO(), record=True)
        figures = replace(FIGURES, device="NVIDIA GeForce RTX 3060")
        console.print(_figures(figures, width, lambda name: "white"))
        return console.export_text()

    assert "NVIDIA GeForce RTX 3060" in shown(60)
    assert "NVIDIA" not in shown(ROOMY - 1)
