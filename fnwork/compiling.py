"""Compiles kernels of the CPU ahead of a run, by processes of their own: the compiler would hold up all threads.

python -m fnwork.compiling fp32 0
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from engine.ops import kernels_named, said

PROCESSES = 3  # each takes every third file of kernels
HOME = Path(__file__).parents[1]  # where a process finds this very copy, for which kernels are kept


@dataclass(frozen=True)
class Kernel:
    """A compiled function for arguments of these types."""

    function: Any
    types: tuple[Any, ...]

    @property
    def is_kept(self) -> bool:
        """Whether it lies on disk, compiled by any process."""
        with suppress(Exception):  # of many kinds, where a file is damaged
            return self.function._cache.load_overload(self.types, self.function.targetctx) is not None
        return False

    def compile(self) -> None:
        """Compiles it, unless it lies on disk."""
        self.function.compile(self.types)


def needed(mode: str) -> list[Kernel]:
    """The kernels of a run in this precision."""
    return [Kernel(*each) for each in kernels_named("cpu").kernels.needed(mode)]


class Compilation:
    """The kernels that a run in this precision needs, left on disk; its processes end when it is left."""

    def __init__(self, mode: str) -> None:
        self._missing = self._all = needed(mode)
        commands = [[sys.executable, "-m", __name__, mode, str(part)] for part in range(PROCESSES)]
        quiet = dict.fromkeys(("stdin", "stdout"), subprocess.DEVNULL)
        self._processes: list[subprocess.Popen] = []
        with suppress(OSError):  # where no process can be started, the kernels stay missing
            for command in commands if self.share < 1.0 else ():
                self._processes.append(subprocess.Popen(command, **quiet, stderr=subprocess.PIPE, text=True, cwd=HOME))

    def __enter__(self) -> "Compilation":
        return self

    def __exit__(self, *failure: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            process.stderr.close()

    @property
    def running(self) -> bool:
        """Whether there is anything to wait for."""
        return any(process.poll() is None for process in self._processes)

    @property
    def share(self) -> float:
        """The part of the kernels that lie on disk."""
        self._missing = [each for each in self._missing if not each.is_kept]
        return 1.0 - len(self._missing) / len(self._all)

    def progress(self, stop: Event) -> Iterator[str]:
        """What there is to say until all is compiled, or somebody asks to stop."""
        told = -1
        while self.running and not stop.wait(0.1):
            if (quarter := int(4 * self.share)) != told:
                told = quarter
                yield f"compiling the operations for this machine, once: {25 * quarter}% done"

    def failure(self) -> str:
        """Why there are kernels that nobody has compiled, or ""."""
        if self.running or self.share == 1.0:
            return ""
        told = [process.stderr.read().strip() for process in self._processes]
        return next(filter(None, told), "the compiler ended without a word").splitlines()[-1]


def compile_part(mode: str, part: int) -> None:
    """Compiles one of PROCESSES parts of the kernels; those of one file lie in one part, since they share functions."""
    files: list[str] = []
    for each in needed(mode):
        if (file := each.function.py_func.__module__) not in files:
            files.append(file)
        if files.index(file) % PROCESSES == part:
            each.compile()


if __name__ == "__main__":
    try:
        compile_part(sys.argv[1], int(sys.argv[2]))
    except Exception as error:  # as of without_kernels
        sys.exit(said(error))
