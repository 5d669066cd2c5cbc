"""Values from the command line: into the text, with the person's comments left as they are."""

import tomllib
from pathlib import Path

import pytest

from fnwork import spec
from fnwork.text import harmless

TEXT = """\
# my first network
[data]
dataset = "fashion-mini"   # bundled

[model]
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "linear"            # the last one

[train]
epochs = 3                 # short
lr = 1e-3
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "first.toml"
    file.write_bytes(TEXT.encode())
    return file


def test_a_value_is_replaced_and_every_comment_stays(path):
    read, text = spec.read(path, ["train.epochs=5"])
    assert read.train.epochs == 5
    assert text == TEXT.replace("epochs = 3 ", "epochs = 5 ")


def test_new_keys_and_tables(path):
    settings = [
        "seed=4",
        "train.optimizer=sgd",
        "memory.budget=6 GiB",
        "notes=",
        'data.augment=["flip"]',
        "model.layers.1.out=10",
    ]
    read, text = spec.read(path, settings)
    assert (read.seed, read.train.optimizer, read.memory.budget, read.notes) == (4, "sgd", "6 GiB", "")
    assert read.data.augment == ("flip",)
    assert read.model.layers[1] == {"type": "linear", "out": 10}
    for comment in ("# my first network", "# bundled", "# the last one", "# short"):
        assert comment in text
    assert spec.parse(text) == read.model_copy(update={"name": "spec"})


def test_the_last_setting_of_a_key_counts(path):
    assert spec.read(path, ["train.lr=1", "train.lr=2"])[0].train.lr == 2


@pytest.mark.parametrize(
    ("setting", "key", "words"),
    [
        ("train.epochs=many", "train.epochs", ["whole number", 'got "many"']),
        ("train.epohs=3", "train.epohs", ["unknown key", 'did you mean "epochs"?']),
        ("trian.epochs=3", "trian", ["unknown table", 'did you mean "train"?']),
        ("train.epochs", "", ["expected KEY=VALUE"]),
        ("=3", "", ["expected KEY=VALUE"]),
        ("train..lr=3", "", ["expected KEY=VALUE"]),
        ("train.lr=nan", "train.lr", ["got nan"]),
        ("train.lr.x=3", "train.lr.x", ["no such table"]),
        ("model.layers.7.out=3", "model.layers.7.out", ["no such table or layer"]),
        ("model.layers.x=3", "model.layers.x", ["no such table or layer"]),
        ("model.layers.1.out=x", "model.layers.1.out", ["whole number"]),
        ("name=../x", "name", ["a-z"]),
        ("train.optimizer=\x1b[2J", "train.optimizer", ["one of"]),
    ],
)
def test_a_wrong_setting_is_named(path, setting, key, words):
    with pytest.raises(spec.SpecError) as caught:
        spec.read(path, [setting])
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (0, key)
    for word in words:
        assert word in problem.message
    assert str(caught.value).startswith("--set")
    assert str(caught.value) == harmless(caught.value)
    assert path.read_bytes() == TEXT.encode()


def test_faults_of_the_file_keep_their_place_beside_those_of_settings(path):
    path.write_text(TEXT + "clip_norm = -1\n", encoding="utf-8")
    with pytest.raises(spec.SpecError) as caught:
        spec.read(path, ["seed=-1", "notes=x"])
    assert [(p.line, p.column, p.key) for p in caught.value.problems] == [(0, 0, "seed"), (14, 13, "train.clip_norm")]


def test_windows_line_ends_and_the_byte_order_mark_stay(path):
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    _, text = spec.read(path, ["train.epochs=5"])
    assert text == "\ufeff" + TEXT.replace("epochs = 3 ", "epochs = 5 ").replace("\n", "\r\n")


def test_dotted_keys_at_the_top_can_be_set(path):
    path.write_text('data.dataset = "fashion-mini"\nmodel.preset = "mlp"\ntrain.lr = 1\n', encoding="utf-8")
    read, text = spec.read(path, ["train.lr=2", "train.epochs=3", "data.validation=test"])
    assert (read.train.lr, read.train.epochs, read.data.validation) == (2.0, 3, "test")
    assert tomllib.loads(text)["train"] == {"lr": 2, "epochs": 3}
