"""A stand-in for CuPy's runtime and for the driver's library, made of NumPy: cards, memory, pool and hooks, streams.

Arrays are NumPy's, so the reference operations compute on them at once. What goes to a stream waits in its queue, and
runs as late as the rules allow or in a random order, so that a missing rule shows.
"""

from __future__ import annotations

import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.ops.cuda import launch

GIB = 2**30


@dataclass
class FakeCard:
    """One card. `fault` is raised by whatever computes on it."""

    uuid: str
    name: str = "NVIDIA GeForce RTX 3060"
    total: int = 12 * GIB
    free: int = 10 * GIB
    bus: str = "0000:01:00.0"
    fault: Exception | None = None


class CUDARuntimeError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


class NVMLError(Exception):
    pass


class Array(np.ndarray):
    """An array of a card."""

    def get(self) -> np.ndarray:
        return np.array(self)

    def set(self, values: np.ndarray, stream: Stream | None = None) -> None:
        assert isinstance(values, np.ndarray) and not isinstance(values, Array)
        assert values.dtype == self.dtype and values.shape == self.shape
        if stream is None:
            self[...] = values
        else:
            stream.queue.append(lambda: self.__setitem__(..., values))


class Stream:
    """A queue of work; an item that returns False is not ready and holds up what comes after it."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime
        self.queue: deque[Callable[[], Any]] = deque()
        runtime.streams.append(self)

    def step(self) -> bool:
        """Runs the next item if it is ready."""
        if not self.queue or self.queue[0]() is False:
            return False
        self.queue.popleft()
        return True

    def __enter__(self) -> Stream:
        self._runtime.entered.append(self)
        return self

    def __exit__(self, *failure: object) -> None:
        assert self._runtime.entered.pop() is self

    def wait_event(self, event: Event) -> None:
        record = event.latest
        self.queue.append(lambda: record is None or record.done)

    def synchronize(self) -> None:
        self._runtime.log.append(("synchronize", self))
        self._runtime.drain(self)


class Event:
    """`latest` is the last place where it was recorded."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime, self.latest = runtime, None

    def record(self, stream: Stream | None = None) -> None:
        self.latest = place = SimpleNamespace(done=False)
        (stream or self._runtime.entered[-1]).queue.append(lambda: setattr(place, "done", True))


def pick(grid: tuple[int, ...], block: tuple[int, ...], arguments: Sequence[Any]) -> None:
    """A batch of images on the card, as the kernel of that name makes it."""
    _, _, images, answers, order, shift, flip, hole, table, out, targets, first, height, width, channels, cutout = (
        arguments
    )
    for number in range(len(out)):
        place = first + number
        image = images[order[place]][:, :: -1 if flip[place] else 1]
        image = np.pad(image, ((height - 1,) * 2, (width - 1,) * 2, (0, 0)), "reflect").astype(int)
        down, right = height - 1 + shift[place, 0], width - 1 + shift[place, 1] * (-1 if flip[place] else 1)
        image = image[down : down + height, right : right + width]
        if cutout:
            top, left = hole[place] - cutout // 2
            image[max(0, top) : max(0, top + cutout), max(0, left) : max(0, left + cutout)] = 256
        out[number] = table[np.arange(channels), image]
        targets.reshape(-1).view(np.int32)[number] = answers[order[place]]


class FakeRuntime:
    """The modules `cupy` and `pynvml` over some cards, in CUDA's order; `listed` in the driver's."""

    def __init__(self, cards: Sequence[FakeCard], listed: Sequence[FakeCard] | None = None, seed: int = 0) -> None:
        self.cards, self.listed = list(cards), list(cards if listed is None else listed)
        self.random = random.Random(seed)
        self.streams: list[Stream] = []
        self.log: list[tuple[str, Any]] = []
        self.entered = [Stream(self)]  # the null stream at first
        self.limits: dict[int, int] = {}
        self.pooled: dict[int, tuple[int, int]] = {}
        self._local = threading.local()
        self._pointer = 512
        self.module = self._make_module()

    # --- what tests do ---

    def install(self, patch: pytest.MonkeyPatch) -> FakeRuntime:
        """Puts the modules where `import` finds them."""
        patch.setattr("engine.trainer.Replay", lambda card, memory: lambda work, *key: work())  # all is done at once
        patch.setitem(sys.modules, "cupy", self.module)
        for kept in ("_module", "_kernel"):  # those of another module of that name
            patch.setattr(launch, kept, cache(getattr(launch, kept).__wrapped__))
        patch.setitem(sys.modules, "pynvml", self._driver())
        return self

    @property
    def current(self) -> int:
        """CUDA's number of this thread's card."""
        return getattr(self._local, "number", 0)

    @property
    def computing(self) -> Stream:
        """The stream that a card computes on: the first that was made beside the null stream."""
        return self.streams[1]

    def drain(self, wanted: Stream) -> None:
        """Works until a stream is done, one item of any stream at a time; an item that is never ready is a deadlock."""
        while wanted.queue:
            order = self.random.sample(self.streams, len(self.streams))
            assert any(stream.step() for stream in order), "nothing can go on"

    def take(self, size: int) -> int:
        """Memory of the pool, as CuPy takes some for itself; its address."""
        number, size = self.current, -(-size // 512) * 512
        used = sum(held for where, held in self.pooled.values() if where == number)
        limit = self.limits.get(number, 0)
        if used + size > min(limit or self.cards[number].free, self.cards[number].free):
            raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes (allocated so far: {used:,} bytes).")
        self._pointer += size
        self.pooled[self._pointer] = (number, size)
        for hook in self._hooks().values():
            hook.malloc_postprocess(device_id=number, size=size, mem_size=size, mem_ptr=self._pointer, pmem_id=1)
        return self._pointer

    def give(self, pointer: int) -> None:
        """Returns memory to the pool."""
        number, size = self.pooled.pop(pointer)
        for hook in self._hooks().values():
            hook.free_postprocess(device_id=number, mem_size=size, mem_ptr=pointer, pmem_id=1)

    # --- the modules ---

    def _hooks(self) -> dict[str, Any]:
        if not hasattr(self._local, "hooks"):
            self._local.hooks = {}
        return self._local.hooks

    def _make_module(self) -> ModuleType:
        runtime = self

        class Device:
            def __init__(self, number: int) -> None:
                self.id, self._before = number, []

            def __enter__(self) -> Device:
                self._before.append(runtime.current)
                runtime._local.number = self.id
                return self

            def __exit__(self, *failure: object) -> None:
                runtime._local.number = self._before.pop()

        class Memory:
            def __init__(self, size: int) -> None:
                self.card, self.size = runtime.cards[runtime.current], 0
                if size > self.card.free:
                    raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
                self.buffer = np.full(size, 0xFF, np.uint8)
                self.card.free -= size
                self.size = size

            def __del__(self) -> None:
                self.card.free += self.size

        class MemoryHook:
            def __enter__(self) -> MemoryHook:
                if self.name in runtime._hooks():
                    raise KeyError(f"memory hook {self.name} already exists")
                runtime._hooks()[self.name] = self
                return self

            def __exit__(self, *failure: object) -> None:
                del runtime._hooks()[self.name]

        def ndarray(shape: tuple[int, ...], dtype: Any, pointer: Any) -> Array:
            array = np.ndarray.__new__(Array, shape, dtype, pointer.memory.buffer)
            array.memory = pointer.memory
            return array

        def asarray(values: np.ndarray) -> np.ndarray:
            card = runtime.cards[runtime.current]
            if card.fault is not None:
                raise card.fault
            return np.array(values).view(Array)

        class RawModule:
            """The one kernel that is launched beside the operations, image by image."""

            def __init__(self, code: str) -> None:
                assert "KERNEL pick(" in code

            def get_function(self, name: str) -> Callable[..., None]:
                return {"pick": pick}[name]

        module = ModuleType("cupy")
        module.RawModule = RawModule
        module.__spec__ = ModuleSpec("cupy", None)
        module.__version__ = "14.2.0"
        module.ndarray, module.asarray = ndarray, asarray
        module.get_default_memory_pool = lambda: SimpleNamespace(
            set_limit=lambda size: runtime.limits.__setitem__(runtime.current, size), free_all_blocks=lambda: None
        )
        module.cuda = SimpleNamespace(
            Device=Device,
            Memory=Memory,
            MemoryHook=MemoryHook,
            MemoryPointer=lambda memory, offset: SimpleNamespace(memory=memory, offset=offset),
            Stream=lambda non_blocking: Stream(runtime),
            Event=lambda disable_timing: Event(runtime),
            alloc_pinned_memory=lambda size: bytearray(b"\xff" * size),
            runtime=SimpleNamespace(
                is_hip=False,
                CUDARuntimeError=CUDARuntimeError,
                getDeviceCount=lambda: len(runtime.cards),
                getDeviceProperties=lambda number: {
                    "name": runtime.cards[number].name.encode(),
                    "totalGlobalMem": runtime.cards[number].total,
                },
                deviceGetPCIBusId=lambda number: runtime.cards[number].bus,
                memGetInfo=lambda: (runtime.cards[runtime.current].free, runtime.cards[runtime.current].total),
            ),
        )
        return module

    def _driver(self) -> ModuleType:
        """NVML over `listed`."""
        module = ModuleType("pynvml")

        def by_bus(bus: str) -> FakeCard:
            found = next((card for card in self.listed if card.bus == bus), None)
            if found is None:
                raise NVMLError("Not Found")
            return found

        module.NVMLError = NVMLError
        module.nvmlInit = lambda: None
        module.nvmlDeviceGetHandleByPciBusId = by_bus
        module.nvmlDeviceGetUUID = lambda card: card.uuid
        module.nvmlDeviceGetMemoryInfo = lambda card: SimpleNamespace(free=card.free, total=card.total)
        return module
