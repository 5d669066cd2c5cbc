"""A text: the next character from those before it."""

import numpy as np
import pytest

from engine.data import Loader, Slot
from engine.errors import InputError
from fnwork.datasets import DataSettings, columns, info, load, text_set
from fnwork.datasets.data_info import data_info
from fnwork.datasets.text_set import CONTEXT

TEXT = "the quick brown fox jumps over the lazy dog. " * 10


def settings(path="", **changes):
    return DataSettings(**{"dataset": "text", "path": str(path), "validation": 0.2, **changes})


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "a.txt"


def decoded(data, row):
    """The characters that a row of features stands for."""
    places = row.reshape(CONTEXT, len(data.classes))
    return "".join(data.classes[place.argmax()] if place.any() else "\0" for place in places)


def test_a_sample_is_a_window_and_the_character_after_it(path):
    data = load(settings(path), 0)
    size = len(set(TEXT))
    assert data.classes == tuple(sorted(set(TEXT)))
    assert data.input_shape == (CONTEXT * size,)
    assert len(data.train) == 360 - CONTEXT and len(data.validation) == 90 - CONTEXT
    for part, begin in ((data.train, 0), (data.validation, 360)):
        for place in (0, 5, len(part) - 1):
            assert decoded(data, part.inputs[place]) == TEXT[begin + place : begin + place + CONTEXT]
            assert data.classes[part.targets[place]] == TEXT[begin + place + CONTEXT]


def test_rows_are_made_for_any_index(path):
    rows = load(settings(path), 0).train.inputs
    whole = rows[:]
    assert whole.dtype == np.float32 and whole.shape == rows.shape and (whole.sum(axis=1) == CONTEXT).all()
    for key in (7, slice(3, 9), np.array([4, 1, 4])):
        assert np.array_equal(rows[key], whole[key])
    assert rows.nbytes < whole.nbytes / 50


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_batches_are_made_of_windows(path, dtype):
    data = load(settings(path), 0)
    slots = [Slot(np.empty((7, *data.input_shape), dtype), np.empty(7, np.int32)) for _ in range(2)]
    loader = Loader(data.train, data.preprocessing, slots, seed=0, shuffle=False)
    made = [(batch.inputs.copy(), batch.targets.copy()) for batch in loader.batches(0)]
    inputs, targets = (np.concatenate(parts) for parts in zip(*made, strict=True))
    assert np.array_equal(inputs, data.train.inputs[:]) and np.array_equal(targets, data.train.targets)


def test_every_place_is_a_column_of_categories(path):
    preprocessing = load(settings(path), 0).preprocessing
    assert sum(len(columns.names(column)) for column in preprocessing.columns) == preprocessing.input_shape[0]
    assert [column.name for column in preprocessing.columns][:: CONTEXT - 1] == ["character -16", "character -1"]
    assert all(column.categories == preprocessing.classes for column in preprocessing.columns)


def test_characters_that_train_lacks_are_zeros_and_never_to_be_guessed(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT + "é" + TEXT[:60], encoding="utf-8")
    data = load(settings(tmp_path / "a.txt", validation=0.2), 0)
    assert "é" not in data.classes
    contexts = [decoded(data, row) for row in data.validation.inputs[:]]
    assert sum("\0" in context for context in contexts) == CONTEXT
    assert len(data.validation) == round(len(TEXT + "é" + TEXT[:60]) * 0.2) - CONTEXT - 1
    assert "1 characters are not among" in data.notes[0]


def test_of_many_characters_the_commonest_are_learnt(tmp_path):
    rare = "".join(chr(0x4E00 + number) for number in range(400))
    (tmp_path / "a.txt").write_text(TEXT + rare + TEXT, encoding="utf-8")
    data = load(settings(tmp_path / "a.txt"), 0)
    assert len(data.classes) == text_set.MOST_CHARACTERS
    assert set(TEXT) <= set(data.classes)


def test_python_brings_a_text(monkeypatch):
    data = load(settings(), 0)
    assert len(data.train) > 100_000 and len(data.classes) > 80
    assert data_info(data) == info(settings())
    assert data.nbytes < 20 * 2**20


def test_a_python_without_it_is_told(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pydoc_data.topics", None)
    with pytest.raises(InputError, match=r"data\.path: this Python came without"):
        load(settings(), 0)


def test_marks_and_line_ends_are_those_of_the_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + ("a line\r\nb line\n" * 20).encode())
    data = load(settings(tmp_path / "a.txt"), 0)
    assert "\r" not in data.classes and "\ufeff" not in data.classes and "\n" in data.classes


def test_the_fingerprint_is_that_of_the_text(path):
    first = load(settings(path), 0).fingerprint
    path.write_text(TEXT[:-1] + "!", encoding="utf-8")
    assert load(settings(path), 0).fingerprint != first


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "leaves no samples"),
        (b"short", "too short"),
        (b"x" * 100, "1 different characters"),
        (b"line\nbad \xff\xfe\n" * 10, "line 2: the text is not UTF-8"),
        ("text".encode("utf-16"), "line 1: the text is not UTF-8"),
    ],
)
def test_texts_that_cannot_be_learnt_are_refused(tmp_path, content, said):
    (tmp_path / "a.txt").write_bytes(content)
    for read in (info, lambda each: load(each, 0)):
        with pytest.raises(InputError) as error:
            read(settings(tmp_path / "a.txt"))
        assert said in str(error.value)


def test_what_is_no_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="cannot be read"):
            load(settings(path), 0)
