"""Batches: the same whatever the timing and the slots, exact after a skipped beginning, and the thread always ends."""

import threading
import time

import numpy as np
import pytest

from engine.data import Loader, Part, Preprocessing, Slot
from engine.data import loader as loader_module
from engine.errors import InputError
from fnwork.datasets.augment import NOTHING, Augmentation
from fnwork.datasets.pixels import fit_images

SAMPLES, MICRO_BATCH = 23, 5


def image_part(channels=2):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (SAMPLES, 6, 7, channels), dtype=np.uint8)
    return Part(images, np.arange(SAMPLES, dtype=np.int32))


PART = image_part()
PREPROCESSING = fit_images(PART.inputs, ("a", "b"))


def slots_for(part, number=2, dtype=np.float32):
    return [
        Slot(
            np.full((MICRO_BATCH, *part.inputs.shape[1:]), np.nan, dtype),
            np.full((MICRO_BATCH, *part.targets.shape[1:]), -1, part.targets.dtype),
        )
        for _ in range(number)
    ]


def loader_of(part=PART, slots=None, seed=0, augment=NOTHING, shuffle=True, preprocessing=PREPROCESSING):
    return Loader(part, preprocessing, slots or slots_for(part), seed=seed, augment=augment, shuffle=shuffle)


def read(loader, epoch=0, start=0, pause=0.0):
    """Copies of the batches of an epoch."""
    taken = []
    for batch in loader.batches(epoch, start):
        time.sleep(pause)
        assert len(batch.inputs) == len(batch.targets) == batch.count
        taken.append((batch.inputs.copy(), batch.targets.copy()))
    return taken


def same(left, right):
    return len(left) == len(right) and all(
        np.array_equal(a, b) for one, other in zip(left, right, strict=True) for a, b in zip(one, other, strict=True)
    )


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("data")]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_images_are_normalised_as_the_statistics_say(dtype):
    batches = read(loader_of(slots=slots_for(PART, dtype=dtype), shuffle=False))
    got = np.concatenate([inputs for inputs, _ in batches])
    pixels = PART.inputs.astype(np.float64)
    expected = (pixels - PREPROCESSING.channel_mean) / PREPROCESSING.channel_std
    assert got.dtype == dtype
    assert np.array_equal(got, expected.astype(dtype))
    assert np.abs(expected.mean(axis=(0, 1, 2))).max() < 1e-9
    assert np.abs(expected.std(axis=(0, 1, 2)) - 1).max() < 1e-9


def test_a_channel_of_one_colour_becomes_zero():
    images = np.random.default_rng(0).integers(0, 256, (SAMPLES, 6, 7, 2), dtype=np.uint8)
    images[..., 1] = 37
    part = Part(images, PART.targets)
    for inputs, _ in read(loader_of(part, preprocessing=fit_images(images, ("a", "b")))):
        assert (inputs[..., 1] == 0).all()
        assert np.isfinite(inputs).all()


@pytest.mark.parametrize("shuffle", [False, True])
def test_every_sample_comes_once_and_the_last_batch_is_smaller(shuffle):
    batches = read(loader_of(shuffle=shuffle))
    assert [len(targets) for _, targets in batches] == [5, 5, 5, 5, 3]
    targets = np.concatenate([targets for _, targets in batches]).tolist()
    assert sorted(targets) == list(range(SAMPLES))
    assert (targets == list(range(SAMPLES))) == (not shuffle)


EVERYTHING = Augmentation(crop=2, flip="alternating", jitter=0.3, cutout=2, mixup=0.4)


def shares_for(part, number=2, micro_batch=MICRO_BATCH):
    """Slots whose targets have room for the share of each of as many classes as there are samples."""
    shapes = (micro_batch, *part.inputs.shape[1:]), (micro_batch, SAMPLES)
    return [Slot(*(np.full(shape, np.nan, np.float32) for shape in shapes)) for _ in range(number)]


def test_batches_follow_seed_and_epoch_alone():
    reference = read(loader_of(slots=shares_for(PART), augment=EVERYTHING), epoch=3)
    for number, pause in ((1, 0.0), (2, 0.002), (6, 0.0)):
        loader = loader_of(slots=shares_for(PART, number), augment=EVERYTHING)
        read(loader, epoch=1)
        assert same(read(loader, epoch=3, pause=pause), reference)
    assert not same(read(loader_of(slots=shares_for(PART), augment=EVERYTHING), epoch=5), reference)
    assert not same(read(loader_of(slots=shares_for(PART), augment=EVERYTHING, seed=1), epoch=3), reference)


@pytest.mark.parametrize("start", [0, 1, 4, 5])
def test_start_gives_exactly_the_later_batches(start):
    whole = read(loader_of(slots=shares_for(PART), augment=EVERYTHING), epoch=2)
    assert same(read(loader_of(slots=shares_for(PART), augment=EVERYTHING), epoch=2, start=start), whole[start:])


def test_neither_the_size_of_a_batch_nor_that_of_a_piece_changes_an_image(monkeypatch):
    def everything(micro_batch):
        batches = read(loader_of(slots=shares_for(PART, micro_batch=micro_batch), augment=EVERYTHING))
        return [np.concatenate(arrays).tobytes() for arrays in zip(*batches, strict=True)]

    expected = everything(MICRO_BATCH)
    assert everything(1) == everything(11) == expected
    monkeypatch.setattr(loader_module, "PIECE_BYTES", 2 * 6 * 7 * 2 + 1)
    assert everything(11) == expected


def test_mixed_images_and_their_targets_have_the_same_shares():
    """An image is the mixture that its row of targets says, of the two images whose classes that row names."""
    normalised = (PART.inputs - np.array(PREPROCESSING.channel_mean)) / PREPROCESSING.channel_std
    ((inputs, targets),) = read(loader_of(slots=shares_for(PART, micro_batch=SAMPLES), augment=Augmentation(mixup=1.0)))
    assert sorted(np.count_nonzero(targets, axis=0)) != [1] * SAMPLES
    np.testing.assert_array_equal(targets.sum(axis=1), np.ones(SAMPLES, np.float32))
    assert (targets * 256 == np.rint(targets * 256)).all()
    assert (np.count_nonzero(targets, axis=1) == 2).sum() > SAMPLES // 2
    rounding = 0.5 / min(PREPROCESSING.channel_std)
    expected = np.tensordot(targets.astype(np.float64), normalised, axes=1)
    assert np.abs(inputs - expected).max() <= rounding + 1e-5


def test_targets_of_images_that_are_not_mixed_are_all_one_class():
    ((_, targets),) = read(loader_of(slots=shares_for(PART, micro_batch=SAMPLES), shuffle=False))
    np.testing.assert_array_equal(targets, np.eye(SAMPLES, dtype=np.float32))


def test_augmented_images_are_crops_and_mirror_images_of_their_own():
    padding = 2
    normalised = (PART.inputs - np.array(PREPROCESSING.channel_mean)) / PREPROCESSING.channel_std
    padded = np.pad(normalised, ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)), mode="reflect").astype(np.float32)
    found = set()
    for epoch in range(20):
        for inputs, targets in read(loader_of(augment=Augmentation(crop=padding, flip="random")), epoch):
            for image, sample in zip(inputs, targets, strict=True):
                matches = [
                    (down, right, flip)
                    for flip in (False, True)
                    for down in range(2 * padding + 1)
                    for right in range(2 * padding + 1)
                    if np.array_equal(
                        image, padded[sample][:, :: -1 if flip else 1][down : down + 6, right : right + 7]
                    )
                ]
                assert len(matches) == 1
                found.add(matches[0])
    assert len(found) == 50


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_tables_pass_as_they_are(dtype):
    inputs = np.random.default_rng(1).normal(size=(SAMPLES, 4)).astype(np.float32)
    part = Part(inputs, inputs[:, :1] * 2)
    slots = slots_for(part, dtype=dtype)
    batches = read(loader_of(part, slots, shuffle=False, preprocessing=Preprocessing("regression", (4,))))
    assert np.array_equal(np.concatenate([inputs for inputs, _ in batches]), inputs.astype(dtype))
    assert np.array_equal(np.concatenate([targets for _, targets in batches]), part.targets)


def test_batches_lie_in_the_slots():
    slots = slots_for(PART, 2)
    for batch in loader_of(slots=slots).batches(0):
        assert any(np.shares_memory(batch.inputs, slot.inputs) for slot in slots)


def test_a_batch_is_left_alone_until_the_next_one_is_asked_for():
    for number in (1, 2, 3):
        for batch in loader_of(slots=slots_for(PART, number)).batches(0):
            before = batch.inputs.copy()
            time.sleep(0.002)
            assert np.array_equal(batch.inputs, before)


def test_an_epoch_can_be_abandoned_for_another():
    reference = read(loader_of(), epoch=1)
    loader = loader_of()
    abandoned = loader.batches(0)
    next(abandoned)
    assert same(read(loader, epoch=1), reference)
    with pytest.raises(RuntimeError, match="in the middle"):
        next(abandoned)


def test_close_ends_the_thread_in_the_middle_of_an_epoch():
    loader = loader_of(slots=slots_for(PART, 1))
    batches = loader.batches(0)
    next(batches)
    loader.close()
    loader.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("data")]


def test_leaving_the_loop_ends_the_thread():
    for _ in loader_of().batches(0):
        break


def test_what_fails_in_the_thread_is_raised_in_the_consumer():
    slots = slots_for(PART)
    slots[1] = Slot(slots[1].inputs[:, :3], slots[1].targets)
    with pytest.raises(ValueError, match="output array"):
        read(loader_of(slots=slots))


def test_waiting_is_counted():
    loader = loader_of()
    assert loader.waited == 0
    read(loader)
    assert loader.waited > 0


def test_refuses_augmentation_that_does_not_fit():
    with pytest.raises(InputError, match="6 x 7 pixels"):
        loader_of(augment=Augmentation(crop=6))
    table = Part(np.zeros((3, 2), np.float32), np.zeros(3, np.int32))
    with pytest.raises(InputError, match="works on images"):
        loader_of(table, preprocessing=Preprocessing("classification", (2,)), augment=Augmentation(flip="random"))
