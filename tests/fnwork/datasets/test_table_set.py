"""CSV tables: columns typed, scaled by the train rows alone, and nothing turned into NaN in silence."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InputError
from engine.state import State
from fnwork import checkpoint
from fnwork.datasets import DataSettings, columns, csv_file, info, load
from fnwork.datasets.table_set import features

# Ten rows; y = 10 * size, and the colours take turns.
ROWS = [(f"{row}.5", "red" if row % 2 else "blue", f"{10 * row + 5}") for row in range(10)]


def csv_text(rows=ROWS, header=("size", "colour", "y"), separator=","):
    return "".join(separator.join(row) + "\n" for row in (header, *rows))


@pytest.fixture
def table(tmp_path):
    """Writes a file and gives its settings."""

    def write(text, **changes):
        file = tmp_path / "table.csv"
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        settings = {"path": str(file), "target": "y", "task": "regression", "validation": 0.3, **changes}
        return DataSettings("csv", **settings)

    return write


def with_cell(row, column, text):
    rows = [list(cells) for cells in ROWS]
    rows[row][column] = text
    return rows


def all_inputs(data):
    return np.concatenate([data.train.inputs, data.validation.inputs])


def feature_names(data):
    """Of a table's inputs, in the order of the columns."""
    return tuple(feature for column in data.preprocessing.columns for feature in columns.names(column))


def all_targets(data):
    return np.concatenate([data.train.targets, data.validation.targets])


def refusal(settings):
    with pytest.raises(InputError) as error:
        load(settings, 0)
    return str(error.value)


def test_a_plain_table(table):
    data = load(table(csv_text()), 0)
    assert feature_names(data) == ("size", "colour=blue", "colour=red")
    assert data.input_shape == (3,)
    assert data.outputs == 1
    assert (len(data.train), len(data.validation), data.test) == (7, 3, None)
    assert np.allclose(data.train.inputs[:, 0].mean(), 0, atol=1e-6)
    assert np.allclose(data.train.inputs[:, 0].std(), 1, atol=1e-6)
    assert np.allclose(data.train.targets.std(), 1, atol=1e-6)
    assert set(all_inputs(data)[:, 1:].sum(axis=1)) == {1}
    in_units = data.preprocessing.in_units(all_targets(data))
    assert sorted(in_units.ravel().tolist()) == pytest.approx([10 * row + 5 for row in range(10)])
    assert data.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        csv_text(separator=";"),
        csv_text(separator="\t"),
        csv_text().encode("utf-8-sig"),
        csv_text().replace("\n", "\r\n"),
        csv_text().replace("\n", "\n\n"),
        csv_text().rstrip("\n"),
        csv_text().replace(",", " , "),
        csv_text().replace("red", '"red"').replace("size", '"size"'),
        csv_text().replace(",red", ', "red"'),
        csv_text(separator=";").replace(".", ","),
        csv_text(separator="\t").replace(".", ","),
        "\n".join(",".join(f'"{cell}"' for cell in line.split(";")) for line in csv_text(separator=";").split())
        .replace(".", ","),
    ],
)  # fmt: skip
def test_the_same_table_written_otherwise(table, text):
    expected, data = load(table(csv_text()), 0), load(table(text), 0)
    assert feature_names(data) == feature_names(expected)
    assert np.array_equal(all_inputs(data), all_inputs(expected))
    assert np.array_equal(all_targets(data), all_targets(expected))


def test_an_outlier_in_validation_changes_no_statistics(table):
    before = load(table(csv_text()), 0)
    held_out = before.preprocessing.in_units(before.validation.targets)
    row = next(row for row in range(10) if 10 * row + 5 == round(float(held_out[0, 0])))
    rows = with_cell(row, 0, "1e30")
    rows[row][2] = "1e20"
    after = load(table(csv_text(rows)), 0)
    assert after.preprocessing == before.preprocessing
    assert after.preprocessing.in_units(after.validation.targets[0]) == pytest.approx(1e20)
    assert np.array_equal(after.train.inputs, before.train.inputs)
    assert after.validation.inputs[0, 0] == 1e4
    assert 'column "size": 1 values lie more than 10,000 standard deviations' in after.notes[0]


def test_missing_numbers_become_the_mean_and_a_feature_that_says_so(table):
    rows = [list(cells) for cells in ROWS]
    for row, text in ((0, ""), (3, "NA"), (6, "?"), (9, " ")):
        rows[row][0] = text
    data = load(table(csv_text(rows)), 0)
    assert feature_names(data)[:2] == ("size", "size is missing")
    inputs = all_inputs(data)
    missing = inputs[:, 1] == 1
    assert missing.sum() == 4
    assert (inputs[missing, 0] == 0).all()
    assert np.isfinite(inputs).all()
    assert 'column "size": 4 of 10 values are missing' in data.notes[0]


def test_missing_categories_are_a_category(table):
    data = load(
        table(csv_text([(size, "" if row < 5 else colour, y) for row, (size, colour, y) in enumerate(ROWS)])), 0
    )
    assert "colour=(missing)" in feature_names(data)
    assert set(all_inputs(data)[:, 1:].sum(axis=1)) == {1}


def test_constant_and_empty_columns_are_left_out_with_a_note(table):
    rows = [(size, "red", y) for size, _, y in ROWS]
    data = load(table(csv_text(rows)), 0)
    assert feature_names(data) == ("size",)
    assert data.notes == ('column "colour": the same in every train row, so it is left out',)
    data = load(table(csv_text([("", colour, y) for _, colour, y in ROWS])), 0)
    assert feature_names(data) == ("colour=blue", "colour=red")
    assert "tells the rows apart" in refusal(table(csv_text([("7", "red", y) for _, _, y in ROWS])))


def test_a_category_of_validation_alone_gets_no_feature_and_a_note(table):
    before = load(table(csv_text()), 0)
    row = round(float(before.preprocessing.in_units(before.validation.targets)[0, 0]) - 5) // 10
    data = load(table(csv_text(with_cell(row, 1, "green"))), 0)
    assert feature_names(data) == feature_names(before)
    assert data.validation.inputs[0, 1:].tolist() == [0, 0]
    assert '"green"' in data.notes[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "header"),
        ("size,colour,y\n", "no rows below the header"),
        ("size\n1\n2\n", "at least two column names"),
        ("1,2,3\n" * 5, "line 1: expected column names, got numbers"),
        ("size,,y\n1,2,3\n", "line 1: column 2 has no name"),
        ("size,size,y\n1,2,3\n", 'columns 1 and 2 are both named "size"'),
        (csv_text([*ROWS, ("1", "2")]), "line 12: 2 values, but the header names 3 columns (separator: comma)"),
        (csv_text([*ROWS[:4], ("1", '"two\nlines"', "2", "3"), *ROWS]), "line 6: 4 values"),
        (csv_text([*ROWS, ("1", '"red', "2")]), "line 12: this is not well-formed CSV"),
        (csv_text([("1", '"red', "2"), *ROWS], separator=";"), "line 2: this is not well-formed CSV"),
        (csv_text(with_cell(4, 0, "inf")), 'line 6, column "size": "inf" is no finite number'),
        (csv_text(with_cell(4, 0, "-NaN")), 'line 6, column "size": "-NaN" is no finite number'),
        (csv_text(with_cell(4, 0, "1e999")), 'line 6, column "size": 1e999 is too large'),
        (csv_text(with_cell(4, 0, "4.5.")), 'line 6, column "size": expected a number'),
        (csv_text(with_cell(4, 2, "")), 'line 6, column "y": the target is missing'),
        (csv_text(with_cell(4, 2, "many")), 'line 6, column "y": expected a number, got "many"'),
        (csv_text(with_cell(4, 2, "nan")), 'line 6, column "y": "nan" is no finite number'),
        (csv_text([(size, colour, "3") for size, colour, _ in ROWS]), "the same value in every train row"),
        (
            csv_text([(size, f"name{row}", y) for row, (size, _, y) in enumerate(ROWS)]),
            "10 different texts in 10 rows are too many for categories (no two",
        ),
        (csv_text([(str(r), f"t{r % 120}", str(r)) for r in range(500)]), "120 different texts in 500 rows"),
        (csv_text([(f"1,{r}00", "a", str(r)) for r in range(1, 9)], separator=";"), "write 1.100 if it is a decimal"),
        (csv_text([(f"1,{r}" if r else "1.5", f"0,{r}", str(r)) for r in range(9)], separator=";"), "decimal point"),
        (csv_text().encode("utf-16"), "UTF-16"),
        (csv_text(with_cell(4, 1, "gr\u00fcn")).encode("latin-1"), "line 6: the text is not UTF-8"),
        (csv_text(ROWS[:1]), "leaves no samples"),
    ],
)
def test_refuses_a_table_with_the_line_or_column_at_fault(table, text, said):
    settings = table(text)
    message = refusal(settings)
    assert said in message
    if "leaves no" not in said and "same value" not in said:
        assert settings.path in message


def test_refuses_a_target_that_is_not_there(table):
    assert 'no column "Y"; its columns are "size"' in refusal(table(csv_text(), target="Y"))
    assert 'the nearest is "colour"' in refusal(table(csv_text(), target="color"))
    assert "name the column to predict" in refusal(table(csv_text(), target=""))
    for path in ("absent.csv", ".", "a\0b"):
        assert "cannot be read" in refusal(DataSettings("csv", path=path, target="y"))


def test_classes_are_sorted_as_numbers_where_they_are_numbers(table):
    rows = [(size, colour, str(row % 2 * 8 + 2)) for row, (size, colour, _) in enumerate(ROWS)]
    data = load(table(csv_text(rows), task="classification"), 0)
    assert data.classes == data.preprocessing.classes == ("2", "10")
    assert data.train.targets.dtype == np.int32
    assert data.notes == ()
    assert data.outputs == 2
    data = load(table(csv_text(), target="colour", task="classification"), 0)
    assert data.classes == ("blue", "red")


def test_fractions_taken_as_classes_are_remarked(table):
    rows = [(size, colour, f"0.{row % 2}") for row, (size, colour, _) in enumerate(ROWS)]
    (note,) = load(table(csv_text(rows), task="classification"), 0).notes
    assert "2 different numbers" in note and "regression" in note


def test_classes_keep_their_shares(table):
    rows = [(str(row), "a", "rare" if row % 10 == 0 else "often") for row in range(200)]
    data = load(table(csv_text(rows), task="classification", validation=0.25), 0)
    assert np.bincount(data.validation.targets).tolist() == [45, 5]


def test_refuses_numbers_as_classes_with_a_hint(table):
    rows = [(str(row), "a", f"{row}.5") for row in range(150)]
    assert 'use data.task = "regression"' in refusal(table(csv_text(rows), task="classification"))
    rows = [(str(row), "a", "one") for row in range(20)]
    assert "expected 2 to 100 classes, got 1" in refusal(table(csv_text(rows), task="classification"))


def test_codes_beside_numbers_are_categories(table):
    rows = [(str(row), "X" if row == 7 else str(row % 4), str(row)) for row in range(100)]
    data = load(table(csv_text(rows)), 0)
    assert feature_names(data)[1:] == ("colour=0", "colour=1", "colour=2", "colour=3", "colour=X")


def test_strange_names_are_kept(table):
    names = ("\x1b[2J", "../../x", "[red]")
    data = load(table(csv_text(header=names), target="[red]"), 0)
    assert feature_names(data)[0] == "\x1b[2J"


def test_the_bundled_diamonds_need_no_remark():
    file = Path(__file__).parents[3] / "experiments" / "specs" / "data" / "diamonds-mini.csv"
    data = load(DataSettings("csv", path=str(file), target="price", task="regression"), 0)
    assert (len(data.train), len(data.validation), data.input_shape, data.notes) == (5400, 600, (26,), ())


def test_info_says_what_load_finds(table):
    settings = table(csv_text())
    said, data = info(settings, 4), load(settings, 4)
    assert (said.input_shape, said.outputs, said.nbytes) == (data.input_shape, data.outputs, data.nbytes)
    assert (said.train_samples, said.validation_samples, said.test_samples) == (7, 3, 0)
    table("size,y\n" + "".join(f"{row},{row}\n" for row in range(20)))
    assert info(settings, 4).train_samples == 14


def test_the_preprocessing_survives_the_model_file(table):
    preprocessing = load(table(csv_text(with_cell(2, 0, ""))), 0).preprocessing
    written = json.loads(json.dumps(asdict(preprocessing)))
    assert checkpoint.preprocessing(State({}, {"preprocessing": written})) == preprocessing
    for damaged in (
        {},
        {"columns": 3},
        {**written, "more": 1},
        {"columns": [{"name": "x"}]},
        {**written, "columns": [3]},
    ):
        with pytest.raises(InputError, match="damaged"):
            checkpoint.preprocessing(State({}, {"preprocessing": damaged}))


def test_new_rows_are_prepared_as_the_train_rows_were(table, tmp_path):
    data = load(table(csv_text()), 0)
    new = tmp_path / "new.csv"
    new.write_text("more;colour;size\nx;red;4,5\nx;green;\n", encoding="utf-8")
    inputs, notes = features(data.preprocessing, csv_file.read(new))
    column = data.preprocessing.columns[0]
    assert inputs[0] == pytest.approx([(4.5 - column.mean) / column.std, 0, 1])
    assert inputs[1].tolist() == [0, 0, 0]
    assert len(notes) == 2


def test_new_rows_are_read_with_the_comma_of_the_train_file(table, tmp_path):
    data = load(table(csv_text(separator=";").replace(".", ",")), 0)
    new = tmp_path / "new.csv"
    for text in ("size;colour\n4,500;red\n", "size,colour\n4.5,red\n"):
        new.write_text(text, encoding="utf-8")
        inputs, _ = features(data.preprocessing, csv_file.read(new))
        assert inputs[0, 0] == pytest.approx(
            (4.5 - data.preprocessing.columns[0].mean) / data.preprocessing.columns[0].std
        )


def test_new_rows_without_a_column_are_refused(table, tmp_path):
    preprocessing = load(table(csv_text()), 0).preprocessing
    new = tmp_path / "new.csv"
    new.write_text("Size,color\n1,red\n", encoding="utf-8")
    with pytest.raises(InputError, match=r'missing: "size" \(is it "Size"\?\), "colour" \(is it "color"\?\)'):
        features(preprocessing, csv_file.read(new))
    new.write_text("size,colour\n1,red\nbig,red\n", encoding="utf-8")
    with pytest.raises(InputError, match='line 3, column "size": expected a number, got "big"'):
        features(preprocessing, csv_file.read(new))


CELLS = st.sampled_from(
    [
        "",
        "1",
        "2.5",
        "2,5",
        "-3e4",
        "1,234",
        "nan",
        "inf",
        "1e200",
        "1e-160",
        "NA",
        "a",
        '"',
        '"b"',
        "\x00",
        "\x1b",
        "é",
    ]
)
# Numbers of one kind far more often than the rest, so that many of the tables can be read.
LINES = st.lists(st.one_of(st.sampled_from(["1", "2.5", "7", ""]), CELLS), min_size=3, max_size=3)


@given(
    rows=st.lists(LINES, min_size=3, max_size=14),
    separator=st.sampled_from([",", ";", "\t"]),
    task=st.sampled_from(["classification", "regression"]),
)
def test_any_table_gives_finite_numbers_or_an_input_error(tmp_path_factory, rows, separator, task):
    file = tmp_path_factory.mktemp("csv") / "file.csv"
    file.write_text("\n".join(separator.join(row) for row in [["x", "z", "y"], *rows]), encoding="utf-8", newline="")
    check_is_finite_or_refused(file, task)


@given(data=st.binary(max_size=60), task=st.sampled_from(["classification", "regression"]))
def test_any_bytes_give_finite_numbers_or_an_input_error(tmp_path_factory, data, task):
    file = tmp_path_factory.mktemp("csv") / "file.csv"
    file.write_bytes(b"x,y\n1,2\n2,3\n3,4\n" + data)
    check_is_finite_or_refused(file, task)


def check_is_finite_or_refused(file, task):
    try:
        data = load(DataSettings("csv", path=str(file), target="y", task=task, validation=0.3), 0)
    except InputError:
        return
    assert np.isfinite(all_inputs(data)).all()
    assert np.isfinite(all_targets(data)).all()
    assert np.abs(all_inputs(data)).max() < np.finfo(np.float16).max


def test_lines_of_separators_alone_are_no_rows_and_are_told(tmp_path):
    """Above the header, too, as spreadsheets write them; empty lines are nobody's loss."""
    file = tmp_path / "table.csv"
    file.write_text(";;\na;b;y\n1;2;3\n; ;\n\n4;5;6\n;\n", encoding="utf-8")
    found = csv_file.read(file)
    assert found.columns == {"a": ("1", "4"), "b": ("2", "5"), "y": ("3", "6")}
    assert (found.lines, found.blank) == ((3, 6), (1, 4, 7))
