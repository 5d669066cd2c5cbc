"""Recompute plans: those of the planner against all plans there are, in a ledger simple enough to check by eye."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from engine.errors import InputError
from engine.forecast import plan_of
from engine.recompute import BlockCost, Plan, Step, cheapest, every, keep_all

MEMORY = 400  # as many units as the planner counts in, so that nothing is rounded


def chain(random: np.random.Generator, blocks: int, tightness: int, rebuilds: bool) -> list[BlockCost]:
    """Blocks of random sizes and work; the first one's input is the data, which takes nothing."""
    costs = []
    for number in range(blocks):
        size, saved, ahead, back = (int(value) for value in random.integers(1, tightness, 4))
        work = float(random.integers(1, 20))
        costs.append(
            BlockCost(
                input=size if number else 0,
                saved=saved,
                forward_bytes=ahead,
                backward_bytes=back,
                forward_work=work,
                backward_work=2 * work,
                rebuilds=rebuilds and bool(random.integers(2)),
            )
        )
    return costs


def simulate(plan: Plan, costs: Sequence[BlockCost]) -> tuple[int, float]:
    """(peak, work) of a plan, every step of which must find what it needs."""
    held, saved, current, done = {0}, set(), None, []
    peak, work = 0, 0.0
    for position, step in enumerate(plan):
        block, cost = step.block, costs[step.block]
        kept = sum(costs[other].input for other in held) + sum(costs[other].saved for other in saved)
        if step.action == "restart":
            assert block in held
            current = block
            continue
        own_input = 0 if block in held else cost.input
        by_rebuilding = block - 1 in saved and costs[block - 1].rebuilds
        if step.action == "backward":
            assert block in saved
            assert block in held or by_rebuilding
            assert block == len(costs) - 1 - len(done)
            if block == len(costs) - 1:
                assert current == len(costs), "the loss needs the last output"
            peak = max(peak, kept + own_input + cost.backward_bytes)
            work += cost.backward_work
            saved.remove(block)
            held.discard(block)
            done.append(block)
            continue
        assert block in (current, 0 if current is None else current)
        following = next(later.block for later in plan[position:] if later.action == "backward") + 1
        waiting = costs[following].input if following < len(costs) else 0
        own_saved = cost.saved if step.action == "save" else 0
        peak = max(peak, kept + own_input + own_saved + cost.forward_bytes + waiting)
        work += cost.forward_work
        if step.action == "save":
            saved.add(block)
        if step.action == "keep" or (step.action == "save" and not by_rebuilding):
            held.add(block)
        elif step.action == "save":
            held.discard(block)
        current = block + 1
    assert len(done) == len(costs) and not saved and held <= {0}
    return peak, work


def all_plans(first: int, last: int) -> Iterator[Plan]:
    """Every way to bring a sub-chain back whose first input is there."""
    if first == last:
        yield Step("save", first), Step("backward", first)
        return
    for rest in all_plans(first + 1, last):
        yield Step("save", first), *rest, Step("backward", first)
    for middle in range(first + 1, last + 1):
        ahead = (Step("keep", first), *(Step("drop", block) for block in range(first + 1, middle)))
        for rest in all_plans(middle, last):
            for before in all_plans(first, middle - 1):
                yield *ahead, *rest, Step("restart", first), *before


def best_of_all(costs: Sequence[BlockCost], memory: int) -> float | None:
    outcomes = (simulate(plan, costs) for plan in all_plans(0, len(costs) - 1))
    return min((work for peak, work in outcomes if peak <= memory), default=None)


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("tightness", [60, 110, 180])
def test_the_planner_finds_the_least_work(blocks: int, tightness: int) -> None:
    random = np.random.default_rng(blocks * 1000 + tightness)
    found = 0
    for _ in range(6):
        costs = chain(random, blocks, tightness, rebuilds=False)
        expected, plan = best_of_all(costs, MEMORY), cheapest(costs, MEMORY)
        assert (plan is None) == (expected is None)
        if plan is not None:
            peak, work = simulate(plan, costs)
            assert peak <= MEMORY
            assert work == expected
            found += plan != keep_all(blocks)
    if blocks == 5 and tightness == 110:
        assert found, "no chain was tight enough to need recomputation"


@pytest.mark.parametrize("tightness", [60, 110, 180])
def test_inputs_that_are_rebuilt_cost_nothing_to_hold(tightness: int) -> None:
    """Where a block computes the next one's input again the planner may use it: never more work than without."""
    random = np.random.default_rng(tightness)
    better = 0
    for _ in range(8):
        costs = chain(random, 4, tightness, rebuilds=True)
        plain = [BlockCost(**{**vars(cost), "rebuilds": False}) for cost in costs]
        plan, without = cheapest(costs, MEMORY), best_of_all(plain, MEMORY)
        if plan is None:
            assert without is None
            continue
        peak, work = simulate(plan, costs)
        assert peak <= MEMORY
        assert work >= best_of_all(costs, MEMORY)
        assert without is None or work <= without
        better += without is None or work < without
    if tightness == 110:
        assert better


def test_plans_of_long_chains_keep_to_any_memory() -> None:
    """Sizes in bytes and far more blocks: sizes round up, so that the plan never takes more than it may."""
    random = np.random.default_rng(5)
    costs = chain(random, 16, 1_000_000, rebuilds=True)
    everything, most = simulate(keep_all(16), costs)
    works = []
    for share in range(10, 101, 6):
        plan = cheapest(costs, everything * share // 100)
        if plan is not None:
            peak, work = simulate(plan, costs)
            assert peak <= everything * share // 100
            works.append(work)
    assert len(works) > 8
    assert works == sorted(works, reverse=True)
    assert works[-1] < works[0]
    assert works[-1] >= most


def test_more_memory_than_everything_takes_keeps_everything() -> None:
    costs = chain(np.random.default_rng(1), 6, 50, rebuilds=False)
    assert cheapest(costs, 100_000) == keep_all(6)
    assert cheapest(costs, 1) is None


@pytest.mark.parametrize("blocks", range(1, 9))
def test_regular_intervals(blocks: int) -> None:
    costs = chain(np.random.default_rng(blocks), blocks, 50, rebuilds=True)
    for interval in range(1, blocks + 2):
        _, work = simulate(every(interval, blocks), costs)
        once = sum(cost.forward_work + cost.backward_work for cost in costs)
        last_segment = (blocks - 1) // interval * interval
        assert work == once + sum(cost.forward_work for cost in costs[:last_segment])
    assert every(blocks, blocks) == keep_all(blocks)


def test_requests() -> None:
    assert plan_of("none", 3) == keep_all(3)
    assert plan_of("every:2", 3) == every(2, 3)
    for wrong in ("every", "every:", "every:0", "every:-1", "every:x", "all", ""):
        with pytest.raises(InputError, match="every:N"):
            plan_of(wrong, 3)
