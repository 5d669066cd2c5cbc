"""Crops, mirror images, jitter, cutout and mixup, image by image against plain code, and what is drawn for them."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InputError
from fnwork.datasets.augment import Augmentation, Draws

SHAPE = (8, 6, 3)
ALL = Augmentation(crop=2, flip="random", jitter=0.4, cutout=3, mixup=0.5)


@pytest.mark.parametrize(("name", "pixels"), [("crop", 6), ("cutout", 6), ("cutout", 99)])
def test_refuses_what_hides_the_image(name: str, pixels: int) -> None:
    with pytest.raises(InputError, match=f'"{name}:{pixels}" puts images of 8 x 6 pixels out of sight'):
        Augmentation(**{name: pixels}).check(SHAPE)
    Augmentation(**{name: 5}).check(SHAPE)


def drawn_for(how: Augmentation, seed: int = 1, epoch: int = 3, samples: int = 2_000) -> Draws:
    order = np.random.default_rng(seed).permutation(samples)
    return how.draw(seed, epoch, order, SHAPE)


def test_draws_cover_their_range_and_follow_seed_and_epoch() -> None:
    first, again = drawn_for(ALL), drawn_for(ALL)
    others = [drawn_for(ALL, seed=2), drawn_for(ALL, epoch=4)]
    for field in fields(Draws):
        here = getattr(first, field.name)
        assert len(here) == 2_000
        np.testing.assert_array_equal(here, getattr(again, field.name))
        assert all((here != getattr(other, field.name)).mean() > 0.3 for other in others)
    assert set(first.shift.ravel().tolist()) == {-2, -1, 0, 1, 2}
    assert 0.4 < first.flip.mean() < 0.6
    assert 0.6 <= first.factors.min() < 0.62 and 1.38 < first.factors.max() <= 1.4
    assert (first.hole.min(axis=0).tolist(), first.hole.max(axis=0).tolist()) == ([0, 0], [7, 5])
    assert sorted(first.partner.tolist()) == list(range(2_000))
    # Beta(1/2, 1/2) has mean 1/2 and variance 1/8
    assert first.share.max() <= 256 and abs(first.share.mean() / 256 - 0.5) < 0.03
    assert abs(first.share.std() / 256 - 8**-0.5) < 0.02


def test_nothing_is_done_unless_asked_for() -> None:
    drawn = drawn_for(Augmentation(crop=1))
    assert not drawn.flip.any()
    assert (drawn.factors == 1).all() and (drawn.share == 256).all()
    assert not drawn_for(Augmentation(flip="random")).shift.any()


def test_alternating_mirror_images_belong_to_the_sample() -> None:
    """Whatever its place in the epoch, a sample is mirrored in every second one, and half of all at a time."""

    def mirrored(epoch: int, seed: int = 0) -> np.ndarray:
        order = np.random.default_rng(epoch).permutation(500)
        by_sample = np.zeros(500, bool)
        by_sample[order] = Augmentation(flip="alternating").draw(seed, epoch, order, SHAPE).flip
        return by_sample

    first = mirrored(1)
    assert 0.4 < first.mean() < 0.6
    for epoch in (2, 3, 4, 300, 301):
        np.testing.assert_array_equal(mirrored(epoch), first if epoch % 2 else ~first)
    assert (mirrored(1, seed=1) != first).any()


def by_hand(image: np.ndarray, how: Augmentation, drawn: Draws, place: int, colour: np.ndarray) -> np.ndarray:
    """One image, step by step."""
    pad, (down, right) = how.crop, drawn.shift[place] + how.crop
    image = np.pad(image, ((pad, pad), (pad, pad), (0, 0)), mode="reflect")
    image = image[down : down + SHAPE[0], right : right + SHAPE[1]].astype(np.float64)
    image = image[:, ::-1] if drawn.flip[place] else image
    if how.jitter:
        brightness, contrast, saturation = drawn.factors[place].astype(np.float64)
        image = image * brightness
        image = image.mean() + contrast * (image - image.mean())
        if image.shape[2] == 3:
            gray = 0.299 * image[..., 0] + 0.587 * image[..., 1] + 0.114 * image[..., 2]
            image = gray[..., None] + saturation * (image - gray[..., None])
        image = np.clip(image, 0, 255)
    top, left = drawn.hole[place] - how.cutout // 2
    for row, column in np.ndindex(image.shape[:2]):
        if top <= row < top + how.cutout and left <= column < left + how.cutout:
            image[row, column] = colour
    return image


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 5), st.booleans(), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 5), st.sampled_from([1, 2, 3]),
    st.integers(0, 99),
)  # fmt: skip
def test_each_image_is_what_plain_code_makes_of_it(
    crop: int, flip: bool, jitter: float, cutout: int, channels: int, seed: int
) -> None:
    how = Augmentation(crop, "random" if flip else "", jitter, cutout)
    images = np.random.default_rng(seed).integers(0, 256, (7, *SHAPE[:2], channels), np.uint8)
    colour = np.arange(channels, dtype=np.uint8) + 100
    before, drawn = images.copy(), how.draw(seed, 1, np.arange(7), SHAPE)
    got = how.apply(images, drawn, colour)
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(images, before)
    for place, image in enumerate(images):
        expected = by_hand(image, how, drawn, place, colour)
        if jitter:
            assert np.abs(got[place] - expected).max() <= 0.51
        else:
            np.testing.assert_array_equal(got[place], expected)


def test_mixed_images_are_weighted_means() -> None:
    random = np.random.default_rng(0)
    left, right = random.integers(0, 256, (2, 5, *SHAPE), np.uint8)
    left[0], right[0] = 255, 255
    share = np.array([100, 0, 1, 255, 256], np.uint16)
    got = ALL.mix(left, right, share)
    weight = share[:, None, None, None] / 256
    assert got.dtype == np.uint8
    assert np.abs(got - (weight * left + (1 - weight) * right)).max() <= 0.5
    np.testing.assert_array_equal(got[1], right[1])
    np.testing.assert_array_equal(got[4], left[4])
