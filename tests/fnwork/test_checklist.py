"""Each symptom fires on a run that has it, and stays silent on healthy ones, noisy ones and short ones."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from fnwork.checklist import SYMPTOMS, Checklist, Finding

NAN, INF = math.nan, math.inf
FLAT, BAD, WORSE, MEMORY, SLOW, RISES = (symptom.key for symptom in SYMPTOMS)
MIB = 2**20


def always(value: float) -> Callable[[float], float]:
    return lambda epoch: value


def run(
    *,
    epochs: int = 20,
    windows: int = 50,
    loss: Callable[[float], float] = lambda epoch: 0.3 + 2.0 * math.exp(-epoch),
    val_loss: Callable[[float], float] = lambda epoch: 0.4 + 1.0 * math.exp(-epoch),
    accuracy: Callable[[float], float] | None = lambda epoch: 0.9 - 0.3 * math.exp(-epoch),
    val_accuracy: Callable[[float], float] = lambda epoch: 0.87 - 0.3 * math.exp(-epoch),
    lr: Callable[[float], float] = lambda epoch: 1e-3,
    wait: Callable[[float], float] = lambda epoch: 0.02,
    rate: Callable[[float], float] = lambda epoch: 3000.0,
    grad_norm: Callable[[float], float] = lambda epoch: 1.0,
    noise: float = 0.1,
    val_noise: float = 0.01,
    seed: int = 0,
    peak: int = 100 * MIB,
    budget: int = 0,
    update_seconds: float = 0.1,
    end: dict | None = None,
) -> Iterator[dict]:
    """Events of a run whose curves are functions of the epoch, times noise."""
    draws = np.random.default_rng(seed)
    t = 0.0
    yield {"kind": "start", "t": t, "windows_per_epoch": windows, "validation_samples": 600, "device": "cpu"}
    for epoch in range(epochs):
        factors = np.exp(draws.normal(size=(windows, 2)) * (noise, 0.1)).tolist()
        for window, (of_loss, of_rate) in enumerate(factors):
            now, t = epoch + window / windows, t + update_seconds
            yield {
                "kind": "step",
                "t": t,
                "epoch": epoch + 1,
                "step": epoch * windows + window + 1,
                "loss": loss(now) * of_loss,
                "lr": lr(now),
                "grad_norm": grad_norm(now),
                "samples_per_s": rate(now) * of_rate,
                "data_wait": wait(now),
            }
        yield {
            "kind": "memory",
            "t": t,
            "bytes": {},
            "peak": {"total": peak, "activations": peak // 2},
            "budget": budget,
        }
        event = {
            "kind": "epoch",
            "t": t,
            "epoch": epoch + 1,
            "step": (epoch + 1) * windows,
            "train_loss": loss(epoch + 0.5),
            "val_loss": val_loss(epoch + 1) * float(np.exp(val_noise * draws.normal())),
        }
        if accuracy:
            event |= {"train_accuracy": accuracy(epoch + 1), "val_accuracy": val_accuracy(epoch + 1)}
        yield event
    yield {"kind": "end", "t": t, **(end or {"reason": "finished"})}


def judged(events: Iterator[dict]) -> tuple[dict[str, Finding], list[Finding]]:
    """The findings at the end, and every change of state."""
    checklist = Checklist()
    changes = [finding for event in events for finding in checklist.update(event)]
    return {finding.symptom: finding for finding in checklist.findings()}, changes


def fired(changes: list[Finding]) -> set[str]:
    return {finding.symptom for finding in changes if finding.state == "firing"}


def assert_silent(events: Iterator[dict]) -> dict[str, Finding]:
    """Nothing fires or is watched at any moment."""
    last, changes = judged(events)
    assert [finding for finding in changes if finding.state in ("firing", "watch")] == []
    return last


# --- runs that are well ---


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_run_is_fine(seed):
    last = assert_silent(run(seed=seed))
    assert {finding.state for finding in last.values()} == {"fine"}


@pytest.mark.parametrize("seed", range(10))
def test_a_noisy_healthy_run_with_a_constant_rate_never_fires(seed):
    _, changes = judged(run(epochs=60, noise=0.5, val_noise=0.12, seed=seed))
    assert fired(changes) == set()


def test_a_run_without_updates_cannot_be_judged():
    last = assert_silent(iter([{"kind": "start", "t": 0.0}, {"kind": "end", "t": 1.0, "reason": "stopped"}]))
    assert {finding.state for finding in last.values()} == {"cannot tell yet"}
    assert all(finding.evidence for finding in last.values())


def test_one_epoch():
    last = assert_silent(run(epochs=1))
    assert (last[FLAT].state, last[BAD].state, last[SLOW].state) == ("fine", "fine", "fine")
    assert (last[WORSE].state, last[RISES].state) == ("cannot tell yet", "cannot tell yet")


def test_a_few_updates():
    last = assert_silent(run(epochs=1, windows=8))
    assert (last[FLAT].state, last[SLOW].state) == ("cannot tell yet", "cannot tell yet")


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e8])
def test_regression_in_any_unit_is_fine(unit):
    shape = {
        "loss": lambda epoch: unit * (0.03 + math.exp(-2 * epoch)),
        "val_loss": lambda epoch: unit * (0.04 + 0.5 * math.exp(-2 * epoch)),
        "accuracy": None,
    }
    last = assert_silent(run(epochs=30, val_noise=0.05, **shape))
    assert {finding.state for finding in last.values()} == {"fine"}


def test_a_perfect_fit_is_fine():
    last = assert_silent(run(epochs=40, loss=lambda e: 3.0**-e, val_loss=lambda e: 3.0**-e, accuracy=None))
    assert {finding.state for finding in last.values()} == {"fine"}


def test_an_unsettled_validation_in_the_first_epochs_is_no_symptom():
    def late(good: float, bad: float) -> Callable[[float], float]:
        return lambda epoch: bad if epoch <= 2 else good

    assert_silent(run(val_accuracy=late(0.86, 0.15), val_loss=late(0.45, 6.0)))


def test_a_long_warm_up_is_no_flat_loss():
    last = assert_silent(
        run(loss=lambda epoch: 2.3 * math.exp(-max(0.0, epoch - 8)) + 0.2, lr=lambda epoch: 1e-4 * min(epoch, 8))
    )
    assert last[FLAT].state == "fine"


def test_a_converged_run_with_a_falling_rate_is_fine():
    assert_silent(run(epochs=80, lr=lambda epoch: 1e-3 * (1 - epoch / 80)))


def test_training_loss_above_validation_loss_is_fine():
    assert_silent(run(loss=lambda epoch: 0.9 + math.exp(-epoch), accuracy=lambda epoch: 0.7))


def test_a_short_break_is_not_slow():
    assert_silent(run(rate=lambda epoch: 3.0 if abs(epoch - 7) < 0.05 else 3000.0))


def test_a_resume_repeats_epochs_without_harm():
    first = list(run(epochs=12))
    cut = next(number for number, event in enumerate(first) if event.get("epoch") == 9)
    moment = first[cut - 1]
    again = [{"kind": "resume", "t": moment["t"], "epoch": 8, "step": 400}, first[0], *first[cut:]]
    last = assert_silent(iter(first[:-1] + again))
    assert {finding.state for finding in last.values()} == {"fine"}


# --- loss does not fall ---


@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_a_loss_that_stays_where_it_was(noise):
    last, _ = judged(run(loss=always(2.3), val_loss=always(2.3), noise=noise))
    assert last[FLAT].state == "firing"
    assert "2." in last[FLAT].evidence
    assert "updates" in last[FLAT].evidence


def test_a_loss_that_gets_stuck_high_up():
    last, _ = judged(run(loss=lambda epoch: 2.0 + 0.4 * math.exp(-epoch), val_loss=always(2.2)))
    assert last[FLAT].state == "firing"


def test_a_loss_that_diverges():
    last, _ = judged(run(loss=lambda epoch: 2.3 + epoch, val_loss=always(2.3)))
    assert last[FLAT].state == "firing"


def test_a_loss_that_exploded_is_told_in_sane_numbers():
    events = run(epochs=1, windows=40, loss=lambda epoch: 2.3 if epoch < 0.5 else 4e22, end={"reason": "failed"})
    last, _ = judged(events)
    assert last[FLAT].state == "firing"
    assert "it exploded" in last[FLAT].evidence and "%" not in last[FLAT].evidence
    assert len(last[FLAT].evidence) < 100


def test_a_loss_that_exploded_and_came_down_to_where_it_was():
    last, _ = judged(run(loss=lambda epoch: 2.3 if epoch < 0.03 or epoch > 2 else 2e5, val_loss=always(2.3)))
    assert last[FLAT].state == "firing"


def test_a_flat_loss_near_the_limit_does_not_flicker():
    _, changes = judged(run(epochs=30, loss=lambda epoch: 2.3 * (1 - 0.002 * epoch), val_loss=always(2.3), noise=0.05))
    assert len([finding for finding in changes if finding.symptom == FLAT]) <= 4


def test_a_flat_loss_with_few_updates_an_epoch_fires_after_some_epochs():
    assert judged(run(epochs=4, windows=12, loss=always(2.3)))[0][FLAT].state == "cannot tell yet"
    assert judged(run(epochs=9, windows=12, loss=always(2.3)))[0][FLAT].state == "firing"


def test_a_slow_fall_is_only_watched():
    last, changes = judged(run(epochs=6, loss=lambda epoch: 2.3 * (1 - 0.015 * epoch), noise=0.01))
    assert last[FLAT].state == "watch"
    assert FLAT not in fired(changes)


# --- loss is NaN or inf ---


@pytest.mark.parametrize("value", [NAN, INF])
def test_a_loss_that_is_not_finite_any_more(value):
    last, _ = judged(run(epochs=5, loss=lambda epoch: value if epoch > 2 else 1.0))
    assert last[BAD].state == "firing"
    assert "not finite" in last[BAD].evidence


def test_not_finite_from_the_first_update():
    last, changes = judged(run(epochs=1, loss=always(NAN)))
    assert last[BAD].state == "firing"
    assert last[FLAT].state == "cannot tell yet"
    assert fired(changes) == {BAD}


def test_one_value_that_is_not_finite_is_watched_and_forgiven():
    last, changes = judged(run(loss=lambda epoch: NAN if abs(epoch - 3.02) < 0.001 else 1.5 - 0.05 * epoch))
    assert [finding.state for finding in changes if finding.symptom == BAD] == ["fine", "watch", "fine"]
    assert "1 of 1,000 losses" in last[BAD].evidence


def test_a_loss_scale_that_finds_its_place_is_fine():
    last = assert_silent(run(grad_norm=lambda epoch: NAN if epoch < 0.2 else 1.0))
    assert "updates skipped: 10" in last[BAD].evidence


def test_updates_that_are_always_skipped():
    last, _ = judged(run(epochs=2, grad_norm=always(NAN)))
    assert last[BAD].state == "firing"


def test_a_run_that_fails_at_its_first_value_that_is_not_finite():
    events = list(run(epochs=1, windows=20, end={"reason": "failed", "message": "the loss is not finite"}))
    events[-4]["loss"] = NAN
    place = {"kind": "nonfinite", "t": 1.0, "where": "activation", "layer": "conv3", "action": "stopped"}
    last, _ = judged(iter([*events[:-2], place, events[-1]]))
    assert last[BAD].state == "firing"
    assert "activation in conv3" in last[BAD].evidence


def test_a_validation_that_is_not_finite():
    last, _ = judged(run(val_loss=lambda epoch: NAN if epoch > 5 else 1.0))
    assert last[BAD].state == "firing"


def test_a_resume_after_values_that_were_not_finite_is_watched():
    events = [*run(epochs=3, loss=lambda epoch: NAN if epoch > 2.5 else 1.0), {"kind": "resume", "t": 1.0, "epoch": 2}]
    healthy = [event for event in run(epochs=4) if event["kind"] == "step"]
    last, _ = judged(iter([*events, *healthy]))
    assert last[BAD].state == "fine"


# --- train good, validation bad ---


def overfitting(epoch: float) -> float:
    return 0.02 + 2.0 * math.exp(-epoch / 2)


def test_overfitting():
    last, _ = judged(
        run(
            loss=overfitting,
            val_loss=lambda epoch: 0.6 + 0.02 * epoch,
            accuracy=lambda epoch: 1 - 0.5 * math.exp(-epoch / 2),
            val_accuracy=always(0.78),
        )
    )
    assert last[WORSE].state == "firing"
    assert "accuracy 1.000 on train" in last[WORSE].evidence
    assert "0.780 on validation" in last[WORSE].evidence


def test_overfitting_of_a_regression():
    last, _ = judged(run(loss=overfitting, val_loss=lambda epoch: 0.9 + 0.01 * epoch, accuracy=None))
    assert last[WORSE].state == "firing"


def test_a_small_gap_is_no_overfitting():
    assert_silent(run(accuracy=always(0.92), val_accuracy=always(0.88), loss=lambda e: 0.22 + math.exp(-2 * e)))


def test_a_moderate_gap_is_watched():
    last, changes = judged(run(accuracy=always(0.97), val_accuracy=always(0.87), loss=lambda e: 0.1 + math.exp(-2 * e)))
    assert last[WORSE].state == "watch"
    assert WORSE not in fired(changes)


# --- memory ---


@pytest.mark.parametrize(("peak", "state"), [(50, "fine"), (89, "fine"), (95, "watch"), (101, "firing")])
def test_memory_against_the_budget(peak, state):
    last, _ = judged(run(epochs=1, peak=peak * MIB, budget=100 * MIB))
    assert last[MEMORY].state == state
    assert f"{peak}.00 MiB of a budget of 100.00 MiB, most of it activations" in last[MEMORY].evidence


def test_no_budget_is_fine():
    last, _ = judged(run(epochs=1))
    assert last[MEMORY].state == "fine"
    assert "no budget set" in last[MEMORY].evidence


def test_a_run_that_ended_for_want_of_memory():
    last, _ = judged(run(epochs=1, end={"reason": "failed", "message": "Out of memory: 7 GiB needed"}))
    assert last[MEMORY].state == "firing"


def test_a_process_that_keeps_growing():
    events = list(run(epochs=10))
    for event in events:
        if event["kind"] == "memory":
            event["process"] = int((500 + 10 * event["t"]) * MIB)
    assert judged(iter(events))[0][MEMORY].state == "watch"


# --- training is slow ---


@pytest.mark.parametrize(("share", "state"), [(0.05, "fine"), (0.3, "watch"), (0.6, "firing")])
def test_waiting_for_data(share, state):
    last, _ = judged(run(wait=always(share)))
    assert last[SLOW].state == state
    assert f"{share:.0%} of the time waiting" in last[SLOW].evidence
    assert "on cpu" in last[SLOW].evidence


@pytest.mark.parametrize(("factor", "state"), [(1.3, "fine"), (2.4, "watch"), (5, "firing")])
def test_a_run_that_becomes_slower(factor, state):
    last, _ = judged(run(rate=lambda epoch: 3000.0 if epoch < 10 else 3000.0 / factor))
    assert last[SLOW].state == state


def test_short_dips_are_not_slow():
    assert_silent(run(rate=lambda epoch: 500.0 if epoch % 2 > 1.5 else 3000.0))


def test_a_rate_is_compared_over_seconds_not_over_updates():
    assert_silent(run(update_seconds=0.001, rate=lambda epoch: 3000.0 if epoch < 10 else 500.0))


def test_waiting_for_the_first_data_is_no_symptom():
    assert_silent(run(wait=lambda epoch: 1.0 if epoch < 0.1 else 0.01))


# --- validation loss rises again ---


@pytest.mark.parametrize("val_noise", [0.01, 0.06])
def test_a_validation_loss_that_rises_again(val_noise):
    last, changes = judged(
        run(val_loss=lambda epoch: 0.4 + math.exp(-epoch) + 0.03 * max(0.0, epoch - 6), val_noise=val_noise)
    )
    assert last[RISES].state == "firing"
    assert "epochs ago" in last[RISES].evidence
    assert fired(changes) == {RISES}


def test_one_bad_validation_does_not_fire():
    _, changes = judged(run(val_loss=lambda epoch: 2.0 if epoch == 10 else 0.4 + math.exp(-epoch)))
    assert RISES not in fired(changes)


def test_it_is_fine_again_when_the_loss_is():
    last, changes = judged(
        run(
            epochs=40, val_loss=lambda epoch: 0.4 + math.exp(-epoch) + (0.3 if 10 < epoch < 18 else 0.0) - 0.002 * epoch
        )
    )
    assert RISES in fired(changes)
    assert last[RISES].state == "fine"


# --- whatever comes ---


def test_strange_events_are_passed_over():
    checklist = Checklist()
    for event in (
        {},
        {"kind": "step"},
        {"kind": "step", "loss": "x", "lr": None, "samples_per_s": [], "data_wait": {}},
        {"kind": "epoch", "val_accuracy": None},
        {"kind": "memory", "peak": 3, "budget": "x"},
        {"kind": "memory", "peak": {"total": None}},
        {"kind": "start", "windows_per_epoch": "x", "validation_samples": 0},
        {"kind": "resume"},
        {"kind": "end"},
        {"kind": "what"},
    ):
        checklist.update(event)
    assert len(checklist.findings()) == 6


def test_every_symptom_has_what_a_person_needs():
    assert len({symptom.key for symptom in SYMPTOMS}) == 6
    for symptom in SYMPTOMS:
        assert symptom.title
        assert len(symptom.causes) >= 2
        assert len(symptom.advice) >= 2
