"""Using a trained model from the command line: predicting new inputs, testing."""

import csv
import dataclasses
import io
import json
import platform
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fnwork import inputs
from fnwork.archive import Archive
from fnwork.cli import main
from fnwork.run_folder import RunReader

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import keep_record
from idx_files import write

SIDE = 8
DIGITS = """\
name = "digits"
[data]
dataset = "mnist"
path = "digits"
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "linear"
[train]
epochs = 3
micro_batch = 20
lr = 0.01
"""
PRICES = """\
name = "prices"
[data]
dataset = "csv"
path = "prices.csv"
target = "price"
task = "regression"
[[model.layers]]
type = "linear"
[train]
epochs = 30
micro_batch = 16
lr = 0.03
"""
ROWS = "a,kind,price\n" + "".join(
    f"{number % 7}.5,{'xy'[number % 2]},{1000 + 100 * (number % 7) + 10 * (number % 2)}\n" for number in range(140)
)


def digits(samples, seed):
    """Pictures of a bright row, whose place is the class."""
    random = np.random.default_rng(seed)
    classes = np.arange(samples, dtype=np.uint8) % SIDE
    pictures = random.integers(0, 60, (samples, SIDE, SIDE), np.uint8)
    pictures[np.arange(samples), classes] = 220
    return pictures, classes


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which a classifier of pictures and a regression of a table were trained."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "stdin", io.StringIO())
        patch.setattr("platformdirs.user_cache_dir", lambda name: str(folder / "cache"))
        Path("digits").mkdir()
        for part, samples, seed in (("train", 400, 0), ("t10k", 80, 1)):
            pictures, classes = digits(samples, seed)
            write(folder / f"digits/{part}-images-idx3-ubyte.gz", pictures)
            write(folder / f"digits/{part}-labels-idx1-ubyte.gz", classes)
        Path("prices.csv").write_text(ROWS)
        for name, text in (("digits", DIGITS), ("prices", PRICES)):
            Path(f"{name}.toml").write_text(text)
            assert main(["run", f"{name}.toml"]) == 0
    return folder


@pytest.fixture(autouse=True)
def in_a_copy_of_it(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")


def said(capsys, *arguments, code=0):
    capsys.readouterr()
    assert main([*arguments]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured


def rows_of(text):
    return list(csv.reader(io.StringIO(text)))


def save(name, picture):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).save(name)


def test_test_tells_what_was_mistaken_for_what(capsys):
    found = json.loads(said(capsys, "test", "digits", "--json").out)
    matrix = np.array(found["confusion"])
    assert matrix.sum() == 80 and matrix.sum(axis=1).tolist() == [10] * 8 + [0, 0]
    assert found["test_accuracy"] == pytest.approx(matrix.trace() / 80)
    assert [each["name"] for each in found["classes"]] == list("0123456789")
    assert found["classes"][9] == {"name": "9", "count": 0, "precision": None, "recall": None}
    assert set(found) == {"test_loss", "test_accuracy", "classes", "confusion"}
    shown = said(capsys, "test", "digits")
    assert "test_accuracy" in shown.out and "each row a class" in shown.out and shown.err == ""


def test_test_of_data_that_changed(trained, tmp_path, capsys):
    pictures, classes = digits(40, 2)
    write(Path("digits/t10k-images-idx3-ubyte.gz"), pictures)
    write(Path("digits/t10k-labels-idx1-ubyte.gz"), classes)
    resolved = next(Path("experiments/runs").glob("*-digits")) / "resolved.toml"
    resolved.write_text(resolved.read_text().replace(str(trained), str(tmp_path / "here")))
    shown = said(capsys, "test", "digits", "--json")
    assert "the data changed since the run began" in shown.err
    assert sum(map(sum, json.loads(shown.out)["confusion"])) == 40
    for part, samples in (("train", 400), ("t10k", 80)):
        write(Path(f"digits/{part}-images-idx3-ubyte.gz"), np.zeros((samples, 5, 5), np.uint8))
        write(Path(f"digits/{part}-labels-idx1-ubyte.gz"), (np.arange(samples) % 8).astype(np.uint8))
    assert "other classes or shapes" in said(capsys, "test", "digits", code=2).err


def test_a_folder_stands_for_the_pictures_in_it(capsys):
    for number, pixels in enumerate(digits(8, 3)[0]):
        save(f"new/{'even' if number % 2 == 0 else 'odd/deeper'}/{number}.PNG", pixels)
    for name in ("new/.DS_Store", "new/Thumbs.db", "new/even/._0.png", "new/notes.txt"):
        Path(name).write_bytes(b"none")
    save("single.png", digits(6, 8)[0][5])
    found = json.loads(said(capsys, "predict", "digits", "new", "single.png", "--json").out)
    order = ["0", "2", "4", "6", "1", "3", "5", "7", "single"]
    assert [Path(each["input"]).stem for each in found] == order
    assert [each["class"] for each in found] == [*order[:-1], "5"]
    Path("empty").mkdir()
    assert "a folder with no picture in it" in said(capsys, "predict", "digits", "empty", code=2).err


def test_many_pictures_are_read_in_pieces(capsys, monkeypatch):
    for number, pixels in enumerate(digits(11, 4)[0]):
        save(f"new/{number:02}.png", pixels)
    Path("new/05.png").write_bytes(b"broken")
    at_once = said(capsys, "predict", "digits", "new", "--csv", code=2)
    monkeypatch.setattr(inputs, "MOST_BYTES", 4 * SIDE * SIDE + 1)
    sizes, concatenate = [], np.concatenate
    monkeypatch.setattr(inputs.np, "concatenate", lambda arrays: sizes.append(len(arrays)) or concatenate(arrays))
    in_pieces = said(capsys, "predict", "digits", "new", "--csv", code=2)
    assert in_pieces.out == at_once.out and len(rows_of(at_once.out)) == 11
    assert "05.png: not a picture" in in_pieces.err and in_pieces.err.count("\n") == 1
    assert max(sizes) == 4


def test_csv_has_a_row_an_input_and_a_column_a_class(capsys):
    for number, pixels in enumerate(digits(3, 5)[0]):
        save(f"{number}, new.png", pixels)
    names = sorted(str(path) for path in Path().glob("*.png"))
    head, *rows = rows_of(said(capsys, "predict", "digits", *names, "--csv").out)
    assert head == ["input", "class", "probability", *(f"p({number})" for number in range(10))]
    assert [row[0] for row in rows] == names and [row[1] for row in rows] == ["0", "1", "2"]
    for row in rows:
        probabilities = [float(value) for value in row[3:]]
        assert sum(probabilities) == pytest.approx(1, abs=1e-4) and float(row[2]) == max(probabilities)
    assert "leave the other out" in said(capsys, "predict", "digits", "gone.png", "--csv", "--json", code=2).err


def test_pictures_of_every_kind_are_read(capsys):
    grey = np.repeat(np.repeat(digits(6, 6)[0][5], 4, axis=0), 4, axis=1)
    upright = Image.fromarray(grey)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    kinds = {
        "plain.png": upright,
        "palette.gif": upright.convert("P"),
        "colour.jpg": upright.convert("RGB"),
        "print.tif": upright.convert("CMYK"),
        "deep.png": Image.fromarray(grey.astype(np.uint16) * 257),
        "alpha.png": Image.merge("LA", (upright, Image.new("L", upright.size, 255))),
    }
    for name, picture in kinds.items():
        save(name, picture)
    upright.rotate(90, expand=True).save("turned.jpg", exif=exif)
    upright.convert("1").save("bits.png")
    Image.new("L", (1, 1)).save("dot.png")
    names = [*kinds, "turned.jpg"]
    found = json.loads(said(capsys, "predict", "digits", *names, "--json").out)
    assert [each["class"] for each in found] == ["5"] * len(names)
    assert len(rows_of(said(capsys, "predict", "digits", "bits.png", "dot.png", "--csv").out)) == 3
    whole = Path("plain.png").read_bytes()
    Path("cut.png").write_bytes(whole[: len(whole) // 2])
    Path("nothing.png").write_bytes(b"")
    for name in ("cut.png", "nothing.png", "prices.csv", "gone.png"):
        shown = said(capsys, "predict", "digits", name, code=2)
        assert shown.out == "" and shown.err.startswith(f"{name}: ") and shown.err.count("\n") == 1


def test_names_that_a_terminal_obeys_are_shown_harmlessly(capsys):
    name = "\x1b[2J[red]\n.png"
    try:
        save(name, digits(1, 7)[0][0])
    except OSError:
        pytest.skip("no file can have such a name here")
    for option in ([], ["--csv"], ["--json"]):
        assert "\x1b" not in said(capsys, "predict", "digits", name, *option).out
    Path(name).write_bytes(b"broken")
    shown = said(capsys, "predict", "digits", name, code=2).err
    assert "\x1b" not in shown and shown.startswith("␛[2J[red]␊.png: ")


@pytest.mark.parametrize(
    "text",
    [
        "a,kind\n0.5,x\n4.5,y\n",
        "\ufeffkind;a;more\nx;0,5;1\ny;4,5;2\n",
        "kind\ta\r\nx\t0.5\r\ny\t4.5\r\n",
    ],
)
def test_a_table_may_be_written_in_other_ways_than_the_one_trained_on(capsys, text):
    Path("new.csv").write_text(text, encoding="utf-8", newline="")
    head, *rows = rows_of(said(capsys, "predict", "prices", "new.csv", "--csv").out)
    assert head == ["input", "price"] and [row[0] for row in rows] == ["new.csv:2", "new.csv:3"]
    assert [float(row[1]) for row in rows] == pytest.approx([1000, 1410], abs=5)


def test_values_that_were_not_trained_on_are_noted_and_never_nan(capsys):
    Path("new.csv").write_text("a,kind\n,x\n1.5,z\n1e9,y\n")
    shown = said(capsys, "predict", "prices", "new.csv", "--json")
    assert all(np.isfinite(each["value"]) for each in json.loads(shown.out))
    assert "1 of 3 values are missing" in shown.err and '"z"' in shown.err and "standard deviations" in shown.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,price\n1,2\n", '"kind"'),
        ("a,kinds\n1,x\n", 'is it "kinds"?'),
        ("a,kind\n1,x\n2\n", "line 3"),
        ("a,kind\n1,x\ninf,y\n", "line 3"),
        ("a,kind\nmuch,x\n", 'line 2, column "a"'),
        ("a,kind\n", "no rows"),
        ("", "header"),
    ],
)
def test_a_table_that_does_not_fit_the_model_is_refused(capsys, text, reason):
    Path("new.csv").write_text(text)
    shown = said(capsys, "predict", "prices", "new.csv", code=2)
    assert reason in shown.err and shown.err.startswith("new.csv") and shown.out == ""
    assert shown.err.count("\n") == 1


def test_a_file_of_another_kind_is_refused_with_what_is_expected(capsys):
    save("new.png", digits(1, 8)[0][0])
    for name in ("new.png", "experiments", "new.npz"):
        assert "a .csv file is expected" in said(capsys, "predict", "prices", name, code=2).err
    assert "no test part" in said(capsys, "test", "prices", code=2).err


def test_a_record_is_kept_without_weights_and_without_traces_of_the_machine(trained, capsys, monkeypatch):
    run = next((trained / "experiments/runs").glob("*-digits"))
    monkeypatch.setattr(keep_record, "STEPS", 10)
    folder = keep_record.keep(run, Path("kept/runs"))
    assert {path.suffix for path in folder.iterdir()} == {".toml", ".json", ".jsonl"}
    text = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    assert str(trained) not in text and platform.node() not in text
    assert not {"pid", "host", "process_started"} & set(json.loads((folder / "status.json").read_text()))
    [kept] = Archive(Path("kept")).list()
    [original] = (each for each in Archive(trained / "experiments").list() if each.name == "digits")
    assert dataclasses.replace(kept, path=original.path) == original and (kept.state, kept.problem) == ("finished", "")
    assert RunReader(folder).resolved()["used"]["data_path"] == ""  # they lie outside of the experiments folder
    assert keep_record.data_path(str(run.parents[1] / "data/digits"), run) == "../../data/digits"
    events, before = RunReader(folder).events(), RunReader(run).events()
    steps = [event["step"] for event in events if event["kind"] == "step"]
    assert steps == list(range(4, 55, 5))
    assert [each for each in events if each["kind"] != "step"] == [each for each in before if each["kind"] != "step"]
    assert said(capsys, "--experiments", "kept", "show", "last").err == ""
    assert "its record alone" in said(capsys, "--experiments", "kept", "predict", "last", "gone.png", code=2).err


ARRAYS = (
    DIGITS.replace('"digits"', '"arrays"').replace('"mnist"', '"npz"').replace('path = "arrays"', 'path = "arrays.npz"')
)


@pytest.fixture
def of_pictures():
    """A model of an array of pictures in colour."""
    pictures, classes = digits(200, 9)
    np.savez("arrays.npz", x=np.repeat(pictures[..., None], 3, axis=3), y=classes)
    Path("arrays.toml").write_text(ARRAYS)
    assert main(["run", "arrays.toml"]) == 0


def test_an_array_holds_many_pictures(of_pictures, capsys):
    pictures, classes = digits(300, 10)
    np.savez("new.npz", x=np.repeat(pictures[..., None], 3, axis=3))
    save("new.png", np.repeat(pictures[3][..., None], 3, axis=2))
    found = json.loads(said(capsys, "predict", "arrays", "new.npz", "new.png", "--json").out)
    assert [each["class"] for each in found] == [*map(str, classes), "3"]
    assert [found[0]["input"], found[299]["input"]] == ["new.npz:0", "new.npz:299"]
    assert found[3]["probabilities"] == pytest.approx(found[300]["probabilities"], abs=1e-6)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((2, SIDE, SIDE, 1), np.uint8), "(2, 8, 8, 1); the model was trained on (samples, 8, 8, 3)"),
        (np.zeros((2, 9, SIDE, 3), np.uint8), "(2, 9, 8, 3)"),
        (np.zeros((SIDE, SIDE, 3), np.uint8), "(8, 8, 3)"),
        (np.zeros((2, SIDE, SIDE, 3), np.float32), "uint8"),
        (np.zeros((0, SIDE, SIDE, 3), np.uint8), "empty"),
        (np.array([{"a": 1}]), "Python objects"),
    ],
)
def test_an_array_that_does_not_fit_the_model_is_refused(of_pictures, capsys, array, reason):
    np.savez("new.npz", x=array)
    shown = said(capsys, "predict", "arrays", "new.npz", code=2)
    assert shown.err.startswith("new.npz: x ") and reason in shown.err and shown.err.count("\n") == 1
    assert shown.out == ""


def test_a_file_that_is_no_array_is_refused(of_pictures, capsys):
    np.savez("new.npz", y=np.zeros(3))
    assert "has no array x" in said(capsys, "predict", "arrays", "new.npz", code=2).err
    Path("new.npz").write_bytes(b"broken")
    assert said(capsys, "predict", "arrays", "new.npz", code=2).err.startswith("new.npz: ")


def test_test_of_a_regression_is_in_real_units(capsys):
    x = np.random.default_rng(12).normal(size=(300, 2)).astype(np.float32)
    y = 5000 + 300 * x[:, 0] + np.where(np.arange(300) % 2, 20, -20)
    np.savez("arrays.npz", x_train=x[:200], y_train=y[:200], x_test=x[200:], y_test=y[200:])
    text = PRICES.replace('"prices"', '"arrays"').replace('"csv"', '"npz"').replace("prices.csv", "arrays.npz")
    Path("arrays.toml").write_text(text.replace('target = "price"\n', ""))
    assert main(["run", "arrays.toml"]) == 0
    found = json.loads(said(capsys, "test", "arrays", "--json").out)
    assert set(found) == {"test_loss", "test_r2", "test_mae", "test_rmse"}
    assert found["test_mae"] == pytest.approx(20, abs=3) and found["test_rmse"] == pytest.approx(20, abs=3)
    assert "test part, y" in said(capsys, "test", "arrays").out


def test_an_array_of_numbers_is_predicted_in_real_units(capsys):
    random = np.random.default_rng(11)
    x = random.normal(size=(300, 3)) * (1, 10, 100)
    np.savez("arrays.npz", x=x, y=5000 + 10 * x[:, 0] - 2 * x[:, 2])
    text = PRICES.replace('"prices"', '"arrays"').replace('"csv"', '"npz"').replace("prices.csv", "arrays.npz")
    Path("arrays.toml").write_text(text.replace('target = "price"\n', ""))
    assert main(["run", "arrays.toml"]) == 0
    np.savez("new.npz", x=x[:5], more=np.zeros(2))
    rows = rows_of(said(capsys, "predict", "arrays", "new.npz", "--csv").out)[1:]
    assert [float(row[1]) for row in rows] == pytest.approx((5000 + 10 * x[:5, 0] - 2 * x[:5, 2]).tolist(), rel=0.01)
    np.savez("new.npz", x=x[:, :2])
    shown = said(capsys, "predict", "arrays", "new.npz", code=2).err
    assert shown.startswith("new.npz: ") and "x2" in shown
    np.savez("new.npz", x=np.zeros((2, 3, 4), np.uint8))
    assert (
        "(2, 3, 4); the model was trained on (samples, columns)"
        in said(capsys, "predict", "arrays", "new.npz", code=2).err
    )


def test_of_a_text_the_character_that_follows_is_predicted(capsys):
    Path("verse.txt").write_text("ab\n" * 400)
    text = (
        DIGITS.replace('"digits"', '"verse"')
        .replace('"mnist"', '"text"')
        .replace('path = "verse"', 'path = "verse.txt"')
    )
    Path("verse.toml").write_text(text)
    assert main(["run", "verse.toml"]) == 0
    Path("new.txt").write_bytes(b"\xef\xbb\xbf" + b"ab\r\n" * 7 + b"a")
    Path("other.txt").write_text("ab\n" * 7 + "ab")
    found = json.loads(said(capsys, "predict", "verse", "new.txt", "other.txt", "--json").out)
    assert [(each["input"], each["class"]) for each in found] == [("new.txt", "b"), ("other.txt", "\n")]
    shown = said(capsys, "predict", "verse", "other.txt", "--csv").out
    assert rows_of(shown)[1][:2] == ["other.txt", "␊"]
    for content, reason in ((b"ab", "2 characters"), (b"\xff" * 20, "not UTF-8")):
        Path("new.txt").write_bytes(content)
        shown = said(capsys, "predict", "verse", "new.txt", code=2).err
        assert shown.startswith("new.txt") and reason in shown
