"""CIFAR-10: its binary files in a folder and in an archive, its pickles, and files that are not as they should be."""

import io
import pickle
import tarfile

import numpy as np
import pytest

from engine.errors import InputError
from fnwork.datasets import DataSettings, cifar, info, load
from fnwork.datasets.data_info import data_info
from tests.fnwork.datasets.trees import pixels

EACH, TESTED = 8, 6


def records(labels, seed):
    """A batch file's bytes, and its images (samples, 32, 32, 3)."""
    planes = np.random.default_rng(seed).integers(0, 256, (len(labels), 3, 32, 32), dtype=np.uint8)
    content = b"".join(bytes([label]) + each.tobytes() for label, each in zip(labels, planes, strict=True))
    return content, planes.transpose(0, 2, 3, 1)


def batches():
    """Names and bytes of the six files."""
    files = {
        name: records([(number + place) % 10 for place in range(EACH)], number)[0]
        for number, name in enumerate(cifar.TRAIN)
    }
    return files | {
        cifar.TEST: records(list(range(TESTED)), 9)[0],
        "batches.meta.txt": b"airplane\n",
        "readme.html": b"",
    }


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "cifar-10-batches-bin"
    path.mkdir()
    for name, content in batches().items():
        (path / name).write_bytes(content)
    return path


def archived(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def settings(path, **changes):
    return DataSettings(**{"dataset": "cifar10", "path": str(path), "validation": "test", **changes})


def test_pixels_and_labels_are_those_of_the_records(folder):
    data = load(settings(folder), 0)
    assert (data.input_shape, data.classes[3], data.outputs) == ((32, 32, 3), "cat", 10)
    expected = np.concatenate([records([0] * EACH, number)[1] for number in range(5)])
    assert np.array_equal(pixels(data.train), expected)
    assert data.train.targets.tolist() == [(number + place) % 10 for number in range(5) for place in range(EACH)]
    assert np.array_equal(pixels(data.validation), records([0] * TESTED, 9)[1])
    assert data.test is None


def test_pieces_make_the_same_whole(folder, monkeypatch):
    whole = pixels(load(settings(folder), 0).train)
    monkeypatch.setattr(cifar, "_AT_ONCE", 3)
    assert np.array_equal(pixels(load(settings(folder), 0).train), whole)


@pytest.mark.parametrize("mode", ["w:gz", "w"])
def test_an_archive_is_read_as_the_folder_and_never_unpacked(folder, tmp_path, mode):
    path = archived(tmp_path / "any name", batches(), mode)
    before = sorted(tmp_path.rglob("*"))
    one, other = load(settings(folder, validation=0.25), 3), load(settings(path, validation=0.25), 3)
    assert np.array_equal(pixels(one.train), pixels(other.train))
    assert one.fingerprint == other.fingerprint and data_info(one) == data_info(other)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("validation", [0.25, "test"])
def test_info_says_what_load_finds(folder, tmp_path, validation):
    for path in (folder, folder.parent, archived(tmp_path / "c.tar.gz", batches())):
        said = info(settings(path, validation=validation))
        assert said == data_info(load(settings(path, validation=validation), 0))
        assert said.train_samples == (40 if validation == "test" else 30)


def test_found_beside_or_below_the_path_and_where_downloads_go(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FNWORK_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError, match="`fnwork data get cifar10` downloads it"):
        load(settings(""), 0)
    kept = tmp_path / "cache" / "datasets" / "cifar10"
    kept.mkdir(parents=True)
    archived(kept / "cifar-10-binary.tar.gz", batches())
    assert load(settings(""), 0).fingerprint == load(settings(folder.parent), 0).fingerprint
    assert load(settings(kept), 0).fingerprint == load(settings(folder), 0).fingerprint


def test_progress_is_told_by_file(folder):
    told = []
    load(settings(folder), 0, lambda *each: told.append(each))
    assert told == [("reading cifar10", done, 6) for done in range(7)]


class Trap:
    """Unpickled, it would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_the_pickled_form_is_refused_without_being_read(tmp_path):
    sprung = tmp_path / "sprung"
    pickled = {name: pickle.dumps(Trap(sprung)) for name in ("batches.meta", "data_batch_1", "test_batch")}
    inner = tmp_path / "data" / "cifar-10-batches-py"
    inner.mkdir(parents=True)
    for name, content in pickled.items():
        (inner / name).write_bytes(content)
    archive = archived(tmp_path / "data" / "cifar-10-python.tar.gz", pickled)
    renamed = archived(tmp_path / "renamed.tar.gz", pickled)
    for path in (inner, inner.parent, archive, renamed):
        for read in (info, lambda each: load(each, 0)):
            with pytest.raises(InputError, match=r"is the Python version.*runs whatever code.*fnwork data get cifar10"):
                read(settings(path))
    assert not sprung.exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("data_batch_3.bin", None, "data_batch_3.bin is missing"),
        ("test_batch.bin", None, "test_batch.bin is missing"),
        ("data_batch_2.bin", b"", "data_batch_2.bin: 0 bytes are no whole number of records of 3,073 bytes"),
        ("data_batch_2.bin", bytes(3074), "3,074 bytes are no whole number"),
        ("data_batch_5.bin", bytes(3073) + b"\x0a" + bytes(3072), "label 10 at place 1; expected 0 to 9"),
    ],
)
def test_files_that_are_not_as_they_should_be_are_named(folder, tmp_path, name, content, said):
    files = batches()
    if content is None:
        del files[name]
        (folder / name).unlink()
    else:
        files[name] = content
        (folder / name).write_bytes(content)
    for path in (folder, archived(tmp_path / "c.tar.gz", files)):
        with pytest.raises(InputError, match=said):
            load(settings(path), 0)


def test_archives_cut_off_or_damaged_anywhere_are_told(tmp_path):
    path = archived(tmp_path / "c.tar.gz", batches())
    whole = path.read_bytes()
    for length in (0, 1, 5, 100, len(whole) // 2, len(whole) - 9):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"c\.tar\.gz"):
            load(settings(path), 0)
    random = np.random.default_rng(0)
    for _ in range(20):
        data = bytearray(whole)
        for place in random.integers(10, len(data), 5):
            data[place] ^= 0x55
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"c\.tar\.gz"):  # every byte counts for the checksum
            load(settings(path), 0)


def test_a_size_that_lies_takes_no_memory(tmp_path):
    member = tarfile.TarInfo("data_batch_1.bin")
    member.size = 3073 * 10**9
    (tmp_path / "c.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(3073))
    with pytest.raises(InputError, match="no whole number of records"):
        load(settings(tmp_path / "c.tar"), 0)


def test_what_is_not_there_or_something_else_is_told(tmp_path):
    with pytest.raises(InputError, match="is not there; expected a folder with data_batch_1"):
        info(settings(tmp_path / "absent"))
    with pytest.raises(InputError, match=r"holds neither data_batch_1\.bin"):
        info(settings(tmp_path))
    (tmp_path / "a.tar.gz").write_text("no archive")
    with pytest.raises(InputError, match="not an archive that can be read"):
        info(settings(tmp_path / "a.tar.gz"))
