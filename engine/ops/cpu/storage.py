"""How arrays reach compiled kernels: flat, float16 as the uint16 of its bits."""

import numpy as np
from numba.core.registry import cpu_target

from engine.memory import Array

NOTHING = np.zeros(0, np.float32)
NO_BITS = np.zeros(0, np.uint8)


def _converts_halves() -> bool:
    """Whether the processor that kernels are compiled for converts float16 itself.

    Elsewhere the compiler would call a function that is not there, and the process would crash.
    """
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return triple.startswith(("aarch64", "arm64")) or "+f16c" in features.split(",")


_STORED = {np.dtype(np.float32)} | ({np.dtype(np.float16)} if _converts_halves() else set())


def compiled(*arrays: Array | None) -> bool:
    """Whether kernels can work on all of the arrays; the others, such as float64, go to the reference."""
    return all(array is None or array.dtype in _STORED for array in arrays)


def flat(array: Array) -> Array:
    """The array's memory in one dimension; a contiguous array only."""
    bits = array.view(np.uint16) if array.dtype == np.float16 else array
    return bits.reshape(-1)
