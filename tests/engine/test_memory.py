"""The ledger: what is in it, its peak, its budget; and an arena whose offsets a forecast can foretell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.memory import CATEGORIES, Arena, ArraySpec, BudgetExceeded, Memory


def ledger(capacity: int = 0, **options: int) -> Memory:
    return Memory(lambda size: np.empty(size, np.uint8), capacity=capacity, **options)


def test_every_array_is_entered_rounded_up_under_its_category() -> None:
    memory = ledger(alignment=64)
    weights, scratch = memory.take((3, 5), np.float32, "weights"), memory.take((65,), np.uint8, "workspace")
    assert weights.shape == (3, 5) and weights.dtype == np.float32
    assert {name: size for name, size in memory.bytes.items() if size} == {"weights": 64, "workspace": 128}
    memory.move(scratch, "activations")
    assert memory.bytes["activations"] == 128 and memory.bytes["workspace"] == 0
    memory.give(weights)
    memory.give(scratch)
    assert memory.total == 0 and set(memory.bytes) == set(CATEGORIES)
    assert memory.peak == {"total": 192, **dict.fromkeys(CATEGORIES, 0), "weights": 64, "workspace": 128}


def test_the_peak_is_that_of_the_total_with_the_categories_at_that_moment() -> None:
    memory = ledger()
    first = memory.take((1000,), np.uint8, "activations")
    memory.give(first)
    memory.take((900,), np.uint8, "gradients")
    assert memory.peak["activations"] == 1024 and memory.peak["gradients"] == 0
    memory.take((500,), np.uint8, "workspace")
    assert memory.peak["activations"] == 0 and memory.peak["total"] == 960 + 512


def test_over_the_budget_says_what_there_is() -> None:
    memory = ledger(budget=1000)
    memory.take((600,), np.uint8, "weights")
    with pytest.raises(BudgetExceeded) as caught:
        memory.take((600,), np.uint8, "activations")
    assert caught.value.needed == 1280 and caught.value.budget == 1000
    assert caught.value.by_category["weights"] == caught.value.by_category["activations"] == 640
    assert "weights" in str(caught.value) and "activations" in str(caught.value)
    assert memory.total == 640
    memory.take((320,), np.uint8, "activations")


def test_a_reshaped_array_is_the_same_memory() -> None:
    memory = ledger()
    array = memory.take((4, 6), np.float32, "gradients")
    array[...] = np.arange(24).reshape(4, 6)
    flat = memory.reshape(array, (24,))
    assert np.shares_memory(flat, array) and flat.tolist() == list(range(24))
    memory.give(flat)
    assert memory.total == 0
    with pytest.raises(KeyError):
        memory.give(array)


def test_scratch_is_given_back_when_an_operation_fails() -> None:
    memory = ledger()
    with pytest.raises(RuntimeError), memory.workspace([ArraySpec((9,), np.dtype(np.float32))] * 3) as arrays:
        assert len(arrays) == 3 and memory.bytes["workspace"] == 192
        raise RuntimeError
    assert memory.total == 0


def test_memory_that_lives_elsewhere_counts() -> None:
    memory = ledger(budget=1000)
    memory.adopt(900, "data")
    assert (memory.bytes["data"], memory.total, memory.peak["data"]) == (900, 900, 900)
    with pytest.raises(BudgetExceeded):
        memory.take((200,), np.uint8, "weights")


def test_specs_are_arrays_without_data() -> None:
    spec = ArraySpec((4, 3, 2), np.dtype(np.float16))
    like = np.empty((4, 3, 2), np.float16)
    for shape in ((24,), (-1, 2), (2, -1), (4, 6)):
        assert spec.reshape(*shape).shape == spec.reshape(shape).shape == like.reshape(shape).shape
    for rows in (slice(0, 3), slice(2, 9), slice(None), slice(1, 1)):
        assert spec[rows].shape == like[rows].shape
    assert (spec.size, spec.nbytes) == (like.size, like.nbytes)


sizes = st.lists(
    st.tuples(st.integers(1, 700), st.sampled_from(CATEGORIES), st.integers(0, 6)), min_size=1, max_size=60
)


def play(memory: Memory, moves: list[tuple[int, str, int]]) -> list:
    """Takes an array a move, and gives back an earlier one now and then; returns those that are left."""
    live = []
    for number, (size, category, back) in enumerate(moves):
        array = memory.take((size,), np.uint8, category)
        if memory.allocate is not None:
            array[...] = number % 256
        live.append((number % 256, array))
        if back < len(live):
            memory.give(live.pop(back)[1])
    return live


@settings(max_examples=150, deadline=None)
@given(sizes)
def test_a_forecast_knows_what_the_pool_has_to_have(moves: list[tuple[int, str, int]]) -> None:
    """The same moves on shapes and on memory of the size they found: one segment does, and no two arrays overlap."""
    shapes = Memory()
    left = play(shapes, moves)
    real = ledger(capacity=shapes.reserved)
    live = play(real, moves)
    assert real.bytes == shapes.bytes and real.peak == shapes.peak
    assert len(real._segments) == 1
    assert all((array == number).all() for number, array in live)
    assert len(left) == len(live)
    for memory, arrays in ((shapes, left), (real, live)):
        for _, array in arrays:
            memory.give(array)
        assert memory.total == 0
    assert len(real._arena.free) == 1


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(0, 2000))
def test_a_pool_that_is_too_small_grows(moves: list[tuple[int, str, int]], capacity: int) -> None:
    real = ledger(capacity=capacity)
    live = play(real, moves)
    assert all((array == number).all() for number, array in live)
    for _, array in live:
        real.give(array)
    assert real.total == 0


def test_what_is_kept_lies_without_gaps() -> None:
    """Scratch that comes and goes between kept arrays leaves no holes among them."""
    memory = Memory()
    for _ in range(10):
        with memory.workspace([ArraySpec((1000,), np.dtype(np.uint8))]):
            memory.take((640,), np.uint8, "activations")
    assert memory.reserved == 10 * 640 + 1024


def test_arena_joins_neighbours() -> None:
    arena = Arena(300)
    offsets = [arena.take(100, high=False) for _ in range(3)]
    assert offsets == [0, 100, 200] and arena.take(1, high=False) is None
    for offset in (0, 200, 100):
        arena.give(offset, 100)
    assert arena.take(300, high=True) == 0
