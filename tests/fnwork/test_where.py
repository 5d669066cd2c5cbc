"""The filter of the list of runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InputError
from fnwork.where import parse

RUN = {
    "name": "fashion-cnn",
    "state": "finished",
    "val_accuracy": 0.85,
    "val_loss": float("nan"),
    "epoch": 12,
    "train.lr": 1e-3,
    "tags": ["baseline", "first try"],
    "data.augment": [],
    "flag": True,
    "notes": "it's [red]",
}


@pytest.mark.parametrize(
    "expression",
    [
        "val_accuracy>0.8",
        "val_accuracy >= 0.85 and state=finished",
        "val_accuracy<.9",
        "val_accuracy>84.9% and val_accuracy<86%",
        "train.lr=0.001",
        "train.lr == 1e-3",
        "train.lr<=1e-3",
        "state!=failed",
        "missing!=1",
        "not missing=1",
        "not (val_accuracy>0.9 or state=failed)",
        "state=failed or state=finished and epoch>10",
        "(state=failed or state=finished) AND epoch>10",
        'tags="first try"',
        "tags=baseline",
        "tags~first",
        "name~CNN",
        "flag=true",
        "flag!=1",
        'notes~"it\'s [red]"',
        "not val_loss<1",
        "not val_loss>1",
        "val_accuracy>-1",
    ],
)
def test_holds(expression):
    assert parse(expression).test(RUN)


@pytest.mark.parametrize(
    "expression",
    [
        "val_accuracy>0.9",
        "val_accuracy>90%",
        "missing>0",
        "missing=1",
        "missing~a",
        "state=finishe",
        "val_loss=0",
        "state=failed and epoch>10 or name=x",
        "flag>0",
        "tags=first",
        "not state=finished",
        "epoch!=12",
    ],
)
def test_does_not_hold(expression):
    assert not parse(expression).test(RUN)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", "column 1: expected a key"),
        ("val_accuracy", "expected one of > >="),
        ("val_accuracy>", "expected a value, such as 0.8 or finished, got the end"),
        ("val_accuracy>high", "column 14: expected a number, got high"),
        ("a=1 b=2", 'column 4: expected "and" or "or", got b=2'),
        ("(a=1", 'expected "\\)"'),
        ("a=1)", 'expected "and" or "or"'),
        ("and", "expected a key"),
        ('a="open', "expected a key, an operator or a value"),
        ("a=1 and", "expected a key"),
        ("a=1 \x1b[2J", "got ␛"),
        ("(" * 5000 + "a=1", "at most 50"),
        ("not " * 5000 + "a=1", "at most 50"),
    ],
)
def test_a_fault_is_told_with_its_place(expression, said):
    with pytest.raises(InputError, match=said):
        parse(expression)


def test_a_text_has_no_order():
    with pytest.raises(InputError, match="state is a text"):
        parse("state>3")


def test_the_keys_it_asks_for():
    assert parse("a=1 and (b>2 or not a~x)").keys == ("a", "b")


@given(st.text(alphabet="ab=<>!~()\"' andotr01.-_\x1b\n", max_size=40))
def test_any_text_is_a_filter_or_is_refused(text):
    try:
        where = parse(text)
    except InputError:
        return
    assert where.test(RUN) in (True, False)
