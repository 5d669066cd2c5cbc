"""The schema: defaults, every kind of fault with its place, and all of them at once."""

import re
from pathlib import Path
from typing import get_args

import pytest

from engine.errors import InputError
from fnwork import spec
from fnwork.spec_rules import readable_datasets
from fnwork.text import harmless

GOOD = '[data]\ndataset = "fashion-mini"\n[model]\npreset = "mlp"\n'

EVERY_KEY = """\
name = "fashion-cnn"
notes = "all keys"
tags = ["a", "b"]
seed = 7
[data]
dataset = "fashion-mini"
path = ""
validation = "test"
image_size = 128
augment = ["crop:4", "flip"]
target = ""
task = "classification"
[model]
preset = "cnn8"
options = {}
[train]
epochs = 60
micro_batch = 32
accumulate = 4
loss = "cross-entropy"
label_smoothing = 0.1
optimizer = "adamw"
lr = 1e-3
weight_decay = 0.01
schedule = "cosine"
warmup_epochs = 5
warmup_from = 1e-4
min_lr = 0.0
clip_norm = 0.0
average_decay = 0.0
early_stop = 8
limit_windows = 0
[precision]
mode = "mixed"
loss_scale = 65536
growth_interval = 2000
keep_fp32 = ["1"]
[memory]
budget = "6 GiB"
recompute = "auto"
[device]
use = "auto"
"""


def only_problem(text: str) -> spec.Problem:
    found = spec.problems(text)
    assert len(found) == 1, found
    return found[0]


def with_train(lines: str) -> str:
    return f"{GOOD}[train]\n{lines}\n"


def with_data(lines: str) -> str:
    return f'[model]\npreset = "mlp"\n[data]\n{lines}\n'


def test_defaults():
    read = spec.parse(GOOD, "specs/quick.toml")
    assert read.name == "quick"
    assert (read.train.epochs, read.train.micro_batch, read.train.lr, read.train.loss) == (
        10,
        64,
        1e-3,
        "cross-entropy",
    )
    assert (read.data.validation, read.data.augment, read.precision.mode) == (0.1, (), "fp32")
    assert (read.memory.budget_bytes, read.memory.recompute, read.device.use) == (0, "none", "auto")


def test_every_key_of_the_schema_is_read():
    read = spec.parse(EVERY_KEY)
    flat = spec.flatten(spec.resolved(read))
    given = set(re.findall(r"^(\w+) =", EVERY_KEY, re.MULTILINE))
    assert {key.rsplit(".")[-1] for key in flat} | {"layers"} == given | {"layers"}
    assert read.data.validation == "test"
    assert read.data.augment == ("crop:4", "flip")
    assert read.memory.budget_bytes == 6 * 2**30


def test_a_spec_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        spec.parse(GOOD).train.epochs = 3


def test_whole_numbers_are_taken_where_fractions_are_possible():
    assert spec.parse(with_train("lr = 1")).train.lr == 1.0


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [
        ("epochs = 0", 10, ["whole number from 1", "got 0"]),
        ("epochs = 1e3", 10, ["whole number", "got 1000.0", "write 1000"]),
        ("epochs = 2.5", 10, ["whole number", "got 2.5"]),
        ("epochs = true", 10, ["whole number", "got true"]),
        ('epochs = "3"', 10, ["whole number", 'got "3"', "without quotes"]),
        ("epochs = [3]", 10, ["whole number", "got an array"]),
        ("epochs = 99999999999999999999", 10, ["64 bits"]),
        ("epochs = 2020-01-02", 10, ["whole number", "got a date"]),
        ("lr = 0", 6, ["above 0", "got 0"]),
        ("lr = -1e-3", 6, ["above 0", "got -0.001"]),
        ("lr = nan", 6, ["number", "got nan"]),
        ("lr = inf", 6, ["number", "got inf"]),
        ("lr = true", 6, ["number", "got true"]),
        ('lr = "fast"', 6, ["number", 'got "fast"']),
        ("lr = {}", 6, ["number", "got a table"]),
        ('optimizer = "adamW2"', 13, ["one of", '"sgd"', 'got "adamW2"', 'did you mean "adamw"?']),
        ("optimizer = 3", 13, ["one of", "got 3"]),
        ('schedule = "cosin"', 12, ['did you mean "cosine"?']),
        ('loss = "crossentropy"', 8, ['did you mean "cross-entropy"?']),
        ("label_smoothing = 1.0", 19, ["0.9", "got 1.0"]),
        ("micro_bach = 3", 1, ["unknown key", 'did you mean "micro_batch"?']),
        ("learning_rate = 3", 1, ["unknown key", 'did you mean "lr"?']),
        ("preset = 3", 1, ["unknown key", "belongs to [model]"]),
        ("seed = 3", 1, ["unknown key", "top of the file"]),
        ("xyzzy = 3", 1, ["unknown key", "expected one of", '"epochs"']),
        ('"[red]\\u001b[2J" = 3', 1, ["unknown key"]),
        ("warmup_epochs = 10.5", 17, ["at most train.epochs = 10"]),
        ("min_lr = 0.1", 10, ["at most train.lr = 0.001"]),
        ("warmup_from = 0.1", 15, ["at most train.lr = 0.001"]),
        ('loss = "mse"', 8, ["cross-entropy"]),
    ],
)
def test_train_faults(line, column, words):
    problem = only_problem(with_train(line))
    assert (problem.line, problem.column) == (6, column)
    for word in words:
        assert word in problem.message
    assert str(problem) == harmless(problem)


@pytest.mark.parametrize(
    ("lines", "place", "words"),
    [
        ('dataset = "fashion-mnit"', (4, 11), ["one of", '"fashion-mini"', "did you mean"]),
        ('dataset = "fashion-mini"\npath = "x"', (5, 1), ["has no path"]),
        ('dataset = "image-folder"', (3, 2), ["needs path"]),
        ('dataset = "cifar10"\ntask = "regression"', (5, 8), ["classes"]),
        ('dataset = "npz"\npath = "x.npz"\ntarget = "y"', (6, 1), ["target column"]),
        ('dataset = "text"\naugment = ["flip"]', (5, 12), ["pictures"]),
        ('dataset = "text"\nvalidation = "test"', (5, 14), ["no test part"]),
        ("dataset = 3", (4, 11), ["one of", "got 3"]),
        ('dataset = "fashion-mini"\nvalidation = 0', (5, 14), ["fraction", "got 0"]),
        ('dataset = "fashion-mini"\nvalidation = 1.0', (5, 14), ["fraction", "got 1.0"]),
        ('dataset = "fashion-mini"\nvalidation = "tst"', (5, 14), ['did you mean "test"?']),
        ('dataset = "fashion-mini"\naugment = ["flip", "crop:0"]', (5, 20), ['"crop:N"', 'got "crop:0"']),
        (
            'dataset = "fashion-mini"\naugment = "flip"',
            (5, 11),
            ["an array", 'got "flip"', 'an array of one is ["flip"]'],
        ),
        ('dataset = "fashion-mini"\naugment = ["flip", "flip"]', (5, 20), ["given twice"]),
        ('dataset = "fashion-mini"\naugment = [1]', (5, 12), ["got 1"]),
        ('dataset = "fashion-mini"\ntarget = "x"', (5, 1), ["target column"]),
        ('dataset = "fashion-mini"\ntask = "regression"', (5, 8), ["classes"]),
        ('dataset = "csv"\ntarget = "x"', (3, 2), ["needs path"]),
        ('dataset = "csv"\npath = "x.csv"', (3, 2), ["needs target"]),
        ('dataset = "csv"\npath = "a\\nb"\ntarget = "x"', (5, 8), ["one line"]),
        ('dataset = "csv"\npath = "x.csv"\ntarget = "x"\naugment = ["flip"]', (7, 12), ["pictures"]),
        ('dataset = "csv"\npath = "x.csv"\ntarget = "x"\nvalidation = "test"', (7, 14), ["no test part"]),
    ],
)
def test_data_faults(lines, place, words):
    problem = only_problem(with_data(lines))
    assert (problem.line, problem.column) == place
    for word in words:
        assert word in problem.message


@pytest.mark.parametrize(
    ("lines", "column", "words"),
    [
        ('[memory]\nbudget = "6 GB of it"', 10, ["size"]),
        ('[memory]\nbudget = "0 GiB"', 10, ["size"]),
        ("[memory]\nbudget = 6", 10, ["size", "got 6"]),
        ('[memory]\nrecompute = "every:0"', 13, ["every:N", 'got "every:0"']),
        ('[memory]\nrecompute = "autos"', 13, ['did you mean "auto"?']),
        ('[precision]\nmode = "fp16"', 8, ['"fp32", "mixed"', 'did you mean "mixed"?']),
        ("[precision]\nloss_scale = 0.5", 14, ["from 1"]),
        ("[precision]\nkeep_fp32 = [1]", 14, ["layer names"]),
        ('[device]\nuse = "gpu"', 7, ['did you mean "cuda"?']),
        ('[device]\nuse = "cudda:1"', 7, ['did you mean "cuda:0"?']),
    ],
)
def test_other_faults(lines, column, words):
    problem = only_problem(GOOD + lines)
    assert (problem.line, problem.column) == (6, column)
    for word in words:
        assert word in problem.message


@pytest.mark.parametrize(
    "name", ["../../x", "", ".hidden", "-x", "A", "a b", "a/b", "a\\\\b", "\\u001b[2J", "x.", "x" * 80, "é"]
)
def test_names_that_are_refused(name):
    problem = only_problem(f'name = "{name}"\n{GOOD}')
    assert (problem.line, problem.column, problem.key) == (1, 8, "name")
    assert "a-z 0-9 . _ -" in problem.message
    assert str(problem) == harmless(problem)


@pytest.mark.parametrize("name", ["a", "res3.v2_x-1", "0", "x" * 64])
def test_names_that_are_accepted(name):
    assert spec.parse(f'name = "{name}"\n{GOOD}').name == name


@pytest.mark.parametrize(
    ("file", "name"),
    [("My Spec (2).toml", "my-spec-2"), ("..toml", "experiment"), ("é.toml", "experiment"), ("<spec>", "spec")],
)
def test_a_file_of_any_name_gives_a_legal_name(file, name):
    assert spec.parse(GOOD, file).name == name


def test_regression_is_trained_with_mse_unless_said_otherwise():
    table = with_data('dataset = "csv"\npath = "x.csv"\ntarget = "y"\ntask = "regression"')
    assert spec.parse(table).train.loss == "mse"
    assert spec.parse(table + '[train]\nloss = "huber"').train.loss == "huber"
    problem = only_problem(table + '[train]\nloss = "cross-entropy"')
    assert (problem.line, problem.column) == (9, 8)


@pytest.mark.parametrize("text", ["", "\ufeff", "# only a comment\n", "\r\n\r\n"])
def test_an_empty_text_names_what_is_missing(text):
    found = spec.problems(text)
    assert [problem.key for problem in found] == ["data.dataset", "model"]
    assert '"fashion-mini"' in found[0].message
    assert '"cnn8"' in found[1].message


def test_a_missing_key_is_placed_at_its_table():
    problem = only_problem('[model]\npreset = "mlp"\n\n[data]\nvalidation = 0.2\n')
    assert (problem.line, problem.column, problem.key) == (4, 2, "data.dataset")


def test_a_wrong_value_is_told_beside_a_misspelling_of_its_key():
    found = spec.problems(GOOD + "[train]\nepochs = -1\nepoch = 3\n")
    assert [problem.key for problem in found] == ["train.epochs", "train.epoch"]


def test_a_data_set_that_is_not_there_is_told_with_those_that_are():
    (found,) = spec.problems(GOOD.replace("fashion-mini", "mnits"))
    assert '"mnist"' in found.message and '"cifar10"' in found.message and 'did you mean "mnist"?' in found.message


def test_every_data_set_that_a_spec_may_name_can_be_read():
    assert get_args(spec.Dataset) == readable_datasets()


def test_a_misspelt_table_or_key_is_not_missing_as_well():
    assert [p.key for p in spec.problems('[dta]\ndataset = "fashion-mini"\n[modle]\npreset = "mlp"\n')] == [
        "dta",
        "modle",
    ]
    assert [p.key for p in spec.problems('[data]\ndatset = "mnist"\n[model]\nprest = "mlp"\n')] == [
        "data.datset",
        "model.prest",
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [("data = 3\n", (1, 8)), ("[[data]]\n", (1, 1)), ('data = "fashion-mini"\n', (1, 8))],
)
def test_a_value_where_a_table_belongs(text, place):
    found = spec.problems(text + '[model]\npreset = "mlp"\n')
    assert [(p.line, p.column, p.key) for p in found] == [(*place, "data")]
    assert "expected a table, [data]" in found[0].message


def test_all_errors_are_reported_at_once_in_the_order_of_the_text():
    text = 'seed = "x"\n[data]\ndataset = "fashion-mini"\nvalidation = 2\n[trian]\n'
    text += '[train]\nlr = -1\nepohs = 3\nloss = "mse"\n'
    with pytest.raises(spec.SpecError) as caught:
        spec.parse(text, "a.toml")
    places = [(p.line, p.key) for p in caught.value.problems]
    assert places == [
        (1, "model"),
        (1, "seed"),
        (4, "data.validation"),
        (5, "trian"),
        (7, "train.lr"),
        (8, "train.epohs"),
        (9, "train.loss"),
    ]
    lines = str(caught.value).splitlines()
    assert len(lines) == 7
    assert lines[1].startswith("a.toml:1:8: seed: expected a whole number from 0 to ")
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize(
    ("text", "size"),
    [("6 GiB", 6 * 2**30), ("4GiB", 4 * 2**30), ("512 MiB", 512 * 2**20), ("1.5 GB", 1_500_000_000), ("10 kb", 10_000)],
)
def test_sizes(text, size):
    assert spec.parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "6", "GiB", "-1 GiB", "0 GiB", "6 XiB", "1e3 GiB", "nan GiB", "9" * 50 + " GiB", "\uff16 GiB"]
)
def test_what_is_no_size(text):
    with pytest.raises(InputError, match="expected a size"):
        spec.parse_size(text)


def test_flatten_numbers_layers():
    flat = spec.flatten(
        {"a": 1, "b": {"c": (1, 2), "d": {}}, "layers": [{"type": "relu"}, {"type": "linear", "out": 3}]}
    )
    assert flat == {
        "a": 1,
        "b.c": (1, 2),
        "b.d": {},
        "layers.0.type": "relu",
        "layers.1.type": "linear",
        "layers.1.out": 3,
    }


def test_reading_a_file_keeps_its_bytes(tmp_path: Path):
    path = tmp_path / "windows.toml"
    raw = b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode() + '# ü\r\nnotes = "x"'.encode()
    path.write_bytes(raw.replace(b"[model]", b"# here\r\n[model]"))
    with pytest.raises(spec.SpecError) as caught:
        spec.read(path)
    assert [(p.line, p.column, p.key) for p in caught.value.problems] == [(7, 1, "model.notes")]
    path.write_bytes(raw[: raw.index(b"# ")])
    read, text = spec.read(path)
    assert read.name == "windows"
    assert text.encode() == path.read_bytes()
