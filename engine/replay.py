"""Work that a card does again and again: recorded once, then launched as one (CUDA graphs). What Python does between
two kernels takes longer than most kernels of a small network.
"""

from collections.abc import Callable
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
        self._kept: dict[Any, tuple[Any, dict[str, int]] | None] = {}
        self._pool = card.cupy.cuda.MemoryPool()  # of what CuPy takes meanwhile: recordings go on writing there

    def __call__(self, work: Callable[[], None], inputs: Array, *others: Any) -> None:
        key = (inputs.data.ptr, inputs.shape, *others)
        with self._card.cupy.cuda.using_allocator(self._pool.malloc):
            if key in self._kept:
                graph, fullest = self._kept[key] = self._kept[key] or self._recorded(work)
                graph.launch(self._card.stream)
                self._memory.reach(fullest)
                return
            if len(self._kept) == MOST:
                self._card.stream.synchronize()
                self._kept.clear()
            work()  # by itself at first, which loads kernels and fills the pool
            self._kept[key] = None

    def _recorded(self, work: Callable[[], None]) -> tuple[Any, dict[str, int]]:
        before = self._memory.fullest()
        self._card.stream.begin_capture()
        try:
            work()
        finally:
            graph = self._card.stream.end_capture()
        fullest = self._memory.fullest()
        self._memory.reach(before)
        return graph, fullest
