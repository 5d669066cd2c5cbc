"""One thread a core for compiled kernels, which do not hold Python's lock."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from engine.device import thread_count
from engine.memory import Array

THREADS = thread_count()

Ranges = list[tuple[int, int]]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS - 1, thread_name_prefix="fnwork-cpu")


def in_parallel(function: Callable[..., None], ranges: Ranges, *arguments: Any, own: Sequence[Array] = ()) -> None:
    """function(*arguments, first, last, ...) for each range, the first one in the calling thread; returns when all are
    done. Each range has its part of the arrays in `own`, flat, as further arguments.
    """

    def compute(part: int) -> None:
        function(*arguments, *ranges[part], *(array[part].reshape(-1) for array in own))

    others = [_pool().submit(compute, part) for part in range(1, len(ranges))]
    try:
        compute(0)
    finally:
        for other in others:
            other.result()


def shares(count: int, step: int = 1, least: int = 1) -> Ranges:
    """Ranges that divide 0..count among the threads at multiples of `step`; each at least `least` if there are several.

    They follow from the arguments alone, so what is summed up range by range never depends on timing.
    """
    parts = max(1, min(THREADS, count // max(least, step)))
    size = -(-count // (parts * step)) * step
    return [(start, min(start + size, count)) for start in range(0, count, size)]
