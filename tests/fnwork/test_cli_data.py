"""fnwork data: what is told of a data set, its pictures in a terminal, and what happens to a run whose data change."""

import io
import json
import os

import numpy as np
import pytest
from rich.console import Console

from fnwork.cli import main
from fnwork.commands import reading, thumbnails
from fnwork.commands.reading import Reading
from fnwork.datasets import DataSettings, load
from fnwork.datasets.facts import facts
from fnwork.run_folder import RunReader
from fnwork.text import size
from tests.fnwork.datasets.trees import classes, picture

SPEC = """\
name = "mine"

[data]
dataset = "image-folder"
path = "../../pictures"
image_size = 8
validation = 0.25

[[model.layers]]
type = "flatten"

[[model.layers]]
type = "linear"

[train]
epochs = 3
micro_batch = 4
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FNWORK_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def pictures(home):
    """12 + 4 pictures, two of them equal."""
    folder = classes(home / "pictures", cats=12, **{"[red]\x1b[2J" if os.name != "nt" else "[red]": 4})
    picture(folder / "cats" / "c1.png", (5, 0, 7))  # as c0
    return folder


@pytest.fixture
def spec(home, pictures):
    path = home / "experiments" / "specs" / "mine.toml"
    path.parent.mkdir(parents=True)
    path.write_text(SPEC)
    return path


def told(capsys, *arguments):
    assert main(["data", *arguments]) == 0
    return capsys.readouterr().out


def test_info_of_a_spec_tells_what_is_in_it(spec, capsys):
    (spec.parents[2] / "pictures" / "cats" / "broken.png").write_bytes(b"")
    out = told(capsys, "info", "mine")
    assert "\x1b" not in out
    for line in ("data set    image-folder", "input       8x8x3", "outputs     2", "train       12 samples"):
        assert line in out.splitlines()
    assert "1 of 17 pictures cannot be read" in out and "cats/broken.png" in out
    assert "the largest class has 3.0 times the samples of the smallest one" in out
    assert "[red]␛[2J" in out
    assert "duplicates" in out


def test_info_as_json_has_every_figure(spec, capsys):
    about = json.loads(told(capsys, "info", str(spec), "--json"))
    assert (about["name"], about["train_samples"], about["validation_samples"]) == ("image-folder", 12, 4)
    assert sum(about["class_counts"]["train"].values()) == 12 and about["class_counts"]["validation"]["cats"] == 3
    assert about["imbalance"] == 3.0
    assert len(about["mean"]) == len(about["deviation"]) == 3
    assert sum(about["duplicates"].values()) == 1


def test_duplicates_are_counted_by_part(home):
    for part, count in (("train", 4), ("val", 3), ("test", 1)):
        classes(home / "d" / part, a=count, b=count)
    picture(home / "d" / "test" / "a" / "new.png", (99, 99, 99))
    data = load(DataSettings("image-folder", str(home / "d"), image_size=8), 0)
    assert facts(data, lambda *each: None).duplicates == {"train": 0, "validation": 6, "test": 2}


def test_facts_of_a_table(archive, spec_path, capsys):
    (spec_path.parent / "small.csv").write_text("a,b,kind\n" + "1,x,warm\n2,y,cold\n" * 20)
    out = told(capsys, "info", str(spec_path))
    assert "column      a: 1.5 ± 0.5" in out and "column      b: 2 categories" in out
    assert "of train have the same input as another one there" in out
    assert "10 samples of validation have the same input as one of train" in out


def test_info_of_a_text_is_short(home, capsys):
    (home / "a.txt").write_text("the quick brown fox jumps over the lazy dog. " * 20)
    out = told(capsys, "info", "text", "--path", "a.txt")
    assert "and 8 more classes" in out and "duplicates" not in out and "column" not in out


def test_list_names_every_data_set_with_a_word_about_it(capsys):
    entries = json.loads(told(capsys, "list", "--json"))
    assert [entry["name"] for entry in entries][3:] == ["cifar10", "image-folder", "csv", "npz", "text"]
    assert all(len(entry["what"]) > 20 for entry in entries)


@pytest.mark.parametrize(
    ("name", "said"),
    [("text", "comes with Python"), ("fashion-mini", "comes with fnwork"), ("npz", "NumPy arrays of your own")],
)
def test_what_is_not_downloaded_is_told(name, said, capsys):
    assert main(["data", "get", name]) == 0
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["info", "image-folder"], "needs path"),
        (["info", "image-folder", "--path", "absent"], "is not there"),
        (["info", "csv", "--path", "absent.csv"], "cannot be read"),
        (["info", "mnist"], "`fnwork data get mnist` downloads it"),
        (["info", "mnits"], 'did you mean "mnist"?'),
    ],
)
def test_what_cannot_be_told_is_refused(arguments, said, capsys):
    assert main(["data", *arguments]) == 2
    assert said in capsys.readouterr().err


# --- pictures in a terminal ---


def shown(images, titles=None, **options):
    stream = io.StringIO()
    console = Console(file=stream, width=80, **options)
    thumbnails.show(images, titles or ["a"] * len(images), console)
    return stream.getvalue()


def test_pictures_have_two_pixels_a_cell_in_colour():
    image = np.zeros((36, 36, 3), np.uint8)
    image[:18] = (200, 0, 0)
    out = shown([image], force_terminal=True, color_system="truecolor", no_color=False)
    assert out.count("▀") == 18 * 9
    assert "38;2;200;0;0" in out and "48;2;0;0;0" in out


@pytest.mark.parametrize("options", [{"force_terminal": False}, {"force_terminal": True, "no_color": True}])
def test_without_colours_pictures_are_characters(options):
    image = np.zeros((18, 18, 1), np.uint8)
    image[:, 9:] = 255
    lines = shown([image, image], ["left", "right\x1b[2J"], **options).splitlines()
    assert lines[0] == " " * 9 + "@" * 9 + " " * 11 + "@" * 9
    assert len(lines) == 10
    assert lines[-1] == "left" + " " * 16 + "right␛[2J"


def test_as_many_pictures_are_in_a_row_as_there_is_room_for():
    images = [np.full((4, 8, 3), 255, np.uint8)] * 6
    lines = shown(images, list("abcdef"), force_terminal=False).splitlines()
    assert [line.split() for line in lines if "@" not in line and line] == [["a", "b", "c", "d"], ["e", "f"]]


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 300, 3), (300, 1, 3), (7, 7, 4), (5, 9, 2)])
def test_pictures_of_any_shape_are_shown(shape):
    assert "@" in shown([np.full(shape, 255, np.uint8)], force_terminal=False)


# --- progress ---


def test_without_a_terminal_a_line_tells_of_what_takes_long(capsys, monkeypatch):
    with Reading(size) as told:
        told("quick", 0, 10)
        told("quick", 5, 10)
        monkeypatch.setattr(reading, "_PATIENCE", 0.0)
        for done in (2**20, 2**20 + 1, 2**21):
            told("a\x1b.bin", done, 2**21)
        told("at once", 100, 100)
    assert capsys.readouterr().err == "a␛.bin: 1.0 MiB of 2.0 MiB\n"


def test_on_a_terminal_a_bar_shows_how_far_it_is(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(reading.sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with Reading() as told:
        told("decoding train", 0, 20_000)
        told("decoding train", 10_000, 20_000)
    assert "decoding train" in stream.getvalue() and "10,000 of 20,000" in stream.getvalue()


# --- runs ---


def test_a_run_on_pictures_tells_what_was_left_out_and_keeps_the_classes(spec, capsys, monkeypatch):
    (spec.parents[2] / "pictures" / "cats" / "broken.png").write_bytes(b"")
    monkeypatch.setattr(reading, "_PATIENCE", 0.0)
    assert main(["run", "mine"]) == 0
    captured = capsys.readouterr()
    assert "decoding pictures: 0 of 17" in captured.err
    assert "cats/broken.png" in captured.out
    (folder,) = (spec.parents[1] / "runs").iterdir()
    assert any("cats/broken.png" in event.get("message", "") for event in RunReader(folder).events())
    assert main(["predict", "last", "pictures/cats/c3.png", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert set(answer["probabilities"]) == {"cats", "[red]\x1b[2J" if os.name != "nt" else "[red]"}


def test_data_that_changed_since_a_run_began_are_noticed(spec, pictures, capsys):
    assert main(["run", "mine", "--set", "train.limit_windows=1", "--set", "train.epochs=9"]) == 0
    (folder,) = (spec.parents[1] / "runs").iterdir()
    status = json.loads((folder / "status.json").read_text())
    (folder / "record.toml").unlink()
    (folder / "status.json").write_text(json.dumps(status | {"state": "stopped"}))
    picture(pictures / "cats" / "c5.png", (1, 1, 1))
    assert main(["resume", "last"]) == 2
    assert "changed since the run began" in capsys.readouterr().err
    picture(pictures / "cats" / "c5.png", (5, 5, 7))  # as it was, at another time
    assert main(["resume", "last"]) == 0
    (pictures / "cats").rename(pictures / "tigers")
    (folder / "status.json").write_text(json.dumps(status | {"state": "stopped"}))
    assert main(["resume", "last"]) == 2
    assert "changed since the run began" in capsys.readouterr().err


def test_the_forecast_counts_pictures_as_the_run_does(spec, capsys):
    assert main(["forecast", "mine", "--json"]) == 0
    forecast = json.loads(capsys.readouterr().out)
    assert main(["run", "mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["record"]["peak"] == forecast["peak"]


def test_a_path_is_relative_to_the_spec(spec, home, monkeypatch, capsys):
    monkeypatch.chdir(home / "experiments" / "specs")
    assert main(["check", "mine.toml"]) == 0
    assert main(["check", "mine.toml", "--set", "data.path=pictures"]) == 2
    assert f"{home / 'experiments' / 'specs' / 'pictures'} is not there" in capsys.readouterr().err
