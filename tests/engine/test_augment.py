"""Crops and mirror images."""

import numpy as np
import pytest

from engine.data import augment
from engine.data.augment import Augmentation


def test_reads_the_names():
    assert augment.parse(("crop:4", "flip")) == Augmentation(4, True)
    assert not augment.parse(())


def test_draws_cover_their_range_and_follow_seed_and_epoch():
    first = augment.draw(Augmentation(2, True), seed=1, epoch=3, samples=2_000)
    again = augment.draw(Augmentation(2, True), seed=1, epoch=3, samples=2_000)
    assert np.array_equal(first.shift, again.shift)
    assert np.array_equal(first.flip, again.flip)
    assert set(first.shift.ravel().tolist()) == {-2, -1, 0, 1, 2}
    assert 0.4 < first.flip.mean() < 0.6
    for seed, epoch in ((2, 3), (1, 4)):
        other = augment.draw(Augmentation(2, True), seed, epoch, 2_000)
        assert not np.array_equal(first.shift, other.shift)


def test_no_flip_is_drawn_unless_asked_for():
    assert not augment.draw(Augmentation(2, False), 0, 0, 100).flip.any()


@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 3])
def test_shifted_is_a_crop_of_the_padded_side(shift):
    side, padding = np.arange(1, 6), 3
    to, source = augment.shifted(len(side), shift)
    got = np.zeros_like(side)
    got[to] = side[source]
    begin = padding + shift
    assert got.tolist() == np.pad(side, padding)[begin : begin + len(side)].tolist()
