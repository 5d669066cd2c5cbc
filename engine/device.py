"""The device a run computes on, and why that one: the CPU, or an NVIDIA card, for which alone CuPy is imported.

CUDA numbers cards in an order of its own and sees only those it may use. The driver's own list (NVML) knows each one's
UUID, and its free memory without a context on it; the place on the bus joins the two.
"""

import gc
import os
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from engine.errors import InputError
from engine.memory import Array, BudgetExceeded, Memory

OVERRIDE = "FNWORK_DEVICE"
THREADS = "FNWORK_THREADS"
LEAST_POOL = 16 << 20  # bytes that CuPy may always take for itself
FULL = re.compile("out of memory|ALLOC_FAILED", re.IGNORECASE)  # as CuPy, CUDA and cuBLAS say it


@dataclass(frozen=True)
class Device:
    """The CPU, and what a card is to a run as well. `total` in bytes; `use` is "cpu" or "cuda:N"."""

    name: str
    total: int
    why: str
    use: str = "cpu"
    uuid: str = ""
    is_cuda: ClassVar[bool] = False
    alignment: ClassVar[int] = 64  # what sizes round up to

    def budget(self, asked: int) -> int:
        """Bytes the ledger may hold where `asked` are allowed, 0 for no limit."""
        return asked

    def allocate(self, size: int) -> Array:
        """One-dimensional uint8 storage. Raises MemoryError, or CUDA's own RuntimeError."""
        return np.empty(size, np.uint8)

    def guard(self, memory: Memory) -> Callable[[], AbstractContextManager[None]]:
        """What all work over a ledger stands in."""
        return nullcontext


@dataclass(frozen=True)
class Card(Device):
    """An NVIDIA device. `free` in bytes; `cupy`: the module."""

    free: int = 0
    cupy: Any = field(default=None, repr=False)
    is_cuda: ClassVar[bool] = True
    alignment: ClassVar[int] = 512

    def __str__(self) -> str:
        return f"{self.use} {self.name} ({self.uuid}, {self.free / 2**30:.1f} of {self.total / 2**30:.1f} GiB free)"

    @cached_property
    def stream(self) -> Any:
        """Where all work goes but copies: the null stream cannot be recorded."""
        with self.cupy.cuda.Device(self._number):
            return self.cupy.cuda.Stream(non_blocking=True)

    @contextmanager
    def current(self) -> Iterator[None]:
        """A context in which what this thread does goes to the card."""
        with self.cupy.cuda.Device(self._number), self.stream:
            yield

    @property
    def _number(self) -> int:
        return int(self.use.removeprefix("cuda:"))

    def budget(self, asked: int) -> int:
        """Never more than is free now, less a tenth for what lies beside the ledger."""
        gc.collect()  # what is left of an earlier run still holds its memory
        with self.current():
            room = self.cupy.cuda.runtime.memGetInfo()[0] * 9 // 10
        return min(asked or room, room)

    def allocate(self, size: int) -> Array:
        """Past CuPy's pool, which so holds only what CuPy takes for itself, and is given back with the array."""
        cuda = self.cupy.cuda
        with self.current():
            return self.cupy.ndarray((size,), np.uint8, cuda.MemoryPointer(cuda.Memory(size), 0))

    def pinned(self, like: Array) -> np.ndarray:
        """An array of the host from which a card copies by itself."""
        return np.frombuffer(self.cupy.cuda.alloc_pinned_memory(like.nbytes), like.dtype, like.size).reshape(like.shape)

    def guard(self, memory: Memory) -> Callable[[], AbstractContextManager[None]]:
        """What CuPy takes for itself is workspace in the ledger, and kept to the budget; a full card ends the run."""
        sizes: dict[int, int] = {}

        class Watch(self.cupy.cuda.MemoryHook):
            name = "ledger"

            def malloc_postprocess(self, *, mem_size: int, mem_ptr: int, **others: int) -> None:
                if mem_ptr:
                    memory.adopt(mem_size, "workspace")
                    sizes[mem_ptr] = mem_size

            def free_postprocess(self, *, mem_ptr: int, **others: int) -> None:
                memory.adopt(-sizes.pop(mem_ptr, 0), "workspace")

        watch, pool = Watch(), self.cupy.get_default_memory_pool()
        with self.current():
            pool.set_limit(size=max(memory.budget - memory.reserved - memory.outside, LEAST_POOL))

        @contextmanager
        def guarded() -> Iterator[None]:
            try:
                with self.current(), watch:
                    yield
            except Exception as error:
                if not FULL.search(str(error)):
                    raise
                room = memory.reserved * 9 // 10  # what it holds was too much
                raise BudgetExceeded(memory.reserved, room, memory.bytes, what=str(error).rstrip(".")) from None

        return guarded


def wanted(use: str) -> tuple[str, str]:
    """What to look for, and who says so: FNWORK_DEVICE, or `use` as in a spec. Raises InputError."""
    override = os.environ.get(OVERRIDE, "").strip()
    asked, why = (override, f"{OVERRIDE}={override}") if override else (use, f'device.use = "{use}"')
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?|(?i:GPU|MIG)-[\w/-]+", asked):
        raise InputError(f"{why}: expected auto, cpu, cuda, cuda:N, or a device's UUID")
    return asked, why


def choose(use: str = "auto") -> Device:
    """The device for auto, cpu, cuda, cuda:N, or a UUID or its beginning, which FNWORK_DEVICE overrides.

    Among several cards it is the one with the most free memory that passes a test. Raises InputError.
    """
    asked, why = wanted(use)
    if asked == "cpu" or (asked == "auto" and not find_spec("cupy")):
        return cpu(why if asked == "cpu" else "CuPy is not installed, so no card can be used")
    try:
        return _best(asked, why)
    except Exception as error:  # CuPy raises many kinds, all of them mean that no card can be used
        problem = f"no CUDA device can be used: {error}; fnwork doctor tells more"
    if asked == "auto":
        return cpu(problem)
    raise InputError(f"{why}: {problem}")


def thread_count() -> int:
    """Threads that compute on a CPU: FNWORK_THREADS, else the cores this process may use, 16 at most. InputError where
    that is no number.
    """
    asked = os.environ.get(THREADS, "").strip()
    if not asked:
        return min(16, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if not re.fullmatch("0*[1-9][0-9]{0,2}", asked, re.ASCII):
        raise InputError(f"{THREADS}={asked}: expected a whole number from 1 to 999")
    return int(asked)


def cpu(why: str) -> Device:
    """The CPU, chosen for this reason."""
    thread_count()  # a number that makes no sense is refused before anything starts
    # Threads of BLAS beside threads of ours, or beside a busy machine, wait for each other longer than they work.
    threadpool_limits(limits=1, user_api="blas")
    name = platform.processor() or platform.machine() or "CPU"
    return Device(f"CPU ({name})", psutil.virtual_memory().total, why)


def _best(asked: str, why: str) -> Card:
    import cupy

    runtime, by_memory = cupy.cuda.runtime, asked in ("auto", "cuda")
    found = [_card(cupy, number) for number in range(0 if runtime.is_hip else runtime.getDeviceCount())]
    named = [card for card in found if by_memory or asked == card.use or card.uuid.lower().startswith(asked.lower())]
    if not named or (len(named) > 1 and not by_memory):
        raise InputError(f"{len(named) or 'none'} of them is meant: {', '.join(map(str, found)) or 'there is none'}")
    told = [f"{why}, the most free memory among {len(named)}" if by_memory else why]
    for card in sorted(named, key=lambda card: -card.free):
        try:
            return _tested(replace(card, why="; ".join(told)))
        except Exception as error:  # as above
            told.append(f"{card} fails a test: {error}")
    raise InputError("; ".join(told[1:]))


def _card(cupy: Any, number: int) -> Card:
    """A card as CUDA and the driver tell of it, untested."""
    told = cupy.cuda.runtime.getDeviceProperties(number)
    name, total = told["name"].decode(), told["totalGlobalMem"]
    uuid, free = "", total
    with suppress(Exception):  # no such library, or one that does not know this card
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.runtime.deviceGetPCIBusId(number))
        uuid, free = pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetMemoryInfo(handle).free
    return Card(name, total, "", f"cuda:{number}", uuid, free, cupy=cupy)


def _tested(card: Card) -> Card:
    """The card after a kernel and a product on it. Raises what CuPy raises."""
    values, cupy = np.arange(64, dtype=np.float32).reshape(8, 8), card.cupy
    with card.current():
        on_card = cupy.asarray(values)
        if not np.allclose((on_card @ on_card + on_card).get(), values @ values + values):
            raise InputError("it computes wrongly")
        cupy.get_default_memory_pool().free_all_blocks()
    return card
