"""IDX files: whatever the bytes are, the answer is an array or one clear message."""

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InputError
from fnwork.datasets import idx

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def idx_bytes(array, magic=(0, 0, 8, 3), shape=None):
    shape = array.shape if shape is None else shape
    return struct.pack(f">4B{len(shape)}I", *magic, *shape) + array.tobytes()


GOOD = idx_bytes(IMAGES)
PACKED = gzip.compress(GOOD, mtime=0)


@pytest.mark.parametrize("packed", [False, True])
def test_reads_plain_and_gzip_whatever_the_name(tmp_path, packed):
    file = tmp_path / "images"
    file.write_bytes(PACKED if packed else GOOD)
    assert np.array_equal(idx.read(file, 3), IMAGES)
    assert idx.read_shape(file, 3) == (2, 3, 4)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "only 0 bytes"),
        (b"\0\0", "only 2 bytes"),
        (idx_bytes(IMAGES, magic=(0, 0, 8, 1)), "begins with 00000801, expected 00000803"),
        (idx_bytes(IMAGES, magic=(0, 0, 13, 3)), "begins with 00000d03"),
        (GOOD[:10], "header stops after 10 bytes"),
        (GOOD[:-1], "truncated"),
        (GOOD + b"\0", "goes on after the 24 bytes"),
        (idx_bytes(IMAGES, shape=(0, 3, 4)), "empty"),
        (idx_bytes(IMAGES, shape=(2**32 - 1,) * 3), "truncated"),
        (gzip.compress(GOOD[:-1], mtime=0), "24 bytes of data, 23 are there"),
        (PACKED[:-9], "truncated"),
        (gzip.compress(idx_bytes(IMAGES, shape=(2**32 - 1,) * 3), mtime=0), "truncated"),
        (PACKED[:-8] + b"\0" * 8, "damaged gzip data"),
        (PACKED + b"rest", "damaged gzip data"),
        (PACKED[:10] + b"\xff" * 20, "damaged gzip data"),
        (b"PK\x03\x04 and so on", "not an IDX file of images"),
    ],
)
def test_refuses_a_broken_file_by_its_name(tmp_path, data, said):
    file = tmp_path / "train-images"
    file.write_bytes(data)
    with pytest.raises(InputError) as error:
        idx.read(file, 3)
    assert str(file) in str(error.value)
    assert said in str(error.value)


def test_refuses_what_is_no_readable_file(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="cannot be read"):
            idx.read(path, 3)


@given(
    packed=st.booleans(),
    damage=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4),
    length=st.integers(0, 70),
)
def test_damaged_bytes_give_an_array_or_an_input_error(tmp_path_factory, packed, damage, length):
    data = bytearray(PACKED if packed else GOOD)
    for place, byte in damage:
        data[place % len(data)] = byte
    file = tmp_path_factory.mktemp("idx") / "file"
    file.write_bytes(data[:length])
    try:
        array = idx.read(file, 3)
    except InputError:
        return
    assert array.ndim == 3
    assert array.dtype == np.uint8
