"""A folder of pictures as a data set: decoded once, into a file that is mapped, whatever lies among the pictures."""

import os
import sys
import threading
import time

import numpy as np
import pytest
from PIL import Image

from engine.data import Loader, Part, Slot
from engine.errors import InputError
from fnwork import augmentation
from fnwork.datasets import DataSettings, info, load, mapped, picture, picture_cache, picture_tree
from fnwork.datasets.data_info import data_info
from fnwork.datasets.mapped import MappedRows
from tests.fnwork.datasets.trees import classes, pixels
from tests.fnwork.datasets.trees import picture as make


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("FNWORK_CACHE", str(folder))
    return folder / "pictures"


@pytest.fixture
def folder(tmp_path):
    """12 + 8 pictures of two classes."""
    return classes(tmp_path / "data", cats=12, dogs=8)


def settings(folder, **changes):
    return DataSettings(**{"dataset": "image-folder", "path": str(folder), "image_size": 8, **changes})


def decoded(monkeypatch):
    """A list that grows with every picture that is decoded."""
    names, read = [], picture.read
    monkeypatch.setattr(picture, "read", lambda file, *shape: (names.append(file.name), read(file, *shape))[1])
    return names


def test_train_and_validation_hold_every_picture_once_with_its_class(folder):
    data = load(settings(folder, validation=0.25), 0)
    assert (data.input_shape, data.classes, data.test) == ((8, 8, 3), ("cats", "dogs"), None)
    assert (len(data.train), len(data.validation)) == (15, 5)
    assert np.bincount(data.validation.targets).tolist() == [3, 2]
    seen = sorted(
        (number, *image[0, 0].tolist())
        for part in (data.train, data.validation)
        for number, image in zip(part.targets.tolist(), pixels(part), strict=True)
    )
    assert seen == [(0, 5, place, 7) for place in range(12)] + [(1, 45, place, 7) for place in range(8)]


def test_the_parts_that_the_folder_has_are_used(tmp_path, monkeypatch):
    names = decoded(monkeypatch)
    for part, count in (("train", 6), ("val", 3), ("test", 2)):
        classes(tmp_path / "data" / part, a=count, b=count)
    data = load(settings(tmp_path / "data", validation=0.5), 0)
    assert (len(data.train), len(data.validation), len(data.test)) == (12, 6, 4)
    assert any("is the validation part" in note for note in data.notes)
    names.clear()
    data = load(settings(tmp_path / "data", validation="test", image_size=7), 0)
    assert (len(data.train), len(data.validation), data.test) == (12, 4, None)
    assert any("val is not used" in note for note in data.notes)
    assert len(names) == 16


def test_a_folder_without_a_test_part_cannot_be_validated_on_it(folder):
    for read in (info, lambda each: load(each, 0)):
        with pytest.raises(InputError, match=r"data\.validation: this image-folder has no test part"):
            read(settings(folder, validation="test"))


def test_a_picture_is_what_predicting_will_make_of_it(folder):
    data = load(settings(folder, validation=0.25), 0)
    one = picture.read(folder / "dogs" / "c3.png", *data.input_shape)
    assert any((image == one).all() for part in (data.train, data.validation) for image in pixels(part))


def test_normalisation_knows_the_train_pictures_alone(folder):
    data = load(settings(folder, validation=0.25), 0)
    whole = pixels(data.train).astype(np.float64).reshape(-1, 3)
    assert data.preprocessing.channel_mean == pytest.approx(whole.mean(axis=0))
    assert data.preprocessing.channel_std[:2] == pytest.approx(whole.std(axis=0)[:2])


@pytest.mark.parametrize("validation", [0.25, 0.5])
def test_info_says_what_load_finds_before_and_after_decoding(folder, validation):
    said = info(settings(folder, validation=validation))
    data = load(settings(folder, validation=validation), 0)
    assert said == data_info(data) == info(settings(folder, validation=validation))
    assert said.nbytes == 20 * 12  # places and classes: the pixels are in a file


# --- what cannot be read ---


def broken(path):
    path.write_bytes(path.read_bytes()[:40])


def test_broken_pictures_are_named_counted_and_left_out(folder):
    for name in ("cats/c0.png", "cats/c1.png", "dogs/c2.png", "dogs/c3.png"):
        broken(folder / name)
    data = load(settings(folder, validation=0.25), 0)
    assert (len(data.train), len(data.validation)) == (12, 4)
    (note,) = data.notes
    assert "4 of 20 pictures cannot be read" in note and "and 1 more" in note
    assert all(name in note for name in ("cats/c0.png", "cats/c1.png", "dogs/c2.png"))
    assert info(settings(folder, validation=0.25)) == data_info(data)  # known from then on
    seen = {tuple(image[0, 0].tolist()) for part in (data.train, data.validation) for image in pixels(part)}
    assert len(seen) == 16 and (5, 0, 7) not in seen and (45, 2, 7) not in seen


def test_every_kind_of_picture_lies_in_one_folder(tmp_path):
    folder = classes(tmp_path / "data", a=3, b=3)
    Image.new("RGBA", (9, 30), (0, 0, 0, 0)).save(folder / "a" / "alpha.png")
    Image.fromarray(np.full((20, 20), 65535, np.uint16)).save(folder / "a" / "deep.png")
    Image.new("P", (20, 20), 3).save(folder / "a" / "palette.gif")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (30, 20)).save(folder / "a" / "turned.jpg", exif=exif)
    Image.new("RGB", (1, 1)).save(folder / "a" / "one.bmp")
    Image.new("L", (300, 2)).save(folder / "a" / "long.webp")
    (folder / "a" / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    data = load(settings(folder, validation=0.25), 0)
    assert len(data.train) + len(data.validation) == 12
    assert "a/broken.jpg" in data.notes[0]


def test_a_class_of_which_nothing_can_be_read_is_refused(folder):
    for path in (folder / "dogs").iterdir():
        broken(path)
    for _ in range(2):  # decoded, and known
        with pytest.raises(InputError, match=r'no picture of the class "dogs" can be read: dogs/c0\.png'):
            load(settings(folder), 0)
    with pytest.raises(InputError, match="no picture of the class"):
        info(settings(folder))


def test_a_part_of_which_nothing_can_be_read_is_refused(tmp_path):
    classes(tmp_path / "data" / "train", a=3, b=3)
    classes(tmp_path / "data" / "val", a=1)
    broken(tmp_path / "data" / "val" / "a" / "c0.png")
    with pytest.raises(InputError, match="val has no picture that can be read"):
        load(settings(tmp_path / "data"), 0)


# --- the cache ---


def test_pictures_are_decoded_once(folder, monkeypatch):
    names = decoded(monkeypatch)
    first = load(settings(folder), 0)
    assert len(names) == 20
    second = load(settings(folder), 0)
    assert len(names) == 20
    assert np.array_equal(pixels(first.train), pixels(second.train))


def test_a_changed_folder_is_decoded_anew_and_its_old_file_removed(folder, cache, monkeypatch):
    names = decoded(monkeypatch)
    load(settings(folder), 0)
    make(folder / "cats" / "new.png")
    load(settings(folder), 0)
    assert len(names) == 41
    make(folder / "cats" / "new.png", (1, 2, 3), (90, 40))
    load(settings(folder), 0)
    assert len(names) == 62
    assert len(list(cache.iterdir())) == 1
    load(settings(folder, image_size=5), 0)
    assert len(list(cache.iterdir())) == 2  # another size is no older one


def test_the_fingerprint_is_of_what_the_pictures_show(folder):
    first = load(settings(folder), 0).fingerprint
    for path in (folder / "cats").iterdir():
        os.utime(path, (1, 1))
    assert load(settings(folder), 1).fingerprint == first
    make(folder / "cats" / "c0.png", (9, 9, 9))
    changed = load(settings(folder), 0).fingerprint
    assert changed != first
    (folder / "cats").rename(folder / "tigers")
    assert load(settings(folder), 0).fingerprint not in (first, changed)


@pytest.mark.skipif(sys.platform == "win32", reason="an open file is not removed there")
def test_what_is_mapped_outlives_its_file(folder, cache):
    data = load(settings(folder), 0)
    before = pixels(data.train)
    for path in cache.iterdir():
        path.unlink()
    assert np.array_equal(pixels(data.train), before)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:100], lambda data: b"", lambda data: b"x" * 500]
)
def test_a_damaged_file_is_made_anew(folder, cache, monkeypatch, damage):
    names = decoded(monkeypatch)
    before = pixels(load(settings(folder), 0).train)
    (path,) = cache.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert np.array_equal(pixels(load(settings(folder), 0).train), before)
    assert len(names) == 40


def test_nothing_half_written_is_left_by_a_reading_that_ends_early(folder, cache):
    class Ended(Exception):
        pass

    def end(what, done, total):
        raise Ended

    with pytest.raises(Ended):
        load(settings(folder), 0, end)
    assert list(cache.iterdir()) == []


def test_two_at_once_do_not_harm_each_other(folder, cache):
    results = []

    def work():
        results.append(pixels(load(settings(folder), 0).train))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(np.array_equal(each, results[0]) for each in results)
    assert len(list(cache.iterdir())) == 1


def test_progress_is_told_from_the_first_to_the_last(folder, monkeypatch):
    monkeypatch.setattr(picture_cache, "_AT_ONCE", 8)
    told = []
    load(settings(folder), 0, lambda *each: told.append(each))
    assert told == [("decoding data", done, 20) for done in (0, 8, 16, 20)]


def test_old_files_are_pruned_and_those_in_use_are_not(folder, cache, monkeypatch):
    cache.mkdir(parents=True)
    old, used, torn = cache / "1-1.pixels", cache / "2-2.pixels", cache / "3-3.pixels.x.tmp"
    for path, days in ((old, 31), (used, 29), (torn, 2)):
        path.write_bytes(b"x" * 1000)
        os.utime(path, (time.time() - days * 86400,) * 2)
    load(settings(folder), 0)
    assert used.exists() and not old.exists() and not torn.exists()
    monkeypatch.setattr(picture_cache, "_MOST_BYTES", 5000)
    load(settings(folder, image_size=9), 0)
    assert not used.exists()  # the longest unused goes first
    assert len(list(cache.iterdir())) == 1


def test_a_full_disk_and_a_cache_that_cannot_be_written_are_told(folder, cache, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(picture_cache.shutil, "disk_usage", lambda path: type("", (), {"free": 100}))
        with pytest.raises(InputError, match=r"need 3\.8 KiB, but .* has 100 B left.*image_size.*FNWORK_CACHE"):
            load(settings(folder), 0)
    cache.parent.mkdir(exist_ok=True)
    cache.rmdir() if cache.is_dir() else None
    cache.write_text("in the way")
    with pytest.raises(InputError, match=r"cannot be written.*FNWORK_CACHE"):
        load(settings(folder), 0)


# --- rows of a mapped file ---


def test_mapped_rows_are_those_of_the_array(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "_LARGEST_MAPPING", 100)  # mapped anew again and again
    array = np.random.default_rng(0).integers(0, 256, (30, 4, 3, 2), dtype=np.uint8)
    (tmp_path / "a").write_bytes(array.tobytes() + b"what follows")
    rows = np.random.default_rng(1).permutation(30)[:20]
    found, expected = MappedRows(tmp_path / "a", (4, 3, 2), rows), array[rows]
    assert (found.shape, found.dtype, len(found), found.nbytes) == (expected.shape, np.uint8, 20, rows.nbytes)
    for key in (3, np.intp(7), slice(2, 9), np.array([5, 0, 5]), slice(None)):
        assert np.array_equal(found[key], expected[key])
    some = np.array([4, 2, 19])
    assert np.array_equal(found.only(some)[:], expected[some])
    with pytest.raises(ValueError, match="read-only"):
        found[3][0] = 1


@pytest.mark.parametrize("augment", [(), ("crop:2", "flip")])
def test_batches_of_mapped_rows_are_those_of_the_array(folder, augment):
    data = load(settings(folder, validation=0.25), 0)
    in_memory = Part(pixels(data.train), data.train.targets)

    def batches(part):
        slots = [Slot(np.empty((4, 8, 8, 3), np.float32), np.empty(4, np.int32)) for _ in range(2)]
        how = augmentation.parse(augment)
        loader = Loader(part, data.preprocessing, slots, seed=3, augment=how, shuffle=True)
        return [(batch.inputs.copy(), batch.targets.copy()) for batch in loader.batches(1)]

    for mapped_batch, batch in zip(batches(data.train), batches(in_memory), strict=True):
        assert all(np.array_equal(*pair) for pair in zip(mapped_batch, batch, strict=True))


def test_looking_at_a_folder_opens_no_picture(folder, monkeypatch):
    monkeypatch.setattr(picture, "read", lambda *arguments: pytest.fail("opened"))
    assert len(picture_tree.read(folder).parts["train"].files) == 20
    assert info(settings(folder)).train_samples == 18
