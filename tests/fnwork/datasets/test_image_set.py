"""Image sets: the bundled one as it should be, and folders of IDX files that do not fit together."""

import runpy
import struct
from pathlib import Path

import numpy as np
import pytest

from engine.errors import InputError
from fnwork.datasets import DataSettings, idx, image_set, info, load


def write(path, array):
    path.write_bytes(struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes())


@pytest.fixture
def folder(tmp_path):
    """A small MNIST: 40 train and 20 test images of 4 x 5 pixels."""
    random = np.random.default_rng(0)
    for part, samples in (("train", 40), ("t10k", 20)):
        write(tmp_path / f"{part}-images-idx3-ubyte", random.integers(0, 256, (samples, 4, 5), dtype=np.uint8))
        write(tmp_path / f"{part}-labels-idx1-ubyte", (np.arange(samples) % 10).astype(np.uint8))
    return tmp_path


def mnist(folder, **changes):
    return DataSettings(**{"dataset": "mnist", "path": str(folder), "validation": 0.25, **changes})


def test_fashion_mini_is_stratified_and_whole():
    data = load(DataSettings("fashion-mini", validation=0.1), 0)
    assert data.input_shape == (28, 28, 1)
    assert data.outputs == len(data.classes) == 10
    for part, each in ((data.train, 540), (data.validation, 60), (data.test, 100)):
        assert np.bincount(part.targets).tolist() == [each] * 10
        assert part.inputs.dtype == np.uint8
        assert part.targets.dtype == np.int32
        assert not part.inputs.flags.writeable
        assert part.inputs.flags.c_contiguous


@pytest.mark.skipif(not image_set.DEBIAN_FASHION_MNIST.is_dir(), reason="needs Debian's dataset-fashion-mnist")
def test_fashion_mini_is_what_its_script_makes(tmp_path, monkeypatch):
    scripts = Path(__file__).parents[3] / "scripts"
    monkeypatch.syspath_prepend(scripts)
    script = runpy.run_path(str(scripts / "make_fashion_mini.py"))
    script["make"](image_set.DEBIAN_FASHION_MNIST, tmp_path)
    for file in sorted(tmp_path.iterdir()):
        dimensions = 3 if "images" in file.name else 1
        assert np.array_equal(idx.read(file, dimensions), idx.read(image_set.BUNDLED / file.name, dimensions))
    assert len(list(tmp_path.iterdir())) == 4


def test_split_follows_the_seed_and_loses_no_image(folder):
    def parts(seed):
        data = load(mnist(folder), seed)
        return data.train.inputs, data.validation.inputs

    assert all(np.array_equal(*pair) for pair in zip(parts(1), parts(1), strict=True))
    assert not np.array_equal(parts(1)[1], parts(2)[1])
    whole = load(mnist(folder, validation="test"), 0)
    both = np.concatenate(parts(1)).reshape(40, -1)
    assert sorted(map(bytes, both)) == sorted(map(bytes, whole.train.inputs.reshape(40, -1)))


def test_the_test_part_can_be_the_validation_part(folder):
    data = load(mnist(folder, validation="test"), 0)
    assert (len(data.train), len(data.validation), data.test) == (40, 20, None)


def test_normalisation_knows_the_train_images_alone(folder):
    data = load(mnist(folder), 0)
    pixels = data.train.inputs.astype(np.float64)
    assert data.preprocessing.channel_mean == pytest.approx([pixels.mean()])
    assert data.preprocessing.channel_std == pytest.approx([pixels.std()])


@pytest.mark.parametrize("validation", [0.25, 0.03, "test"])
def test_info_says_what_load_finds(folder, validation):
    settings = mnist(folder, validation=validation)
    said, data = info(settings), load(settings, 3)
    assert said.train_samples == len(data.train)
    assert said.validation_samples == len(data.validation)
    assert said.test_samples == (len(data.test) if data.test else 0)
    assert (said.input_shape, said.outputs, said.classes) == (data.input_shape, data.outputs, data.classes)
    assert said.nbytes == data.nbytes


def test_info_sees_a_file_that_changed(folder):
    assert info(mnist(folder)).input_shape == (4, 5, 1)
    for part, samples in (("train", 40), ("t10k", 20)):
        write(folder / f"{part}-images-idx3-ubyte", np.zeros((samples, 7, 7), np.uint8))
    assert info(mnist(folder)).input_shape == (7, 7, 1)


def test_fingerprint_is_that_of_the_content(folder):
    before = load(mnist(folder), 0).fingerprint
    assert load(mnist(folder), 1).fingerprint == before
    labels = folder / "t10k-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1] + b"\x00")
    assert load(mnist(folder), 0).fingerprint != before


def test_finds_the_dotted_file_names(folder):
    (folder / "train-images-idx3-ubyte").rename(folder / "train-images.idx3-ubyte")
    assert len(load(mnist(folder), 0).train) == 30


def test_refuses_a_label_outside_the_classes(folder):
    write(folder / "train-labels-idx1-ubyte", np.full(40, 10, np.uint8))
    with pytest.raises(InputError, match=r"train-labels-idx1-ubyte: label 10 at place 0; expected 0 to 9"):
        load(mnist(folder), 0)


def test_refuses_unequal_numbers_of_images_and_labels(folder):
    write(folder / "t10k-labels-idx1-ubyte", np.zeros(19, np.uint8))
    for read in (info, lambda settings: load(settings, 0)):
        with pytest.raises(InputError, match=r"has 20 images, but .*t10k-labels.* has 19 labels"):
            read(mnist(folder))


def test_refuses_test_images_of_another_size(folder):
    write(folder / "t10k-images-idx3-ubyte", np.zeros((20, 9, 9), np.uint8))
    with pytest.raises(InputError, match="9 x 9 pixels, but those to train on have 4 x 5"):
        load(mnist(folder), 0)


def test_says_which_file_or_folder_is_not_there(folder):
    (folder / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(InputError, match=r"neither t10k-images-idx3-ubyte nor t10k-images-idx3-ubyte\.gz"):
        info(mnist(folder))
    with pytest.raises(InputError, match="is not a folder"):
        info(mnist(folder / "absent"))


def test_says_where_it_looked_for_fashion_mnist(tmp_path, monkeypatch):
    monkeypatch.setattr(image_set, "DEBIAN_FASHION_MNIST", tmp_path / "debian")
    with pytest.raises(InputError) as error:
        info(DataSettings("fashion-mnist"))
    assert str(tmp_path / "debian") in str(error.value)
    assert "data.path" in str(error.value)


def test_half_a_download_hides_no_other_place(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FNWORK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(image_set, "DEBIAN_FASHION_MNIST", folder)
    kept = tmp_path / "cache" / "datasets" / "fashion-mnist"
    kept.mkdir(parents=True)
    (kept / "train-images-idx3-ubyte.gz").write_bytes(b"")
    assert info(DataSettings("fashion-mnist")).input_shape == (4, 5, 1)
    for name in ("train-images", "t10k-images"):
        write(kept / f"{name}-idx3-ubyte", np.zeros((30, 7, 7), np.uint8))
        write(kept / f"{name.replace('images', 'labels')}-idx1-ubyte", np.zeros(30, np.uint8))
    assert info(DataSettings("fashion-mnist")).input_shape == (7, 7, 1)


def test_refuses_a_fraction_that_leaves_nothing(folder):
    for fraction in (0.0, 0.01, 0.99, 1.0, -1.0, float("nan")):
        with pytest.raises(InputError, match=r"data\.validation"):
            load(mnist(folder, validation=fraction), 0)
