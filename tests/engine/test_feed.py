"""Batches arrive on a card while it computes, each whole and in time, in whatever order two streams get on."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from fake_cuda_runtime import FakeCard, FakeRuntime
from laboratory import images

from engine.data import Batch, DataSet
from engine.device import choose
from engine.feed import Feed
from fnwork.datasets.augment import Augmentation

ROWS = 4


@pytest.fixture
def data() -> DataSet:
    return images(30)


def feed_of(data: DataSet, use: str, resident: bool = False) -> Feed:
    """A feed over slots of the device, and nothing else of a learner."""
    device = choose(use)

    def slot(shape: tuple[int, ...], dtype: type) -> np.ndarray:
        return device.allocate(int(np.prod(shape)) * np.dtype(dtype).itemsize).view(dtype).reshape(shape)

    learner = SimpleNamespace(
        inputs=[slot((ROWS, *data.input_shape), np.float32) for _ in range(2)],
        targets=[slot((ROWS,), np.int32) for _ in range(2)],
    )
    return Feed(data, learner, device, 3, Augmentation(flip="random"), resident)


def expected(data: DataSet, epoch: int, start: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    feed = feed_of(data, "cpu")
    batches = [(batch.inputs.copy(), batch.targets.copy()) for batch in feed.training(epoch, start)]
    feed.close()
    return batches


def launch(runtime: FakeRuntime, batch: Batch, seen: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Work on a batch, which begins some time later."""
    runtime.computing.queue.append(lambda: seen.append((batch.inputs.get(), batch.targets.get())))


def check(seen: list[tuple[np.ndarray, np.ndarray]], wanted: list[tuple[np.ndarray, np.ndarray]]) -> None:
    assert len(seen) == len(wanted)
    for got, right in zip(seen, wanted, strict=True):
        np.testing.assert_array_equal(got[0], right[0])
        np.testing.assert_array_equal(got[1], right[1])


@pytest.mark.parametrize("window", [1, 3, 100], ids="read after every {} batches".format)
@pytest.mark.parametrize("seed", range(8))
def test_every_batch_is_whole_when_it_is_computed_from(
    data: DataSet, monkeypatch: pytest.MonkeyPatch, seed: int, window: int
) -> None:
    """`window` batches between two moments at which the host waits for the computing."""
    runtime = FakeRuntime([FakeCard("GPU-a"), FakeCard("GPU-b", free=1 << 30)], seed=seed).install(monkeypatch)
    feed, seen = feed_of(data, "cuda:1"), []
    for epoch in (1, 2):
        for number, batch in enumerate(feed.training(epoch, 0)):
            assert batch.count == len(batch.inputs) == len(batch.targets)
            launch(runtime, batch, seen)
            if number % window == window - 1:
                runtime.drain(runtime.computing)
        runtime.drain(runtime.computing)
    feed.close()
    check(seen, expected(data, 1) + expected(data, 2))


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    return FakeRuntime([FakeCard("GPU-a")]).install(monkeypatch)


def test_the_next_batch_arrives_while_the_card_computes(data: DataSet, runtime: FakeRuntime) -> None:
    feed, wanted, seen = feed_of(data, "cuda"), expected(data, 1), []
    batches = feed.training(1, 0)
    for number in range(4):
        batch = next(batches)
        while runtime.computing.step():  # the batch before is done with
            pass
        launch(runtime, batch, seen)
        copies = runtime.streams[-1]
        while copies.step():  # all that can happen beside the computing, which stands still
            pass
        assert not copies.queue
        slot = feed._copies._arrays[(number + 1) % 2][0]
        np.testing.assert_array_equal(slot, wanted[number + 1][0])
    assert len(seen) == 3 and len(runtime.computing.queue) == 1
    feed.close()


def test_the_host_never_waits_for_the_computing(data: DataSet, runtime: FakeRuntime) -> None:
    feed, seen = feed_of(data, "cuda"), []
    for batch in feed.training(1, 0):
        launch(runtime, batch, seen)
    assert runtime.log and all(stream is not runtime.computing for _, stream in runtime.log)
    assert len(seen) < 30 / ROWS  # the last ones are still to be done


def test_other_batches_in_between_take_nothing_away(data: DataSet, runtime: FakeRuntime) -> None:
    """An epoch that is left for the validation part and begun again, as after an evaluation in its middle."""
    feed, seen = feed_of(data, "cuda"), []

    def work(batches: Iterator[Batch], most: int) -> None:
        for _, batch in zip(range(most), batches, strict=False):
            launch(runtime, batch, seen)
        runtime.drain(runtime.computing)

    work(feed.training(1, 0), 3)
    work(feed.in_order("validation"), 2)
    assert feed.interrupted
    work(feed.training(1, 3), 100)
    feed.close()
    wanted = expected(data, 1)
    check(seen[:3] + seen[5:], wanted)
    np.testing.assert_array_equal(np.concatenate([targets for _, targets in seen[3:5]]), data.validation.targets[:8])


def test_an_empty_epoch_ends_at_once(data: DataSet, runtime: FakeRuntime) -> None:
    feed = feed_of(data, "cuda")
    assert list(feed.training(1, 100)) == []
    feed.close()


def test_images_on_the_card_and_others_from_the_host_take_turns(data: DataSet, runtime: FakeRuntime) -> None:
    feed, seen = feed_of(data, "cuda", resident=True), []

    def work(batches: Iterator[Batch], most: int) -> None:
        for _, batch in zip(range(most), batches, strict=False):
            launch(runtime, batch, seen)
            runtime.drain(runtime.computing)

    work(feed.training(1, 0), 3)
    work(feed.of(data.test.inputs), 1)  # whose next batch is being copied
    work(feed.training(1, 3), 100)
    work(feed.in_order("validation"), 100)
    work(feed.in_order("train"), 1)
    feed.close()
    wanted = expected(data, 1)
    check(seen[:3] + seen[4 : len(wanted) + 1], wanted)
    targets = np.concatenate([targets for _, targets in seen[len(wanted) + 1 :]])
    np.testing.assert_array_equal(targets, [*data.validation.targets, *data.train.targets[:ROWS]])
    assert feed.waited == 0
