"""The cheapest settings within a budget, and a budget that is kept at run time."""

from itertools import pairwise

import numpy as np
import pytest

from engine.data import DataSet, Part, Preprocessing
from engine.forecast import forecast
from engine.settings import Settings
from engine.trainer import Trainer
from fnwork.fit import advice, advise, fit

SHAPE = (16, 16, 3)
MIB = 2**20
BLOCK = [{"type": "conv", "out": 8}, {"type": "batch_norm"}, {"type": "relu"}]
NETWORK = [*BLOCK, *BLOCK, {"type": "global_average"}, {"type": "linear"}]


def found(budget: float, micro_batch: int = 64, layers=None, **settings):
    return fit(layers or NETWORK, SHAPE, 10, Settings(micro_batch=micro_batch, **settings), int(budget * MIB))


def peak(candidate, budget: int) -> int:
    settings = Settings(
        micro_batch=candidate.micro_batch,
        accumulate=candidate.accumulate,
        mode=candidate.mode,
        recompute=candidate.recompute,
        budget=budget if candidate.recompute == "auto" else 0,
    )
    return forecast(NETWORK, SHAPE, 10, settings).peak["total"]


def test_what_fits_is_what_the_forecast_says_and_keeps_the_effective_batch():
    usual = forecast(NETWORK, SHAPE, 10, Settings(micro_batch=32, accumulate=2)).peak["total"]
    result = fit(NETWORK, SHAPE, 10, Settings(micro_batch=32, accumulate=2), int(usual * 0.7))
    assert result.chosen.peak <= result.budget
    for candidate in (result.chosen, *result.frontier):
        assert candidate.micro_batch * candidate.accumulate == 64
        assert peak(candidate, result.budget) == candidate.peak


def test_a_generous_budget_changes_nothing():
    chosen = found(1000).chosen
    assert (chosen.micro_batch, chosen.accumulate, chosen.mode, chosen.recompute) == (64, 1, "fp32", "none")
    assert chosen.time == 1.0


def test_no_candidate_of_the_frontier_is_beaten():
    frontier = found(2).frontier
    assert [candidate.peak for candidate in frontier] == sorted(candidate.peak for candidate in frontier)
    for leaner, larger in pairwise(frontier):
        assert larger.time < leaner.time or larger.noisy < leaner.noisy


def test_few_samples_for_batch_norm_only_where_nothing_else_fits():
    frontier = found(1000).frontier
    roomy = min(candidate.peak for candidate in frontier if not candidate.noisy)
    assert not found(roomy / MIB).chosen.noisy
    tight = found(roomy / MIB / 2).chosen
    assert tight.noisy and tight.micro_batch < 32
    without = [{"type": "flatten"}, {"type": "linear", "out": 2000}, {"type": "relu"}, {"type": "linear"}]
    assert not any(candidate.noisy for candidate in found(1000, layers=without).frontier)


def test_where_nothing_fits_the_leanest_and_its_obstacle_are_named():
    result = found(0.01)
    assert result.chosen is None
    assert result.obstacle and any(name in result.obstacle for name in ("conv", "batch_norm", "linear", "loss"))
    assert "Nothing fits" in advice(result) and f"{result.leanest.peak / MIB:.1f} MiB" in advice(result)


def test_half_precision_is_never_given_up():
    assert {candidate.mode for candidate in found(2, mode="mixed").frontier} == {"mixed"}


def test_going_over_the_budget_in_mid_run_ends_it_with_the_breakdown_and_what_would_fit():
    images = np.zeros((64, *SHAPE), np.uint8)
    part = Part(images, np.zeros(64, np.int32))
    classes = tuple("abcdefghij")
    preprocessing = Preprocessing("classification", SHAPE, classes, channel_mean=(0.0,) * 3, channel_std=(1.0,) * 3)
    data = DataSet("made-up", "classification", part, part, None, SHAPE, classes, preprocessing, "")
    trainer = Trainer(NETWORK, data, Settings(budget=100 * MIB, epochs=1), "cpu", advise=advise)
    trainer.memory.budget = trainer.memory.total + MIB // 2
    end = list(trainer.run())[-1]
    assert end.kind == "end" and end.values["reason"] == "failed"
    for part_of_it in ("memory budget exceeded", "activations", "These settings would fit: micro_batch ="):
        assert part_of_it in end.values["message"]


@pytest.mark.parametrize("micro_batch", [1, 7])
def test_batches_that_do_not_divide_well(micro_batch):
    assert {candidate.micro_batch for candidate in found(1000, micro_batch).frontier} <= {1, micro_batch}
