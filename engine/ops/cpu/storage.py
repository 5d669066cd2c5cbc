"""How arrays reach compiled kernels: flat, float16 as the uint16 of its bits. What kernels cannot do the reference
does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.registry import cpu_target

from engine.memory import Array, ArraySpec
from engine.ops.operation import Operation, Workspace, no_scratch

NOTHING = np.zeros(0, np.float32)
NO_BITS = np.zeros(0, np.uint8)
_ARRAYS = (np.ndarray, ArraySpec)


_TRIPLE, _, _NAMES = cpu_target.target_context.codegen().magic_tuple()
FEATURES = frozenset(_NAMES.split(","))  # of the processor that kernels are compiled for
# Where the processor does not convert float16 itself, the compiler would call a function that is not there.
_CONVERTS_HALVES = _TRIPLE.startswith(("aarch64", "arm64")) or "+f16c" in FEATURES
_FOREIGN = "d" if _CONVERTS_HALVES else "de"  # characters of the dtypes that kernels do not take


def stored(*arrays: Any, **options: Any) -> bool:
    """Whether kernels can work on all arrays among the arguments; not on float64."""
    for array in (*arrays, *options.values()):
        if isinstance(array, _ARRAYS) and array.dtype.char in _FOREIGN:
            return False
    return True


def compiled(
    like: Operation, workspace: Workspace = no_scratch, when: Callable[..., bool] = stored
) -> Callable[[Callable[..., None]], Operation]:
    """Declares the fast form of an operation of the reference, which does what lies beyond `when`."""

    return lambda compute: Operation(compute, workspace, like.flops, when, like)


def floats(*shape: int) -> ArraySpec:
    """Scratch of float32."""
    return ArraySpec(shape, np.dtype(np.float32))


def flat(array: Array) -> Array:
    """The array's memory in one dimension; a contiguous array only."""
    bits = array.view(np.uint16) if array.dtype == np.float16 else array
    return bits.reshape(-1)
