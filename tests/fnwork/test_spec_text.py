"""Broken TOML, broken files, and the places of keys and values."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.errors import InputError
from fnwork import spec
from fnwork.spec_text import LARGEST_FILE, find_places, parse_text, read_text
from fnwork.text import harmless

GOOD = '[data]\ndataset = "fashion-mini"\n[model]\npreset = "mlp"\n'


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("[train]\noptimizer = adamw\n", 6, 13, ["bare word adamw", 'write "adamw"']),
        ("[train]\nepochs = \n", 6, 10, ["expected a value", "got nothing"]),
        ("[device]\nuse = 'auto\n", 6, 1, ["never closed"]),
        ('[device]\nuse = "auto\n', 6, 12, ["never closed"]),
        ("[precision]\nkeep_fp32 = [\n# all\n", 6, 1, ["begun here is never closed"]),
        ('[precision]\nkeep_fp32 = ["1"\n[memory]\n', 6, 1, ["begun here is never closed"]),
        ("[train]\nlr = 1\n  lr = 2\n", 7, 3, ["given twice"]),
        ("[model]\n", 5, 1, ["table is given twice"]),
        ("[train]\nlr 1\n", 6, 4, ["expected = and a value after lr, got 1"]),
        ("[train]\n= 3\n", 6, 1, ["a line such as epochs = 3", "got = 3"]),
        ("[train]\nlr = 1 2\n", 6, 8, ["nothing more on this line after lr = 1, got 2"]),
        ("[train]\nlr = " + "9" * 5000 + "\n", 6, 1, ["64 bits"]),
        ("[train]\nlr = " + "[" * 4000 + "\n", 6, 1, ["nested too deeply"]),
        ("[train]\nlr = .5\n", 6, 6, ["expected a value", "got .5"]),
        ("[train]\nlr = 1,5\n", 6, 7, ["nothing more on this line after lr = 1, got ,5"]),
        ("[train]\nlr = True\n", 6, 6, ["write true"]),
        ("[train\nlr = 1\n", 5, 7, ["expected ] at the end of a heading"]),
        ("[train x]\n", 5, 8, ["expected ]", "got x]"]),
        ("[]\n", 5, 2, ["the name of a key or a table, got ]"]),
        ("notes = 'x", 5, 11, ["a quote is missing"]),
        ("x# later\n", 5, 2, ["expected = and a value after x", "a remark begins with #"]),
        ('notes = "C:\\q"\n', 5, 14, ["backslash"]),
        ("tags = ['a' 'b']\n", 5, 13, ["a comma or ] in this list, got 'b'"]),
        ("data = {a = 1 b = 2}\n", 5, 15, ["a comma or } in this table"]),
        ('notes = "\x01"\n', 5, 10, ["cannot be seen"]),
        ("a\rb = 1\n", 5, 2, ["expected"]),
        ("a\x00 = 1\n", 5, 2, ["expected"]),
    ],
)
def test_syntax_errors_have_a_place(text, line, column, words):
    found = spec.problems(GOOD + text)
    assert len(found) == 1, found
    assert (found[0].line, found[0].column) == (line, column)
    for word in words:
        assert word in found[0].message
    assert str(found[0]) == harmless(found[0])


def test_syntax_errors_do_not_hide_each_other_nor_wrong_values():
    text = GOOD + '[train]\noptimizer = adamw\nlr = fast\nepochs = 0\n[memory]\nbudget = "6 GiB\n'
    assert [(p.line, p.column) for p in spec.problems(text)] == [(6, 13), (7, 6), (8, 10), (10, 16)]


def test_the_keys_of_a_broken_table_do_not_fall_to_the_table_above():
    assert [p.line for p in spec.problems(GOOD + "[train\nlr = 1\n")] == [5]
    assert [p.line for p in spec.problems(GOOD + "[ train ] x\nlr = -1\n")] == [5, 6]
    assert [p.line for p in spec.problems(GOOD + "[train]\nlr = 1\n[device]\n[train]\nlr = 2\n[memory]\nx = 1\n")] == [
        8,
        11,
    ]


def test_a_broken_statement_is_not_called_missing_as_well():
    assert [p.line for p in spec.problems("[data]\ndataset = fashion-mini\n[model]\npreset = mlp\n")] == [2, 4]


def test_an_unclosed_long_text_is_one_problem():
    found = spec.problems(GOOD + '[train]\nlr = """\nepochs = 3\nxyz\n[what]\n')
    assert [(p.line, p.column) for p in found] == [(6, 1)]


def test_places_count_characters_and_know_every_way_to_write_a_key():
    text = (
        'notes = "é"\n"tags" = [ "é", 3 ]\ntrain.lr = 1\n[model]\noptions = { width = 1, "a b" = { c = 2 } }\n'
        '[[model.layers]]\ntype = "conv"\n[[model.layers]]\ntype = "relu"\nsize = [\n  1,  # é\n  2,\n]\n'
    )
    places = find_places(text)
    assert places.value(("notes",)) == (1, 9)
    assert places.key(("tags",)) == (2, 1)
    assert places.value(("tags", 1)) == (2, 17)
    assert places.key(("train", "lr")) == (3, 7)
    assert places.value(("train", "lr")) == (3, 12)
    assert places.value(("model", "options", "a b", "c")) == (5, 38)
    assert places.value(("model", "layers", 0, "type")) == (7, 8)
    assert places.key(("model", "layers", 1)) == (8, 1)
    assert places.value(("model", "layers", 1, "size", 1)) == (12, 3)
    assert places.key(("model", "layers", 1, "missing")) == (8, 1)
    assert places.key(("nowhere",)) == (1, 1)


def test_places_of_layers_written_as_an_array():
    places = find_places('[model]\nlayers = [\n  { type = "conv" },\n  { type = "relu" },\n]\n')
    assert places.value(("model", "layers", 1, "type")) == (4, 12)


def test_a_byte_order_mark_and_windows_line_ends_move_no_place():
    unix = spec.problems(GOOD + "[train]\nlr = -1\n")
    assert spec.problems("\ufeff" + (GOOD + "[train]\nlr = -1\n").replace("\n", "\r\n")) == unix


def write(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


def test_files_that_are_no_text(tmp_path):
    with pytest.raises(InputError, match=r"a\.toml:2:4: expected UTF-8 text, got the byte 0xe9$"):
        read_text(write(tmp_path / "a.toml", b"# ok\n# \xc3\xa9\xe9"))
    with pytest.raises(InputError, match="looks like UTF-16"):
        read_text(write(tmp_path / "b.toml", "seed = 1".encode("utf-16")))
    with pytest.raises(InputError, match="larger than 64 KiB"):
        read_text(write(tmp_path / "c.toml", b"#" * (LARGEST_FILE + 1)))
    with pytest.raises(InputError, match="this is a folder"):
        read_text(tmp_path)


def test_a_missing_file_names_the_near_one(tmp_path):
    write(tmp_path / "fashion-cnn.toml", b"")
    for wrong in ("fashion-cn.toml", "fashion-cnn", "fashoin-cnn.toml"):
        with pytest.raises(InputError, match=r"no such file; did you mean .*fashion-cnn\.toml\?"):
            read_text(tmp_path / wrong)
    with pytest.raises(InputError, match=r"no such file$"):
        read_text(tmp_path / "nowhere" / "zzz.toml")
    with pytest.raises(InputError, match=r"cannot be read|no such file"):
        read_text(Path("a\0b"))


def test_a_control_character_in_a_file_name_is_shown_harmlessly(tmp_path):
    with pytest.raises(InputError) as caught:
        read_text(tmp_path / "a\x1b[2Jb.toml")
    assert str(caught.value) == harmless(caught.value)


def any_parse(text: str) -> None:
    try:
        assert isinstance(spec.parse(text), spec.Spec)
        assert spec.problems(text) == ()
    except spec.SpecError as error:
        assert error.problems == spec.problems(text)
        assert all(p.line >= 1 and p.column >= 1 and p.message for p in error.problems)
        assert str(error) == harmless(error, keep_lines=True)


@settings(max_examples=200, deadline=None)
@given(st.text())
@example("\ud800 = 1")
@example("a = [" * 1500)
@example("\r")
@example("a.b.c = 1\n[a]\nb = 2")
@example("#" * (LARGEST_FILE + 1))
def test_any_text_gives_a_spec_or_a_spec_error(text):
    any_parse(text)


KEYS = st.sampled_from(
    ["name", "seed", "data", "train", "model", "data.dataset", "train.lr", "model.layers", "model.options", "x"]
)
VALUES = st.sampled_from(
    [
        "1",
        "-1",
        "1e400",
        "nan",
        '"x"',
        "'é'",
        "[]",
        "{}",
        "[[1]]",
        "[{}]",
        "{a.b=1}",
        "2020-01-01",
        "0x" + "f" * 6000,
        '"""',
        "[",
    ]
)
LINES = st.one_of(
    st.tuples(KEYS, VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    KEYS.map(lambda key: f"[{key}]"),
    KEYS.map(lambda key: f"[[{key}]]"),
    st.sampled_from(['type = "conv"', "type = 1", "out = 3", "]", '"""', "# x"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=8).map("\n".join))
def test_anything_like_a_spec_gives_a_spec_or_a_spec_error(text):
    any_parse(text)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(GOOD)), st.integers(0, 12), st.text(max_size=5))
def test_a_spec_with_a_piece_cut_out_or_put_in(start, length, piece):
    any_parse(GOOD[:start] + piece + GOOD[start + length :])


def test_what_can_be_read_is_read_beside_what_cannot():
    document = parse_text("a = 1\nb = \nc = 3\n")
    assert document.data == {"a": 1, "c": 3}
    assert [p.line for p in document.problems] == [2]
