"""The confusion matrix and what is told of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fnwork import scores
from fnwork.commands import confusion

NAMES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
CLASSES = 4


@given(st.lists(st.tuples(*[st.integers(0, CLASSES - 1)] * 2), max_size=60))
def test_scores_equal_those_counted_one_by_one(pairs):
    targets, predicted = np.array(pairs, np.int32).reshape(-1, 2).T
    matrix = scores.confusion(targets, predicted, CLASSES)
    for true in range(CLASSES):
        for taken in range(CLASSES):
            assert matrix[true, taken] == pairs.count((true, taken))
    for place, score in enumerate(scores.class_scores(matrix, tuple("abcd"))):
        own = [taken for true, taken in pairs if true == place]
        found = [true for true, taken in pairs if taken == place]
        assert (score.name, score.count) == ("abcd"[place], len(own))
        assert score.recall == (own.count(place) / len(own) if own else None)
        assert score.precision == (found.count(place) / len(found) if found else None)


def test_the_commonest_mistakes_come_first_and_right_answers_are_none():
    matrix = np.array([[50, 2, 0], [7, 40, 3], [0, 0, 9]])
    found = scores.most_confused(matrix, ("a", "b", "c"), 2)
    assert found == [scores.Confused("b", "a", 7, 0.14), scores.Confused("b", "c", 3, 0.06)]
    assert scores.most_confused(np.diag([3, 4, 0]), ("a", "b", "c"), 5) == []


def test_ten_classes_of_a_thousand_fit_into_80_columns():
    matrix = np.full((10, 10), 11)
    np.fill_diagonal(matrix, 1000)
    matrix[6, 0] = 234
    matrix[1, 8] = 0
    lines = confusion.lines(matrix, NAMES, 80)
    assert max(map(cell_len, lines)) <= 80
    begin = next(place for place, line in enumerate(lines) if line.startswith("each row a class"))
    heads, *rows = lines[begin + 1 : begin + 12]
    assert {len(line) for line in (heads, *rows)} == {len(heads)}
    assert heads.split() == [str(place) for place in range(10)]
    assert [row.split()[0] for row in rows] == heads.split()
    assert rows[6].startswith("6 Shirt ") and rows[6].split()[2] == "234"
    assert rows[1].split()[-2] == "·"
    assert "Shirt for T-shirt/top" in lines[-5] and "234" in lines[-5]
    assert any(line.split() == ["Trouser", "1,088", "91.0%", "91.9%"] for line in lines)


def test_short_names_head_the_columns_themselves():
    lines = confusion.lines(np.eye(10, dtype=int) * 50, tuple("0123456789"), 80)
    assert "   0   1   2" in "\n".join(lines)
    assert lines[-1] == "no sample was mistaken"


@pytest.mark.parametrize("width", [20, 60, 80, 200])
@pytest.mark.parametrize("classes", [2, 10, 37, 120])
def test_no_line_of_the_matrix_is_wider_than_the_terminal(width, classes):
    matrix = np.random.default_rng(0).integers(0, 300, (classes, classes))
    names = tuple(f"class number {number} with a long name" for number in range(classes))
    lines = confusion.lines(matrix, names, width)
    begin = next((place for place, line in enumerate(lines) if line.startswith("each row a class")), None)
    if begin is None:
        assert any("is wider than this terminal" in line for line in lines)
        assert (width, classes) != (200, 10)
    else:
        assert max(map(cell_len, lines[begin + 1 : begin + 2 + classes])) <= width


def test_names_are_shown_harmlessly_and_wide_ones_keep_the_columns():
    matrix = np.array([[3, 1], [0, 2]])
    lines = confusion.lines(matrix, ("\x1b[2J[red]", "日本語日本語"), 80)
    assert "\x1b" not in "".join(lines) and "␛[2J[red]" in lines[1]
    begin = next(place for place, line in enumerate(lines) if line.startswith("each row a class"))
    assert len({cell_len(line) for line in lines[begin + 1 : begin + 4]}) == 1


def test_of_many_classes_the_least_recognised_are_listed():
    matrix = np.diag(np.arange(1, 51))
    matrix[20:, 0] = 1
    matrix[3, 3], matrix[3, 4] = 0, 4
    lines = confusion.lines(matrix, tuple(f"kind{number}" for number in range(50)), 80)
    listed = lines[1 : 1 + confusion.MOST_CLASSES]
    assert listed[0].split() == ["kind3", "4", "-", "0.0%"] and listed[1].startswith("kind20 ")
    assert f"these are the {confusion.MOST_CLASSES} of 50 classes with the lowest recall" in lines
