"""Activation recomputation: which blocks keep what backward needs, and which run forward once more.

A plan is a list of steps over the chain of blocks. Forward of a block is one of
- save: keep what its backward needs;
- keep: keep only its input, to restart from;
- drop: keep nothing.
"restart" goes on from a kept input, "backward" consumes what was saved. The last block's backward begins with the loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Step:
    """One action on one block."""

    action: Literal["save", "keep", "drop", "restart", "backward"]
    block: int


Plan = tuple[Step, ...]


def keep_all(blocks: int) -> Plan:
    """No recomputation."""
    return (*(Step("save", b) for b in range(blocks)), *(Step("backward", b) for b in reversed(range(blocks))))


def every(interval: int, blocks: int) -> Plan:
    """Segments of `interval` blocks: their inputs are kept, and all but the last run again in backward."""
    starts = list(range(0, blocks, interval))
    steps: list[Step] = []
    for start in starts[:-1]:
        steps.append(Step("keep", start))
        steps += [Step("drop", b) for b in range(start + 1, start + interval)]
    for start in reversed(starts):
        segment = range(start, min(start + interval, blocks))
        if start != starts[-1]:
            steps.append(Step("restart", start))
        steps += [Step("save", b) for b in segment]
        steps += [Step("backward", b) for b in reversed(segment)]
    return tuple(steps)


@dataclass(frozen=True)
class BlockCost:
    """What the planner knows of a block: bytes of its input and of what it saves, the most its passes need besides,
    and its work.

    `rebuilds`: the next block's input costs no memory when both are saved, since it is computed again cheaply.
    """

    input: int
    saved: int
    forward_bytes: int
    backward_bytes: int
    forward_work: float
    backward_work: float
    rebuilds: bool


SLOTS = 400


def cheapest(costs: Sequence[BlockCost], memory: int) -> Plan | None:
    """The plan of least work within `memory` bytes, None where there is none.

    Dynamic programming over sub-chains and memory, as Beaumont, Herrmann, Pallez and Shilova (2019) do for
    heterogeneous chains: a sub-chain whose first input is held either saves its first block, or runs ahead without
    saving, holds a later input, solves the rest, and comes back. Memory is counted in 1/400 of what is available,
    rounded up, so a plan never needs more than it says.
    """
    return _Solver(costs, memory).plan()


class _Solver:
    """`held[s, t]` is the least work of backward through blocks s..t by memory slots when the input of s is held by
    somebody else; `rebuilt[s, t]` the same when s must be saved and its input is computed again by the saved block
    before it."""

    def __init__(self, costs: Sequence[BlockCost], memory: int) -> None:
        self.costs = costs
        self.count = len(costs)
        self.memory = memory
        # while a sub-chain that ends before the last block runs forward again, the gradient it waits for is there
        self.waiting = [cost.input for cost in costs[1:]] + [0]
        self.held: dict[tuple[int, int], np.ndarray] = {}
        self.rebuilt: dict[tuple[int, int], np.ndarray] = {}
        for length in range(self.count):
            for first in range(self.count - length):
                self._solve(first, first + length)

    def plan(self) -> Plan | None:
        if not np.isfinite(self.held[0, self.count - 1][SLOTS]):
            return None
        steps: list[Step] = []
        self._emit(0, self.count - 1, SLOTS, steps, rebuilt=False, restarted=False)
        return tuple(steps)

    def _slots(self, size: int) -> int:
        return -(-size * SLOTS // self.memory)

    def _shifted(self, work: np.ndarray, slots: int) -> np.ndarray:
        """The same work with `slots` less memory."""
        moved = np.full(SLOTS + 1, np.inf)
        if slots <= SLOTS:
            moved[slots:] = work[: SLOTS + 1 - slots]
        return moved

    def _save_first(self, first: int, last: int, own_input: int) -> np.ndarray:
        cost = self.costs[first]
        work = np.full(SLOTS + 1, np.inf)
        room = own_input + cost.saved + max(cost.forward_bytes + self.waiting[last], cost.backward_bytes)
        work[min(self._slots(room), SLOTS + 1) :] = cost.forward_work + cost.backward_work
        if first == last:
            return work
        saved = self._slots(cost.saved)
        rest = self._shifted(self.held[first + 1, last], saved + self._slots(self.costs[first + 1].input))
        if cost.rebuilds:
            rest = np.minimum(rest, self._shifted(self.rebuilt[first + 1, last], saved))
        return work + rest

    def _ahead(self, first: int, last: int, middle: int) -> np.ndarray:
        """Run first..middle-1 without saving, hold the input of `middle`, solve the rest, come back."""
        ahead = self.costs[first:middle]
        work = np.full(SLOTS + 1, np.inf)
        room = self.waiting[last] + max(
            cost.input * (number > 0) + cost.forward_bytes for number, cost in enumerate(ahead)
        )
        work[min(self._slots(room), SLOTS + 1) :] = sum(cost.forward_work for cost in ahead)
        rest = self._shifted(self.held[middle, last], self._slots(self.costs[middle].input))
        return work + rest + self.held[first, middle - 1]

    def _solve(self, first: int, last: int) -> None:
        held = self._save_first(first, last, 0)
        for middle in range(first + 1, last + 1):
            held = np.minimum(held, self._ahead(first, last, middle))
        self.held[first, last] = held
        self.rebuilt[first, last] = self._save_first(first, last, self.costs[first].input)

    def _emit(self, first: int, last: int, slots: int, steps: list[Step], *, rebuilt: bool, restarted: bool) -> None:
        if restarted:
            steps.append(Step("restart", first))
        target = (self.rebuilt if rebuilt else self.held)[first, last][slots]
        own_input = self.costs[first].input if rebuilt else 0
        if self._save_first(first, last, own_input)[slots] == target:
            steps.append(Step("save", first))
            if first < last:
                cost, following = self.costs[first], self.costs[first + 1]
                left = slots - self._slots(cost.saved)
                held_left = left - self._slots(following.input)
                held = self.held[first + 1, last][held_left] if held_left >= 0 else np.inf
                use_rebuilt = cost.rebuilds and self.rebuilt[first + 1, last][left] <= held
                self._emit(
                    first + 1, last, left if use_rebuilt else held_left, steps, rebuilt=use_rebuilt, restarted=False
                )
            steps.append(Step("backward", first))
            return
        middle = next(m for m in range(first + 1, last + 1) if self._ahead(first, last, m)[slots] == target)
        steps.append(Step("keep", first))
        steps += [Step("drop", b) for b in range(first + 1, middle)]
        left = slots - self._slots(self.costs[middle].input)
        self._emit(middle, last, left, steps, rebuilt=False, restarted=False)
        self._emit(first, middle - 1, slots, steps, rebuilt=False, restarted=True)
