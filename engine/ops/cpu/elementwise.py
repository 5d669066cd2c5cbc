"""Copies with a change of precision, and sums: one pass over flat memory each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops import reference
from engine.ops.cpu.kernels import kernel
from engine.ops.cpu.lanes import LANES, load_until, store_until
from engine.ops.cpu.storage import compiled, flat, floats
from engine.ops.cpu.threads import LEAST, Ranges, in_parallel, shares
from engine.ops.operation import Operation


def ranges(array: Array) -> Ranges:
    """The elements of each thread."""
    return shares(array.size, step=64, least=LEAST)


@kernel("SSii", "FFii", "SFii", "FSii")
def _copy(x, out, first, last):
    for at in range(first, last, LANES):
        store_until(out, at, last, load_until(x, at, last))


@compiled(reference.copy)
def copy(x: Array, out: Array, *, work: Scratch) -> None:
    """As the reference."""
    in_parallel(_copy, ranges(out), flat(x), flat(out))


@kernel("SSii")
def _add(x, out, first, last):
    for at in range(first, last, LANES):
        store_until(out, at, last, load_until(out, at, last) + load_until(x, at, last))


@compiled(reference.add)
def add(x: Array, out: Array, *, work: Scratch) -> None:
    """As the reference."""
    in_parallel(_add, ranges(out), flat(x), flat(out))


def converted(like: Operation) -> Operation:
    """An operation of the reference whose float16 arrays kernels convert as a whole, since NumPy's casts are slow."""

    def workspace(*arguments: Any, **options: Any) -> list[ArraySpec]:
        wide = {id(each): floats(*each.shape) for each in _halves(arguments)}
        return [*wide.values(), *like.workspace(*(wide.get(id(each), each) for each in arguments), **options)]

    def compute(*arguments: Any, work: Scratch, **options: Any) -> Any:
        halves = _halves(arguments)
        wide = {id(half): single for half, single in zip(halves, work, strict=False)}
        for half in halves:
            copy.compute(half, wide[id(half)], work=())
        arguments = [wide.get(id(each), each) for each in arguments]
        result = like.compute(*arguments, work=work[len(halves) :], **options)
        for half in halves:
            copy.compute(wide[id(half)], half, work=())
        return result

    return Operation(compute, workspace, like.flops)


def _halves(arguments: Sequence[Any]) -> list[Array]:
    """The arrays of float16, each once."""
    return [*{id(each): each for each in arguments if getattr(each, "dtype", None) == np.float16}.values()]
