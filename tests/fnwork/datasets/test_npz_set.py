"""Arrays in a .npz file: images and tables, classes and values, and files that are not as they should be."""

import pickle
import zipfile

import numpy as np
import pytest

from engine.errors import InputError
from fnwork.datasets import DataSettings, info, load, npz_set
from fnwork.datasets.data_info import data_info
from tests.fnwork.datasets.trees import pixels

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
TABLE = RANDOM.normal(3.0, 2.0, (20, 4))
LABELS = np.arange(20) % 4


def npz(tmp_path, **arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    return tmp_path / "a.npz"


def settings(path, **changes):
    return DataSettings(**{"dataset": "npz", "path": str(path), "validation": 0.25, **changes})


def refused(path, **changes):
    with pytest.raises(InputError) as error:
        load(settings(path, **changes), 0)
    assert info_refuses(path, changes) == str(error.value)
    return str(error.value)


def info_refuses(path, changes):
    with pytest.raises(InputError) as error:
        info(settings(path, **changes))
    return str(error.value)


def test_images_with_a_part_taken_from_train(tmp_path):
    data = load(settings(npz(tmp_path, x=IMAGES, y=LABELS)), 0)
    assert (data.input_shape, data.classes, data.test) == ((6, 5, 3), ("0", "1", "2", "3"), None)
    assert (len(data.train), len(data.validation)) == (15, 5)
    for part in (data.train, data.validation):
        for image, number in zip(pixels(part), part.targets, strict=True):
            (place,) = np.flatnonzero((image == IMAGES).all(axis=(1, 2, 3)))
            assert number == LABELS[place]
    assert data.preprocessing.channel_mean == pytest.approx(pixels(data.train).mean(axis=(0, 1, 2)))


def test_images_without_channels_and_all_parts(tmp_path):
    grey = IMAGES[..., 0]
    path = npz(
        tmp_path,
        x_train=grey,
        y_train=LABELS[:, None],
        x_val=grey[:3],
        y_val=LABELS[:3],
        x_test=grey[:2],
        y_test=[1, 0],
    )
    data = load(settings(path), 0)
    assert (data.input_shape, len(data.train), len(data.validation), len(data.test)) == ((6, 5, 1), 20, 3, 2)
    assert data.test.targets.tolist() == [1, 0]
    data = load(settings(path, validation="test"), 0)
    assert (len(data.train), len(data.validation), data.test) == (20, 2, None)


def test_a_table_is_scaled_by_its_train_rows_alone(tmp_path):
    tested = TABLE[:5].copy()
    tested[0, 0] = 1e6  # an outlier that is not trained on
    path = npz(tmp_path, x_train=TABLE, y_train=LABELS, x_test=tested, y_test=LABELS[:5])
    data = load(settings(path, validation="test"), 0)
    scaled = (TABLE - TABLE.mean(axis=0)) / TABLE.std(axis=0)
    assert np.allclose(data.train.inputs, scaled, atol=1e-5)
    assert data.validation.inputs[0, 0] == 10_000  # moved to the furthest distance
    assert "10,000 standard deviations" in data.notes[0]
    assert [column.name for column in data.preprocessing.columns] == ["x0", "x1", "x2", "x3"]


def test_missing_numbers_and_constant_columns_are_handled_and_told(tmp_path):
    table = TABLE.astype(np.float32)
    table[:, 1] = 7
    table[::3, 2] = np.nan
    data = load(settings(npz(tmp_path, x=table, y=LABELS)), 0)
    assert [column.name for column in data.preprocessing.columns] == ["x0", "x2", "x3"]
    assert data.input_shape == (4,)  # x2 and where it is missing
    assert np.isfinite(data.train.inputs).all()
    assert "1 columns of x are the same in every train row" in data.notes[0]
    assert any('column "x2"' in note and "missing" in note for note in data.notes)


def test_notes_about_many_columns_are_few(tmp_path):
    table = RANDOM.normal(size=(30, 50))
    table[RANDOM.random((30, 50)) < 0.2] = np.nan
    notes = load(settings(npz(tmp_path, x=table, y=np.arange(30) % 2)), 0).notes
    assert len(notes) <= 12 and "more such notes" in notes[3]


def test_new_rows_become_the_features_that_were_trained_on(tmp_path):
    data = load(settings(npz(tmp_path, x_train=TABLE, y_train=LABELS)), 0)
    values, notes = npz_set.features(data.preprocessing, TABLE)
    both = np.concatenate([data.train.inputs, data.validation.inputs])
    assert sorted(map(tuple, values)) == sorted(map(tuple, both)) and notes == ()
    with pytest.raises(InputError, match="trained on a column x2; this table has 2 columns"):
        npz_set.features(data.preprocessing, TABLE[:, :2])


@pytest.mark.parametrize("inputs", [TABLE, IMAGES])
def test_values_are_learnt_standardised_and_told_in_their_units(tmp_path, inputs):
    values = RANDOM.normal(50, 9, 20)
    data = load(settings(npz(tmp_path, x=inputs, y=values), task="regression"), 0)
    assert (data.outputs, data.classes, data.task) == (1, (), "regression")
    assert data.preprocessing.task == "regression"
    assert data.train.targets.dtype == np.float32 and data.train.targets.shape == (15, 1)
    assert (data.train.targets.mean(), data.train.targets.std()) == pytest.approx((0, 1), abs=1e-5)
    back = np.concatenate([data.preprocessing.in_units(part.targets) for part in (data.train, data.validation)])
    assert sorted(back[:, 0]) == pytest.approx(sorted(values), rel=1e-5)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array([7, 3, 12] * 6 + [3, 7]), ("3", "7", "12")),
        (np.array(["b", "a"] * 10), ("a", "b")),
        (np.array([True, False] * 10), ("False", "True")),
        (np.array([7, 3] * 10, np.uint8), ("3", "7")),
        (np.array([-1, 1] * 10), ("-1", "1")),
    ],
)
def test_classes_are_the_sorted_labels_of_train(tmp_path, labels, classes):
    data = load(settings(npz(tmp_path, x=IMAGES, y=labels)), 0)
    assert data.classes == classes
    assert data.train.targets.dtype == np.int32


def test_info_says_what_load_finds(tmp_path):
    for inputs in (IMAGES, TABLE):
        path = npz(tmp_path, x=inputs, y=LABELS)
        assert info(settings(path)) == data_info(load(settings(path), 0))


def test_the_fingerprint_is_that_of_the_arrays(tmp_path):
    first = load(settings(npz(tmp_path, x=IMAGES, y=LABELS)), 0).fingerprint
    assert load(settings(npz(tmp_path, y=LABELS, x=IMAGES, other=[1])), 1).fingerprint == first
    changed = IMAGES.copy()
    changed[-1, -1, -1, -1] ^= 1
    assert load(settings(npz(tmp_path, x=changed, y=LABELS)), 0).fingerprint != first
    assert load(settings(npz(tmp_path, x=IMAGES, y=LABELS.astype(str))), 0).fingerprint != first


def test_augmentation_needs_pictures(tmp_path):
    assert load(settings(npz(tmp_path, x=IMAGES, y=LABELS), augment=("flip",)), 0)
    assert "data.augment" in refused(npz(tmp_path, x=TABLE, y=LABELS), augment=("flip",))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"a": TABLE}, "has neither x_train and y_train nor x and y"),
        ({"x": TABLE}, "y is missing"),
        ({"x_train": TABLE, "y_train": LABELS, "x_test": TABLE}, "y_test is missing"),
        ({"x_test": TABLE, "y_test": LABELS}, "neither x_train"),
        ({"x_train": TABLE, "y_train": LABELS, "x": TABLE}, "which are to be learnt"),
        ({"x": TABLE, "y": LABELS[:-1]}, "x has 20 rows, but y has 19"),
        ({"x": TABLE[:0], "y": LABELS[:0]}, "x is empty"),
        ({"x": TABLE[0], "y": LABELS}, "expected images"),
        ({"x": TABLE.astype(str), "y": LABELS}, "expected images"),
        ({"x": IMAGES / 255, "y": LABELS}, "np.rint(x * 255)"),
        ({"x": IMAGES.astype(int), "y": LABELS}, "x.astype(np.uint8)"),
        ({"x": IMAGES.repeat(2, axis=1).transpose(0, 3, 1, 2), "y": LABELS}, "np.transpose"),
        ({"x": IMAGES[None], "y": LABELS}, "expected images"),
        ({"x": np.where(TABLE > 5, np.inf, TABLE), "y": LABELS}, "no number that can be used"),
        ({"x": np.ones((20, 3)), "y": LABELS}, "no column of x tells the train rows apart"),
        ({"x": TABLE, "y": np.eye(4)[LABELS]}, "np.argmax"),
        ({"x": TABLE, "y": TABLE[:, 0]}, 'data.task = "regression"'),
        ({"x": TABLE, "y": np.zeros(20, int)}, "has 1 classes"),
        ({"x": np.zeros((3000, 1)), "y": np.arange(3000)}, "has 3,000 classes"),
        ({"x": TABLE, "y": LABELS.astype(complex)}, "expected classes"),
        (
            {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:, :3], "y_test": LABELS},
            "the test rows have the shape (3, 5, 3), but those to train on (6, 5, 3)",
        ),
        (
            {"x_train": TABLE, "y_train": LABELS, "x_val": TABLE, "y_val": LABELS + 1},
            'y_val has the class "4", of which there is no row to train on',
        ),
        (
            {"x_train": TABLE, "y_train": LABELS, "x_val": TABLE, "y_val": LABELS.astype(str)},
            "as whole numbers or as texts in every part",
        ),
        (
            {"x_train": TABLE, "y_train": ["cat", "dog"] * 10, "x_val": TABLE[:1], "y_val": ["cats\x1b"]},
            'is it "cat"?',
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(tmp_path, arrays, said):
    message = refused(npz(tmp_path, **arrays))
    assert said in message and "a.npz: " in message and "\x1b" not in message


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.full(20, 3.0), "the same value in every train row"),
        (np.where(LABELS == 2, np.nan, 1.0), "y, row 2: nan is no number that can be learnt"),
        (np.where(LABELS == 3, -np.inf, 1.0), "y, row 3: -inf"),
        (LABELS.astype(str), "a regression learns numbers"),
        (np.ones((20, 2)), "expected one target a row"),
    ],
)
def test_values_that_cannot_be_learnt_are_refused(tmp_path, values, said):
    assert said in refused(npz(tmp_path, x=TABLE, y=values), task="regression")


def test_a_part_that_is_not_there_cannot_validate(tmp_path):
    assert "no test part" in refused(npz(tmp_path, x=TABLE, y=LABELS), validation="test")


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickles_are_refused_without_being_read(tmp_path):
    sprung = tmp_path / "sprung"
    objects = np.empty(2, object)
    objects[:] = Trap(sprung)
    np.savez(tmp_path / "a.npz", x=TABLE, y=objects)
    assert "y holds Python objects" in refused(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Trap(sprung)))
    assert "b.npz: no .npz file" in refused(tmp_path / "b.npz")
    assert not sprung.exists()


def test_files_that_are_none_or_damaged_are_told(tmp_path):
    path = npz(tmp_path, x=TABLE, y=LABELS)
    whole = path.read_bytes()
    for content in (b"", b"PK", b"PK\x03\x04", b"text", whole[:30], whole[:-30], whole[: len(whole) // 2]):
        path.write_bytes(content)
        assert "a.npz: " in refused(path)
    for place in range(40, 700, 60):
        data = bytearray(whole)
        data[place] ^= 0xFF
        path.write_bytes(data)
        try:
            load(settings(path), 0)
        except InputError as error:
            assert "a.npz: " in str(error)
    np.save(tmp_path / "b.npy", TABLE)
    assert "np.savez" in refused(tmp_path / "b.npy")
    assert "cannot be read" in refused(tmp_path / "absent.npz")
    assert "cannot be read" in refused(tmp_path)


def test_a_size_that_lies_takes_no_memory(tmp_path):
    header = np.lib.format.magic(1, 0) + (70).to_bytes(2, "little")
    header += b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999, 99999)}".ljust(69) + b"\n"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header)
        archive.writestr("y.npy", header)
    assert "a.npz: x: " in refused(tmp_path / "a.npz")
