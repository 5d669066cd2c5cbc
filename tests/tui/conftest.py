"""What every test of the screen needs: an experiments folder, a still screen, and snapshots on one baseline only."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from pilots import GOOD, WRONG
from textual.widgets import Input, TextArea

BASELINE = ((3, 11), "8.2.8")
"""Python and Textual with which the snapshots were taken; others draw the same screen in another file."""


@pytest.fixture(autouse=True)
def still_screen(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No blinking, no animation, no colours or folders taken from whoever runs the tests."""
    for name in ("NO_COLOR", "TEXTUAL_THEME", "FNWORK_DEVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setattr(TextArea, "_toggle_cursor_blink_visible", lambda self: None)
    monkeypatch.setattr(Input, "_toggle_cursor", lambda self: None)


@pytest.fixture
def experiments(tmp_path: Path) -> Path:
    """An experiments folder with three specs: two good ones and one with three errors."""
    specs = tmp_path / "experiments" / "specs"
    specs.mkdir(parents=True)
    (tmp_path / "experiments" / "runs").mkdir()
    (specs / "fashion-cnn.toml").write_text(GOOD.replace("mlp", "cnn8"), encoding="utf-8")
    (specs / "fashion-mlp.toml").write_text(GOOD, encoding="utf-8")
    (specs / "wrong.toml").write_text(WRONG, encoding="utf-8")
    return tmp_path / "experiments"


@pytest.fixture
def snapshot_baseline() -> None:
    """Skips off the baseline, where a snapshot differs without anything being wrong."""
    here = (sys.version_info[:2], version("textual"))
    if here != BASELINE:
        pytest.skip(f"snapshots were taken with Python and Textual {BASELINE}, this is {here}")
