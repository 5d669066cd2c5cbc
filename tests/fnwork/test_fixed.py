"""What a process takes beside the ledger is measured once and kept."""

import json

import pytest

from engine.device import choose
from fnwork import fixed


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / name))
    return tmp_path / "fnwork"


def test_measured_in_a_process_of_its_own_and_kept(folder, monkeypatch):
    first = fixed.fixed_bytes(choose("cpu"), "reference")
    assert 0 < first < 500 * 2**20
    assert list(json.loads((folder / "fixed.json").read_text()).values()) == [first]
    monkeypatch.setattr("subprocess.run", lambda *arguments, **options: pytest.fail("measured a second time"))
    assert fixed.fixed_bytes(choose("cpu"), "reference") == first


def test_a_failed_measurement_says_nothing(folder, monkeypatch):
    monkeypatch.setattr(fixed.sys, "executable", "false")
    assert fixed.fixed_bytes(choose("cpu"), "reference") is None


def test_damaged_notes_are_measured_again(folder):
    folder.mkdir()
    (folder / "fixed.json").write_text("{")
    assert fixed.fixed_bytes(choose("cpu"), "reference") > 0
