"""Compiles kernels of the CPU ahead of a run, by processes of their own: the compiler would hold up all threads.

python -m fnwork.compiling fp32 0
"""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from engine.ops import kernels_named, said

PROCESSES = 3  # each takes every third file of kernels
HOME = Path(__file__).parents[1]  # where a process finds this very copy, for which kernels are kept


class Compilation:
    """The kernels that a run in this precision needs, left on disk; its processes end when it is left."""

    def __init__(self, mode: str) -> None:
        self._missing = self._all = kernels_named("cpu").kernels.needed(mode)
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

    def failure(self) -> str:
        """Why there are kernels that nobody has compiled, or ""."""
        if self.running or self.share == 1.0:
            return ""
        told = [process.stderr.read().strip() for process in self._processes]
        return next(filter(None, told), "the compiler ended without a word").splitlines()[-1]


def compile_part(mode: str, part: int) -> None:
    """Compiles one of PROCESSES parts of the kernels; those of one file lie in one part, since they share functions."""
    files: list[str] = []
    for each in kernels_named("cpu").kernels.needed(mode):
        if (file := each.function.py_func.__module__) not in files:
            files.append(file)
        if files.index(file) % PROCESSES == part:
            each.compile()


if __name__ == "__main__":
    try:
        compile_part(sys.argv[1], int(sys.argv[2]))
    except Exception as error:  # as of without_kernels
        sys.exit(said(error))
