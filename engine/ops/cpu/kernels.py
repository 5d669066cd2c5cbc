"""How kernels are declared, and which of them a run needs."""

from collections.abc import Callable
from typing import Any

import numba
from numba import types

if numba.config.DISABLE_JIT:
    raise ImportError("NUMBA_DISABLE_JIT is set")

_NAMED = {
    "F": types.float32[::1], "D": types.float64[::1], "L": types.int64[::1], "B": types.uint8[::1],
    "I": types.int32[::1],
    "N": types.UniTuple(types.intp, 4), "T": types.UniTuple(types.float32, 9), "U": types.UniTuple(types.uint64, 5),
    "i": types.intp, "f": types.float32, "b": types.boolean,
}  # fmt: skip
_STORAGE = {"fp32": types.float32[::1], "mixed": types.uint16[::1]}
_declared: list[tuple[Any, str]] = []


def kernel(*signatures: str, any_order: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Declares a function as compiled, without Python's lock, and kept on disk.

    Each signature has a letter an argument: S is an array of the run's storage, F one of float32, D of float64, L of
    int64, I of int32, B of bytes; N are four sizes, T nine numbers, U five whole ones of 64 bits; i is a whole number,
    f one of float32, b a truth value. What only kernels call has none. `any_order`: the compiler may add up in another
    order.
    """

    def declare(function: Callable[..., Any]) -> Any:
        outer = bool(signatures)
        options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "no_cpython_wrapper": not outer}
        compiled = numba.njit(cache=outer, fastmath=any_order and {"reassoc"}, **options)(function)
        _declared.extend((compiled, signature) for signature in signatures)
        return compiled

    return declare


def needed(mode: str) -> list[tuple[Any, tuple[types.Type, ...]]]:
    """The kernels of a run in this precision: functions, and the types of their arguments."""
    kinds = _NAMED | {"S": _STORAGE[mode]}
    kernels = ((function, tuple(kinds[letter] for letter in letters)) for function, letters in _declared)
    return list(dict.fromkeys(kernels))
