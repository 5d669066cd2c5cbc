"""One thread a core for compiled kernels, which do not hold Python's lock."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numba


def _cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


THREADS = min(8, _cores())


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function when it is first called, to run without Python's lock; kept on disk where that can be."""
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(**options)(function)


def kept_on_disk(function: Any) -> bool:
    """Whether a kernel was compiled before, by any process."""
    folder = getattr(getattr(function, "_cache", None), "cache_path", None)
    return folder is not None and any(Path(folder).glob(f"*.{function.py_func.__name__}-*.nbi"))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS - 1, thread_name_prefix="fnwork-cpu")


def in_parallel(task: Callable[[int], Any], parts: int) -> None:
    """task(0), ..., task(parts - 1), the first in the calling thread; returns when all are done."""
    others = [_pool().submit(task, part) for part in range(1, parts)]
    try:
        if parts:
            task(0)
    finally:
        for other in others:
            other.result()


def shares(count: int, step: int = 1, least: int = 1) -> list[tuple[int, int]]:
    """Ranges that divide 0..count among the threads at multiples of `step`; each at least `least` if there are several.

    They follow from the arguments alone, so what is summed up range by range never depends on timing.
    """
    parts = max(1, min(THREADS, count // max(least, step)))
    size = -(-count // (parts * step)) * step
    return [(start, min(start + size, count)) for start in range(0, count, size)]
