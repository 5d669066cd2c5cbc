"""An operation by the reference on the CPU, and on a card: the stand-in, or a real one where `tests/gpu` puts it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from cuda_on_cpu.stand_in import on_card
from engine.memory import Array, ArraySpec
from engine.ops import cuda, reference, to_host

GUARD = 256  # bytes on either side of an array that no kernel may touch
GARBAGE = 0xFF  # NaN: what was never written must not be read

transfer: Callable[[np.ndarray], Array] = on_card


def tolerance(dtype: Any) -> dict[str, float]:
    return {"rtol": 2e-3, "atol": 2e-3} if dtype == np.float16 else {"rtol": 2e-5, "atol": 2e-5}


def _spec(value: Any) -> Any:
    return ArraySpec(value.shape, value.dtype) if isinstance(value, np.ndarray) else value


def run(kernels: ModuleType, name: str, *arguments: Any, **options: Any) -> list[Any]:
    """Calls an operation on copies of its arrays; returns what is in them, then what it returned.

    Checks that nothing was written outside of the arrays.
    """
    move, memory = (np.array if kernels is reference else transfer), []

    def placed(spec: Any, values: Any = None) -> Array:
        size = int(np.prod(spec.shape)) * spec.dtype.itemsize
        held = np.full(size + 2 * GUARD, 0xAB, np.uint8)
        held[GUARD : GUARD + size] = GARBAGE
        if values is not None:
            held[GUARD : GUARD + size].view(spec.dtype)[...] = values.reshape(-1)
        memory.append(move(held))
        return memory[-1][GUARD : GUARD + size].view(spec.dtype).reshape(spec.shape)

    def copied(value: Any) -> Any:
        return placed(value, value) if isinstance(value, np.ndarray) else value

    operation = getattr(kernels, name)
    specs = operation.workspace(*map(_spec, arguments), **{key: _spec(value) for key, value in options.items()})
    work = [placed(spec) for spec in specs]
    given = [copied(argument) for argument in arguments]
    by_name = {key: copied(value) for key, value in options.items()}
    returned = operation.compute(*given, work=work, **by_name)
    for held in map(to_host, memory):
        assert (held[:GUARD] == 0xAB).all() and (held[-GUARD:] == 0xAB).all(), "written outside of an array"
    found = zip([*given, *by_name.values()], [*arguments, *options.values()], strict=True)
    return [to_host(array) for array, before in found if isinstance(before, np.ndarray)] + [returned]


def on_the_card(name: str, *arguments: Any, **options: Any) -> list[Any]:
    """Runs an operation of the card twice (the stand-in takes threads in one order, then in the other)."""
    found, again = (run(cuda, name, *arguments, **options) for _ in range(2))
    for array, repeated in zip(found[:-1], again[:-1], strict=True):
        assert array.tobytes() == repeated.tobytes(), "the result depends on the order of threads"
    return found


def compare(name: str, *arguments: Any, dtype: Any = np.float32, **options: Any) -> list[Any]:
    """Both ways agree on all arrays, to the precision of `dtype`; returns the card's."""
    expected, found = run(reference, name, *arguments, **options), on_the_card(name, *arguments, **options)
    for wanted, array in zip(expected, found, strict=True):
        if not isinstance(wanted, np.ndarray) or wanted.dtype == np.uint8:
            np.testing.assert_array_equal(array, wanted)
            continue
        finite = wanted[np.isfinite(wanted)].astype(np.float64)
        scale = max(1.0, float(np.abs(finite).max(initial=0.0)))
        np.testing.assert_allclose(
            array.astype(np.float64) / scale, wanted.astype(np.float64) / scale, **tolerance(dtype)
        )
    return found
