"""Work that a card does again and again: recorded once, then launched as one (CUDA graphs). What Python does between
two kernels takes longer than most kernels of a small network.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from engine.device import Card
from engine.memory import Array, Memory

MOST = 64  # recordings; they change with the loss scale, and with the last batch of an epoch


class Replay:
    """replay(work, inputs, *others) does the work, which is the same each time for the same place and shape of `inputs`
    and the same `others`. It says nothing of what it does: its ledger is entered as it was when it was recorded.
    """

    def __init__(self, card: Card, memory: Memory) -> None:
        self._card, self._memory = card, memory
        # None: done once by itself; empty: cannot be recorded; else the recording and how full the ledger was
        self._kept: dict[Any, tuple[Any, ...] | None] = {}
        self._pool = card.cupy.cuda.MemoryPool()  # of what CuPy takes meanwhile: recordings go on writing there

    def __call__(self, work: Callable[[], None], inputs: Array, *others: Any) -> None:
        key = (inputs.data.ptr, inputs.shape, *others)
        with self._card.cupy.cuda.using_allocator(self._pool.malloc):
            kept = self._kept.get(key)
            if kept is None and key in self._kept:
                kept = self._kept[key] = self._recorded(work)
            if kept:
                graph, fullest = kept
                graph.launch(self._card.stream)
                self._memory.reach(fullest)
                return
            if len(self._kept) == MOST:
                self._card.stream.synchronize()
                self._kept.clear()
            work()  # loads kernels and fills the pool
            self._kept.setdefault(key, None)

    def _recorded(self, work: Callable[[], None]) -> tuple[Any, ...]:
        stream, memory, recorded = self._card.stream, self._memory, ()
        before, held = memory.fullest(), memory.held()
        with suppress(Exception):  # of many kinds, from what does not take part: the work is done as before then
            stream.begin_capture()
            try:
                work()
            except BaseException:
                stream.end_capture()
                raise
            recorded = (stream.end_capture(), memory.fullest())
        if not recorded:
            memory.hold(held)
        memory.reach(before)
        return recorded
