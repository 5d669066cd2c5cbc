"""One picture of every kind: what its pixels are, or why there are none."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from engine.errors import InputError
from fnwork.datasets import picture

RED, GREEN, BLUE = (200, 10, 20), (10, 200, 20), (20, 10, 200)


def halves(left, right, size=(8, 8), mode="RGB"):
    """A picture whose left and right halves have one colour each."""
    made = Image.new(mode, size, left)
    made.paste(right, (size[0] // 2, 0, *size))
    return made


def read(tmp_path, made, name="a.png", side=8, channels=3, **options):
    path = tmp_path / name
    made.save(path, **options)
    with picture.quiet():
        return picture.read(path, side, side, channels)


def test_a_picture_of_the_right_size_is_itself(tmp_path):
    random = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    assert np.array_equal(read(tmp_path, Image.fromarray(random)), random)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (halves(RED, BLUE), "a.png"),
        (halves(RED, BLUE).convert("P", palette=Image.Palette.ADAPTIVE), "palette.png"),
        (halves(RED, BLUE).convert("RGBA"), "opaque.png"),
        (halves(RED, BLUE), "a.bmp"),
        (halves(RED, BLUE), "a.tiff"),
        (halves(RED, BLUE), "A.PPM"),
        (halves(RED, BLUE).quantize(4), "a.gif"),
        (halves(RED, BLUE), "a.tga"),
    ],
)
def test_colours_come_through_every_mode_and_format(tmp_path, made, name):
    pixels = read(tmp_path, made, name)
    assert pixels.dtype == np.uint8 and pixels.shape == (8, 8, 3)
    assert np.abs(pixels[4, 1].astype(int) - RED).max() <= 3
    assert np.abs(pixels[4, 6].astype(int) - BLUE).max() <= 3


@pytest.mark.parametrize("name", ["a.jpg", "a.webp"])
def test_colours_come_through_lossy_formats(tmp_path, name):
    pixels = read(tmp_path, halves(RED, BLUE, (64, 64)), name, side=64, quality=95)
    assert np.abs(pixels[32, 8].astype(int) - RED).max() <= 12
    assert np.abs(pixels[32, 56].astype(int) - BLUE).max() <= 12


def test_cmyk_is_read_as_colours(tmp_path):
    pixels = read(tmp_path, Image.new("CMYK", (8, 8), (255, 0, 0, 0)), "a.tiff")
    assert pixels[0, 0].tolist() == [0, 255, 255]


@pytest.mark.parametrize(
    ("made", "middle"),
    [
        (Image.new("RGBA", (8, 8), (*RED, 0)), 255),
        (Image.new("LA", (8, 8), (0, 0)), 255),
        (Image.new("RGBA", (8, 8), (0, 0, 0, 128)), 127),
    ],
)
def test_what_is_transparent_lies_on_white(tmp_path, made, middle):
    assert np.abs(read(tmp_path, made).astype(int) - middle).max() <= 1


def test_a_palette_with_a_transparent_colour_lies_on_white(tmp_path):
    made = Image.new("P", (8, 8), 1)
    made.putpalette([*RED, *BLUE])
    pixels = read(tmp_path, made, transparency=1)
    assert (pixels == 255).all()


def test_sixteen_bits_become_eight(tmp_path):
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    for name in ("a.png", "a.tiff"):
        pixels = read(tmp_path, Image.fromarray(ramp), name, channels=1)
        assert np.abs(pixels[..., 0].astype(float) - ramp / 257).max() <= 0.5
    dark = read(tmp_path, Image.fromarray(np.full((8, 8), 200, np.uint16)), channels=1)
    assert (dark == 1).all()  # however dark it is: not a picture of 8 bits


def test_floats_are_read_from_zero_to_one_or_to_255(tmp_path):
    for top in (1.0, 255.0):
        values = np.linspace(0, top, 64, dtype=np.float32).reshape(8, 8)
        pixels = read(tmp_path, Image.fromarray(values), "a.tiff", channels=1)
        assert np.abs(pixels[..., 0] / 255 - values / top).max() <= 0.01
    values[0, 0] = np.nan
    assert read(tmp_path, Image.fromarray(values), "a.tiff", channels=1)[0, 0, 0] == 0


def test_grey_becomes_three_equal_channels_and_colours_one(tmp_path):
    assert read(tmp_path, Image.new("L", (8, 8), 77)).tolist() == np.full((8, 8, 3), 77).tolist()
    assert read(tmp_path, Image.new("RGB", (8, 8), (77, 77, 77)), channels=1).shape == (8, 8, 1)
    assert read(tmp_path, Image.new("1", (8, 8), 1)).tolist() == np.full((8, 8, 3), 255).tolist()


def test_a_camera_held_sideways_is_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera's top is at the right: turn by 90 degrees
    pixels = read(tmp_path, halves(RED, BLUE), "a.png", exif=exif)
    assert np.abs(pixels[1, 4].astype(int) - RED).max() <= 3  # left becomes top
    assert np.abs(pixels[6, 4].astype(int) - BLUE).max() <= 3


def test_broken_exif_data_are_no_reason_to_lose_a_picture(tmp_path):
    pixels = read(tmp_path, halves(RED, BLUE, (64, 64)), "a.jpg", side=64, exif=b"Exif\0\0MM\0*\xff\xff\xff\xffgarbage")
    assert pixels.shape == (64, 64, 3)


def test_the_middle_is_cut_out_and_scaled(tmp_path):
    wide = Image.new("RGB", (300, 100), GREEN)
    wide.paste(RED, (0, 0, 100, 100))
    wide.paste(BLUE, (200, 0, 300, 100))
    # Scaling looks a little beyond the cut.
    assert (read(tmp_path, wide, side=10)[:, 1:-1] == GREEN).all()
    assert (read(tmp_path, wide.rotate(90, expand=True), side=10)[1:-1] == GREEN).all()


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (3000, 1), (2, 5)])
def test_a_picture_of_any_size_becomes_a_square(tmp_path, size):
    assert (read(tmp_path, Image.new("RGB", size, RED), side=16) == RED).all()


def test_scaling_down_looks_at_every_pixel(tmp_path):
    board = np.indices((64, 64)).sum(axis=0) % 2 * 255
    pixels = read(tmp_path, Image.fromarray(board.astype(np.uint8)), side=8, channels=1)
    assert np.abs(pixels.astype(float) - 127.5).max() <= 10


def test_the_first_picture_of_an_animation_counts(tmp_path):
    first, second = Image.new("RGB", (8, 8), RED), Image.new("RGB", (8, 8), BLUE)
    assert np.abs(read(tmp_path, first, "a.gif", save_all=True, append_images=[second]).astype(int) - RED).max() <= 3


def png(size):
    """The beginning of a PNG file that claims to have this size."""
    content = io.BytesIO()
    Image.new("L", (1, 1)).save(content, "PNG")
    data = bytearray(content.getvalue())
    data[16:24] = struct.pack(">2I", *size)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a picture of any kind"),
        (b"\x89PNG\r\n\x1a\n", "not a picture"),
        (b"GIF89a", "not a picture"),
        (b"not a picture at all", "not a picture of any kind"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n", "not a picture of any kind"),  # runs another program
        (png((100_000, 100_000)), "decompression bomb"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, content, why):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=why):
        picture.read(tmp_path / "a.png", 8, 8, 3)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.gif", "a.webp", "a.tiff", "a.bmp"])
def test_a_file_cut_off_or_damaged_anywhere_is_told_or_read(tmp_path, name):
    path = tmp_path / name
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    refused = 0
    for trial in range(60):
        data = bytearray(whole[: len(whole) * trial // 60] if trial % 2 else whole)
        for place in random.integers(0, max(len(data), 1), 3 if trial % 2 == 0 else 0):
            data[place] = random.integers(0, 256)
        path.write_bytes(data)
        try:
            with picture.quiet():
                assert picture.read(path, 8, 8, 3).shape == (8, 8, 3)
        except InputError:
            refused += 1
    assert refused > 5


def test_a_missing_file_and_a_folder_are_told(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        picture.read(tmp_path / "a.png", 8, 8, 3)
    with pytest.raises(InputError, match="folder"):
        picture.read(tmp_path, 8, 8, 3)


def test_names_of_pictures():
    assert {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm"} <= picture.suffixes()
    assert not {".eps", ".pdf", ".txt", ".csv", ".db", ".json", ".mp4", ".npz"} & picture.suffixes()
