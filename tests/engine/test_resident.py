"""Images that lie on a card: the batches of a Loader, number by number, and the bytes that were foretold."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from cuda_on_cpu import both_ways, build, stand_in
from laboratory import images

from engine.data import Loader, Part, Preprocessing, Slot
from engine.errors import InputError
from engine.memory import Array
from engine.ops import to_host
from engine.resident import SHARE, CardPart, data_bytes
from fnwork.datasets.augment import NOTHING, Augmentation

pytestmark = pytest.mark.skipif(bool(build.obstacle()), reason=build.obstacle() or "-")

ROWS = 4
HOWS = [
    NOTHING,
    Augmentation(crop=3),
    Augmentation(flip="random"),
    Augmentation(crop=2, flip="alternating"),
    Augmentation(cutout=3),
    Augmentation(crop=4, flip="random", cutout=4),
]


@pytest.fixture(autouse=True)
def card():
    with stand_in.installed():
        yield


@pytest.fixture
def room(card) -> SimpleNamespace:
    """Room on the card, counted."""
    sizes: list[int] = []

    def allocate(size: int) -> Array:
        sizes.append(size)
        return both_ways.transfer(np.full(size, both_ways.GARBAGE, np.uint8))

    return SimpleNamespace(allocate=allocate, current=nullcontext, sizes=sizes)


def part_of(random: np.random.Generator, shape: tuple[int, ...], samples: int = 11, regression: bool = False) -> Part:
    values = random.normal(size=(samples, 1)).astype(np.float32)
    classes = random.integers(0, 9, samples).astype(np.int32)
    return Part(random.integers(0, 256, (samples, *shape), np.uint8), values if regression else classes)


def both(room: SimpleNamespace, part: Part, dtype: type, shuffle: bool, how: Augmentation) -> tuple[CardPart, Loader]:
    channels = part.inputs.shape[-1]
    mean = tuple(100.0 + channel for channel in range(channels))
    preprocessing = Preprocessing("", part.inputs.shape[1:], channel_mean=mean, channel_std=(57.3,) * channels)
    arrays = [
        (np.zeros((ROWS, *part.inputs.shape[1:]), dtype), np.zeros((ROWS, *part.targets.shape[1:]), part.targets.dtype))
        for _ in range(2)
    ]
    slots = [tuple(map(both_ways.transfer, pair)) for pair in arrays]
    options = {"seed": 5, "augment": how, "shuffle": shuffle}
    ours = CardPart(part, preprocessing, slots, card=room, **options)
    return ours, Loader(part, preprocessing, [Slot(*pair) for pair in arrays], **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(6, 9, 3), (5, 5, 1)], ids=str)
@pytest.mark.parametrize("how", HOWS, ids=str)
def test_batches_are_those_of_a_loader(room, how, shape, dtype):
    part = part_of(np.random.default_rng(1), shape)
    ours, theirs = both(room, part, dtype, True, how)
    for epoch, start in ((1, 0), (2, 0), (3, 1)):
        for ready, wanted in zip(ours.batches(epoch, start), theirs.batches(epoch, start), strict=True):
            assert ready.count == wanted.count
            np.testing.assert_array_equal(to_host(ready.inputs), wanted.inputs)
            np.testing.assert_array_equal(to_host(ready.targets), wanted.targets)
    theirs.close()


def test_values_in_the_order_of_the_part(room):
    part = part_of(np.random.default_rng(2), (4, 4, 1), regression=True)
    ours, _ = both(room, part, np.float32, False, NOTHING)
    targets = [to_host(batch.targets).copy() for batch in ours.batches(0)]
    np.testing.assert_array_equal(np.concatenate(targets), part.targets)


def test_an_image_that_would_be_lost_is_refused(room):
    with pytest.raises(InputError, match="out of sight"):
        both(room, part_of(np.random.default_rng(3), (4, 4, 1)), np.float32, True, Augmentation(crop=4))


def test_what_lies_there_is_what_was_foretold(room):
    data = images(30)
    device = SimpleNamespace(is_cuda=True, total=1 << 30)
    slots = [
        (
            both_ways.transfer(np.zeros((ROWS, *data.input_shape), np.float32)),
            both_ways.transfer(np.zeros(ROWS, np.int32)),
        )
    ]
    for part in (data.train, data.validation, data.test):
        CardPart(part, data.preprocessing, slots, card=room, seed=0, shuffle=False)
    size = (data.input_shape, [len(part) for part in (data.train, data.validation, data.test)], data.nbytes)
    foretold = data_bytes(device, *size, Augmentation(crop=2, flip="random", cutout=2))
    assert foretold == sum(room.sizes) > data.nbytes
    assert data_bytes(SimpleNamespace(is_cuda=True, total=SHARE * foretold), *size, NOTHING) == foretold
    assert data_bytes(SimpleNamespace(is_cuda=True, total=SHARE * foretold - 1), *size, NOTHING) == 0
    for how in (Augmentation(mixup=0.2), Augmentation(jitter=0.1)):
        assert data_bytes(device, *size, how) == 0
    assert data_bytes(SimpleNamespace(is_cuda=False, total=1), *size, NOTHING) == data.nbytes
