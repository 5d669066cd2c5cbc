"""Runs side by side."""

import math

from fnwork.archive import Archive
from fnwork.compare import compare


def made(archive, name, resolved, results, record=None):
    writer = archive.create(name, "", resolved)
    writer.status(state="finished", results=results)
    if record:
        writer.record(record)
    writer.close()
    return writer.folder


def test_of_118_keys_only_the_one_that_differs_is_shown(tmp_path):
    archive = Archive(tmp_path)
    equal = {f"table{number}": {f"key{key}": key * 0.1 for key in range(13)} for number in range(9)}
    assert sum(len(table) for table in equal.values()) == 117
    first = made(archive, "one", equal | {"train": {"lr": 0.1}}, {"val_loss": 1.0})
    second = made(archive, "one", equal | {"train": {"lr": 0.2}}, {"val_loss": 2.0})
    comparison = compare([first, second])
    assert [(row.key, row.values) for row in comparison.keys] == [("train.lr", (0.1, 0.2))]
    assert [(row.key, row.values) for row in comparison.results] == [("val_loss", (1.0, 2.0))]
    assert [run.path for run in comparison.runs] == [first, second]


def test_a_key_that_only_a_later_run_has_stays_in_its_section(tmp_path):
    archive = Archive(tmp_path)
    first = made(archive, "one", {"model": {"options": {"width": 1}}, "train": {"lr": 0.1}}, {})
    second = made(archive, "two", {"model": {"options": {"width": 2, "rate": 0.5}}, "train": {"lr": 0.2}}, {})
    keys = [row.key for row in compare([first, second]).keys]
    assert keys == ["model.options.width", "model.options.rate", "train.lr"]


def test_equal_runs_differ_in_nothing(tmp_path):
    archive = Archive(tmp_path)
    runs = [made(archive, "one", {"a": math.nan, "b": [1, 2]}, {}) for _ in range(3)]
    assert compare(runs).keys == ()


def test_a_key_that_one_run_lacks_a_type_and_a_list_are_differences(tmp_path):
    archive = Archive(tmp_path)
    first = made(archive, "one", {"x": 1, "flag": True, "augment": ["flip"], "model": {"layers": [{"out": 5}]}}, {})
    second = made(archive, "two", {"flag": 1, "augment": [], "model": {"layers": [{"out": 6}]}}, {})
    assert {row.key: row.values for row in compare([first, second]).keys} == {
        "x": (1, None),
        "flag": (True, 1),
        "augment": (["flip"], []),
        "model.layers.0.out": (5, 6),
    }


def test_figures_of_the_record_are_results_too(tmp_path):
    archive = Archive(tmp_path)
    record = {"best_epoch": 4, "seconds": 9.5, "parameters": 7, "peak": {"total": 100}}
    done = made(archive, "done", {}, {"val_loss": 1.0}, record)
    running = made(archive, "no-record", {}, {})
    assert {row.key: row.values for row in compare([done, running]).results} == {
        "val_loss": (1.0, None),
        "best_epoch": (4, None),
        "seconds": (9.5, None),
        "parameters": (7, None),
        "peak_bytes": (100, None),
    }


def test_a_damaged_run_is_compared_as_an_empty_one(tmp_path):
    archive = Archive(tmp_path)
    good = made(archive, "one", {"a": 1}, {})
    broken = made(archive, "two", {"a": 1}, {})
    (broken / "resolved.toml").write_bytes(b"\xff")
    (broken / "status.json").unlink()
    assert [(row.key, row.values) for row in compare([good, broken]).keys] == [("a", (1, None))]
