"""One thread a core for compiled kernels, which do not hold Python's lock."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from engine.device import thread_count
from engine.memory import Array
from engine.ops.cpu.kernels import kernel
from engine.ops.cpu.lanes import pointer

THREADS = thread_count()
LEAST = 1 << 17  # elements of a pass over memory that are worth a second thread
LOOKS = 1 << 18  # about a tenth of a millisecond
_busy = Lock()  # the workers belong to one caller at a time

Ranges = list[tuple[int, int]]


@intrinsic
def _peek(typing, array):
    """What another thread wrote to array[0]."""

    def emit(context, builder, signature, arguments):
        address = pointer(context, builder, array, *arguments, context.get_constant(types.intp, 0))
        return builder.load_atomic(address, "acquire", 8)

    return types.int64(array), emit


@kernel("Li")
def _look(flag, number):
    """Returns when flag[0] is `number`, or nobody has come for a while."""
    for _ in range(LOOKS):
        if _peek(flag) == number:
            break


class _Worker:
    """A thread that computes parts. Both sides look out for each other before they sleep: waking up takes longer than
    most kernels.
    """

    def __init__(self) -> None:
        self._parts, self._outcomes = SimpleQueue(), SimpleQueue()
        self._given, self._done = np.zeros((2, 1), np.int64)
        Thread(target=self._work, name="fnwork-cpu", daemon=True).start()

    def give(self, compute: Callable[[int], None], part: int) -> None:
        """Has compute(part) done."""
        self._parts.put((compute, part))
        self._given += 1

    def wait(self) -> None:
        """Returns when that is done, or raises what it raised."""
        _look(self._done, self._given[0])
        if error := self._outcomes.get():
            raise error

    def _work(self) -> None:
        for number in count(1):
            _look(self._given, number)
            compute, part = self._parts.get()
            try:
                self._outcomes.put(compute(part))
            except BaseException as error:
                self._outcomes.put(error)
            self._done[0] = number


@cache
def _workers() -> list[_Worker]:
    return [_Worker() for _ in range(THREADS - 1)]


def in_parallel(function: Callable[..., None], ranges: Ranges, *arguments: Any, own: Sequence[Array] = ()) -> None:
    """function(*arguments, first, last, ...) for each range, the first one in the calling thread; returns when all are
    done. Each range has its part of the arrays in `own`, flat, as further arguments.
    """

    def compute(part: int) -> None:
        function(*arguments, *ranges[part], *(array[part].reshape(-1) for array in own))

    with _busy:
        others = _workers()[: len(ranges) - 1]
        for part, worker in enumerate(others, start=1):
            worker.give(compute, part)
        try:
            compute(0)
        finally:
            for worker in others:
                worker.wait()


def shares(count: int, step: int = 1, least: int = 1) -> Ranges:
    """Ranges that divide 0..count among the threads at multiples of `step`; each at least `least` if there are several.

    They follow from the arguments alone, so what is summed up range by range never depends on timing.
    """
    parts = max(1, min(THREADS, count // max(least, step)))
    size = -(-count // (parts * step)) * step
    return [(start, min(start + size, count)) for start in range(0, count, size)]
