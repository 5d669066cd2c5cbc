"""The ledger: every array of the engine, by category, cut from one arena that is reused by lifetime.

The arena's offsets depend only on the order of `take` and `give`. A forecast runs the same order with no data behind
it, learns how large the arena has to be, and the real run then allocates exactly that, once.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from engine.errors import RunError

CATEGORIES = ("weights", "gradients", "optimizer", "activations", "workspace", "data")

SHORT_LIVED = ("gradients", "workspace")

Shape = tuple[int, ...]
Array = Any  # numpy.ndarray, cupy.ndarray or ArraySpec: the layers treat them alike
Scratch = Sequence[Array]  # what an operation declared that it needs while it computes


@dataclass(frozen=True, eq=False)
class ArraySpec:
    """An array without its data: what the operations need to know when they run on shapes alone."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def reshape(self, *shape: int) -> "ArraySpec":
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        known = prod(size for size in sizes if size != -1)
        return ArraySpec(tuple(self.size // known if size == -1 else size for size in sizes), self.dtype)

    def __getitem__(self, rows: slice) -> "ArraySpec":
        return ArraySpec((len(range(*rows.indices(self.shape[0]))), *self.shape[1:]), self.dtype)


class BudgetExceeded(RunError):
    """The next array would take the run over its memory budget, or `what` else; `by_category` is the ledger then."""

    def __init__(self, needed: int, budget: int, by_category: dict[str, int], advice: str = "", what: str = "") -> None:
        self.needed, self.budget, self.by_category = needed, budget, by_category
        breakdown = ", ".join(f"{name} {size / 2**20:.1f}" for name, size in by_category.items() if size)
        super().__init__(
            f"{what or 'memory budget exceeded'}: {needed / 2**20:.1f} MiB needed, {budget / 2**20:.1f} MiB allowed "
            f"(MiB by category: {breakdown})" + (f". {advice}" if advice else "")
        )


@dataclass(frozen=True)
class TimelinePoint:
    """The ledger after one operation of a layer; sizes in bytes."""

    operation: str
    layer: str
    total: int
    by_category: dict[str, int]


class Arena:
    """Addresses only. What lives long is cut from the low end, what is short-lived from the high end, each at the
    first gap that fits; neighbours merge when freed. So what is kept over a pass lies without gaps between, whatever
    came and went meanwhile."""

    _ENDLESS = 1 << 60

    def __init__(self, capacity: int | None = None) -> None:
        """`capacity` bytes in the first segment; None: without limit (a forecast), where `needed` says what would
        do.
        """
        self.needed = 0
        self._measuring = capacity is None
        self.free: list[tuple[int, int]] = [(0, self._ENDLESS if capacity is None else capacity)]

    def take(self, size: int, high: bool) -> int | None:
        """Offset of `size` free bytes, or None when no gap is large enough."""
        places = range(len(self.free))
        index = next((i for i in (reversed(places) if high else places) if self.free[i][1] >= size), None)
        if index is None:
            return None
        offset, room = self.free.pop(index)
        if room > size:
            self.free.insert(index, (offset if high else offset + size, room - size))
        if self._measuring:
            self.needed = max(self.needed, self._ENDLESS - max(room for _, room in self.free))
        return offset + room - size if high else offset

    def give(self, offset: int, size: int) -> None:
        """Returns `size` bytes at `offset`."""
        index = bisect_left(self.free, (offset, 0))
        if index < len(self.free) and self.free[index][0] == offset + size:
            size += self.free.pop(index)[1]
        if index and sum(self.free[index - 1]) == offset:
            index -= 1
            offset, before = self.free.pop(index)
            size += before
        insort(self.free, (offset, size))

    def extend(self, offset: int, size: int) -> None:
        """Adds a segment; `offset` must leave a gap to the ones before, since memory of two segments never joins."""
        insort(self.free, (offset, size))


@dataclass
class _Block:
    offset: int
    size: int
    category: str
    array: Array


@dataclass
class Memory:
    """The ledger and its pool.

    `allocate(bytes)` makes one-dimensional uint8 storage; None runs on shapes alone. `alignment` is what sizes round
    up to (512 as CuPy's pool on CUDA). `budget` in bytes, 0 for none. `guard` makes what work on the arrays stands in.
    """

    allocate: Callable[[int], Array] | None = None
    capacity: int = 0
    budget: int = 0
    alignment: int = 64
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CATEGORIES, 0))
    total: int = 0
    outside: int = 0
    timeline: list[TimelinePoint] | None = None
    guard: Callable[[], AbstractContextManager[None]] = nullcontext

    def __post_init__(self) -> None:
        self.peak: dict[str, int] = {"total": 0, **self.bytes}
        self._fullest = dict(self.peak)
        self._blocks: dict[int, _Block] = {}
        self._views: dict[tuple[int, tuple[int, ...], np.dtype], Array] = {}
        self._segments: list[tuple[int, Array]] = []
        self._arena = Arena(None if self.allocate is None else self.rounded(self.capacity))
        if self.allocate is not None:
            self._segments.append((0, self.allocate(self.rounded(self.capacity))))

    @property
    def reserved(self) -> int:
        """Bytes of the pool, the gaps between live arrays included; on shapes: what the pool would have to have."""
        return self._arena.needed if self.allocate is None else sum(storage.size for _, storage in self._segments)

    def take(self, shape: Sequence[int], dtype: Any, category: str) -> Array:
        """An uninitialised array of `shape` and `dtype`, entered under `category`. Raises BudgetExceeded."""
        shape, dtype = tuple(shape), np.dtype(dtype)
        size = self.rounded(prod(shape) * dtype.itemsize)
        self._enter(category, size)
        high = category in SHORT_LIVED
        offset = self._arena.take(size, high)
        if offset is None:
            offset = self._grow(size, high)
        array = self._view(offset, shape, dtype)
        self._blocks[id(array)] = _Block(offset, size, category, array)
        return array

    def take_like(self, spec: ArraySpec, category: str) -> Array:
        return self.take(spec.shape, spec.dtype, category)

    def give(self, array: Array) -> None:
        """Takes an array out of the ledger; its memory serves the next `take`."""
        block = self._blocks.pop(id(array))
        self.bytes[block.category] -= block.size
        self.total -= block.size
        self._arena.give(block.offset, block.size)

    def move(self, array: Array, category: str) -> Array:
        """The array, entered under another category: its buffer is reused for something else."""
        block = self._blocks[id(array)]
        self.bytes[block.category] -= block.size
        self.bytes[category] += block.size
        block.category = category
        return array

    def reshape(self, array: Array, shape: tuple[int, ...]) -> Array:
        """The same memory under another shape; the array handed in is no longer the ledger's."""
        block = self._blocks.pop(id(array))
        block.array = self._view(block.offset, shape, array.dtype)
        self._blocks[id(block.array)] = block
        return block.array

    def adopt(self, size: int, category: str) -> None:
        """Enters memory that lives outside the pool, such as the data set itself; a negative size takes it out."""
        self.outside += size
        self._enter(category, size)

    @contextmanager
    def workspace(self, specs: Sequence[ArraySpec]) -> Iterator[list[Array]]:
        """Scratch arrays for one operation."""
        arrays = [self.take(spec.shape, spec.dtype, "workspace") for spec in specs]
        try:
            yield arrays
        finally:
            for array in reversed(arrays):
                self.give(array)

    def restart_peak(self) -> None:
        """Lets the peak begin at what is live now."""
        self.peak = {"total": self.total, **self.bytes}

    def fullest(self) -> dict[str, int]:
        """The ledger by category at the fullest moment since this was last asked for."""
        fullest, self._fullest = self._fullest, {"total": self.total, **self.bytes}
        return {name: fullest[name] for name in CATEGORIES}

    def held(self) -> tuple[Any, ...]:
        """What is live now, to go back to."""
        return dict(self._blocks), [*self._arena.free], dict(self.bytes), self.total, self.outside

    def hold(self, held: tuple[Any, ...]) -> None:
        """Goes back to what was live, after work that was given up in its middle."""
        self._blocks, self._arena.free, self.bytes, self.total, self.outside = held

    def reach(self, by_category: dict[str, int]) -> None:
        """Says that the ledger was as full as it once was, by work that is not entered array by array."""
        total = sum(by_category.values())
        if total > self._fullest["total"]:
            self._fullest = {"total": total, **by_category}

    def mark(self, operation: str, layer: str) -> None:
        """Adds a point to the timeline when one is being recorded."""
        if self.timeline is not None:
            self.timeline.append(TimelinePoint(operation, layer, self.total, dict(self.bytes)))

    def _enter(self, category: str, size: int) -> None:
        if self.budget and self.total + size > self.budget:
            raise BudgetExceeded(self.total + size, self.budget, {**self.bytes, category: self.bytes[category] + size})
        self.bytes[category] += size
        self.total += size
        if self.total > self._fullest["total"]:
            self._fullest = {"total": self.total, **self.bytes}
        if self.total > self.peak["total"]:
            self.peak = {"total": self.total, **self.bytes}

    def rounded(self, size: int) -> int:
        """Bytes that an array of `size` bytes takes."""
        return -(-max(size, 1) // self.alignment) * self.alignment

    def _grow(self, size: int, high: bool) -> int:
        last, storage = self._segments[-1]
        start = last + storage.size + self.alignment
        self._segments.append((start, self.allocate(size)))
        self._arena.extend(start, size)
        return self._arena.take(size, high)

    def _view(self, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        if self.allocate is None:
            return ArraySpec(shape, dtype)
        key = (offset, shape, dtype)
        view = self._views.get(key)
        if view is None or id(view) in self._blocks:
            start, storage = next(segment for segment in reversed(self._segments) if segment[0] <= offset)
            used = prod(shape) * dtype.itemsize
            view = storage[offset - start : offset - start + used].view(dtype).reshape(shape)
            self._views[key] = view
        return view
