"""Copies with a change of precision, and sums: one pass over flat memory each."""

from engine.memory import Array
from engine.ops import reference
from engine.ops.cpu.lanes import LANES, load_until, store_until
from engine.ops.cpu.storage import compiled, flat
from engine.ops.cpu.threads import in_parallel, kernel, shares
from engine.ops.operation import operation

LEAST = 1 << 15  # elements that are worth a second thread


def _ranges(array: Array) -> list[tuple[int, int]]:
    return shares(array.size, step=64, least=LEAST)


@kernel
def _copy(x, out, first, last):
    for at in range(first, last, LANES):
        store_until(out, at, last, load_until(x, at, last))


@operation()
def copy(x: Array, out: Array, *, work: list[Array]) -> None:
    """As the reference."""
    if not compiled(x, out) or not x.flags.c_contiguous:
        return reference.copy.compute(x, out, work=work)
    ranges = _ranges(out)
    in_parallel(lambda part: _copy(flat(x), flat(out), *ranges[part]), len(ranges))


@kernel
def _add(x, out, first, last):
    for at in range(first, last, LANES):
        store_until(out, at, last, load_until(out, at, last) + load_until(x, at, last))


@operation()
def add(x: Array, out: Array, *, work: list[Array]) -> None:
    """As the reference."""
    if not compiled(x, out):
        return reference.add.compute(x, out, work=work)
    ranges = _ranges(out)
    in_parallel(lambda part: _add(flat(x), flat(out), *ranges[part]), len(ranges))
