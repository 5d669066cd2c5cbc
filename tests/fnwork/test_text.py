"""Text that others wrote, shown harmlessly."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from fnwork.text import did_you_mean, harmless, nearest


def test_terminal_escapes_become_signs():
    assert harmless("a\x1b[2Jb\r\n\x00\x7f") == "a␛[2Jb␍␊␀␡"
    assert harmless("\x9b31m") == "\ufffd31m"  # the one-character form of escape and bracket
    assert harmless("abc\u202edcba") == "abc\ufffddcba"
    assert harmless("two\nlines\x07", keep_lines=True) == "two\nlines␇"


def test_ordinary_text_stays():
    assert harmless("Zürich [red] 日本 ../x") == "Zürich [red] 日本 ../x"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text):
    shown = harmless(text)
    assert len(shown) == len(text)
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_nearest():
    assert nearest("Adamw", ["sgd", "adamw"]) == "adamw"
    assert nearest("zzz", ["sgd", "adamw"]) is None
    assert did_you_mean("epoch", ["epochs"]) == '; did you mean "epochs"?'
    assert did_you_mean("zzz", ["epochs"]) == ""
