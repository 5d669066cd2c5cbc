"""The troubleshooting checklist: what a run suffers from, the numbers that say so, likely causes and advice.

Every symptom is judged on smoothed curves, never on one value, and only from the events of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fnwork.curves import smoothed
from fnwork.measures import Measures

State = Literal["fine", "watch", "firing", "cannot tell yet"]
FINE: State = "fine"
WATCH: State = "watch"
FIRING: State = "firing"
UNKNOWN: State = "cannot tell yet"

EPOCH_WINDOW = 3  # epochs that are averaged
HELD_JUDGEMENTS = 4
UPDATES_TO_JUDGE = 50  # at the full learning rate, before a loss can be said not to fall
EXPLODED = 10.0  # times the first loss
WAITS_TO_JUDGE = 30  # updates before the share of waiting is known
EARLY_EPOCHS = 2  # running statistics still lag behind: validation says nothing yet

Judgement = tuple[State, str]


@dataclass(frozen=True)
class Symptom:
    """One entry of the checklist; causes and advice in the order in which to think of them."""

    key: str
    title: str
    causes: tuple[str, ...]
    advice: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """What is known about one symptom, and the numbers that say so."""

    symptom: str
    state: State
    evidence: str


class Checklist:
    """Judges a run from its events, whoever gives them: the run itself, a screen, or the file of an old run."""

    def __init__(self) -> None:
        self._measures = Measures()
        self._states: dict[str, State] = {symptom.key: UNKNOWN for symptom in SYMPTOMS}
        self._held: dict[str, tuple[State, int]] = {}

    def update(self, event: Mapping[str, Any]) -> list[Finding]:
        """Takes one event; the findings whose state it changed."""
        self._measures.take(event)
        kind, updates = event.get("kind"), self._measures.updates
        # Judging takes longer than measuring: seldom enough not to be felt, and at once where an update was skipped.
        if kind == "step" and updates % max(5, updates // 200) and not self._measures.skipped_in_a_row:
            return []
        changed = []
        for symptom, (judge, kinds) in _JUDGES.items():
            if kind in kinds or kind in ("resume", "end"):
                finding = Finding(symptom.key, *judge(self._measures))
                if self._is_new(finding, at_once=kind != "step" or judge is _loss_not_finite):
                    self._states[symptom.key] = finding.state
                    changed.append(finding)
        return changed

    def findings(self) -> list[Finding]:
        """Every symptom, in the order of `SYMPTOMS`, with its state and its evidence of this moment."""
        evidence = {symptom.key: judge(self._measures)[1] for symptom, (judge, _) in _JUDGES.items()}
        return [Finding(key, state, evidence[key]) for key, state in self._states.items()]

    def _is_new(self, finding: Finding, at_once: bool) -> bool:
        """Whether the state is another one, for some judgements in a row: near a limit it would flicker."""
        held, times = self._held.get(finding.symptom, (finding.state, 0))
        times = times + 1 if held == finding.state else 1
        self._held[finding.symptom] = finding.state, times
        return finding.state != self._states[finding.symptom] and (at_once or times >= HELD_JUDGEMENTS)


def _loss_does_not_fall(m: Measures) -> Judgement:
    if not m.loss.count:
        return UNKNOWN, "no finite loss yet"
    now, first = m.loss.value, max(abs(m.first_loss), 1e-12)
    fall, noise = (m.first_loss - now) / first, m.deviation.value / first if m.deviation.count else 0.0
    change = f"{-fall:+.0%}" if now <= EXPLODED * first else f"{now / first:.2g} times as large"
    text = f"smoothed loss {m.first_loss:.4g} -> {now:.4g} ({change}) in {m.updates:,} updates"
    if now > EXPLODED * first:
        return (FIRING if m.loss.count >= 20 or m.end else WATCH), f"{text}; it exploded"
    judged, epochs = m.updates_at_full_rate, len(m.epochs)
    patient = judged >= max(200.0, min(1000.0, m.updates_per_epoch)) or (epochs >= 5 and judged >= UPDATES_TO_JUDGE)
    quarter = max(1, len(m.trace.values) // 4)
    earlier, later = (
        np.mean(m.trace.values[quarter : 2 * quarter] or [now]),
        np.mean(m.trace.values[-quarter:] or [now]),
    )
    stands = (earlier - later) / first < max(0.01, 3 * noise / math.sqrt(quarter * m.trace.every))
    if epochs >= 6 and patient and stands and fall < 0.4:
        half = m.updates // 2
        return (FIRING if fall < 0.25 else WATCH), f"{text}; it has not fallen in the last {half:,}"
    if fall >= 0.1 + noise / 3 and m.loss.count >= 20:
        return FINE, text
    if judged < UPDATES_TO_JUDGE:
        return UNKNOWN, f"{text}; {judged} of {UPDATES_TO_JUDGE} updates at the full learning rate"
    if fall < 0.05:
        return (FIRING if patient and stands else WATCH), text
    return (WATCH if patient else UNKNOWN), text


def _loss_not_finite(m: Measures) -> Judgement:
    if not m.updates:
        return UNKNOWN, "no update yet"
    text = f"{m.bad_losses:,} of {m.updates:,} losses not finite, updates skipped: {m.skipped:,}"
    text += f", the last for {m.last_place}" if m.last_place else ""
    if m.bad_validations_in_a_row:
        text += f"; validation loss not finite for {m.bad_validations_in_a_row} epochs"
    ended_by_it = m.end.get("reason") == "failed" and m.skipped_in_a_row > 0
    often_bad = m.bad_share.value >= 0.25 and m.bad_losses >= 4
    often_skipped = m.skipped_share.value >= 0.5 and m.skipped >= 20
    if m.bad_in_a_row >= 3 or often_bad or often_skipped or ended_by_it or m.bad_validations_in_a_row >= 2:
        return FIRING, text
    sometimes = m.bad_share.value >= 0.005 or (m.skipped_share.value >= 0.1 and m.updates >= 100)
    return (WATCH if sometimes or m.bad_validations_in_a_row else FINE), text


def _validation_worse(m: Measures) -> Judgement:
    """Later epochs only. Gaps: in accuracy or r2 (by points), else in loss by the share of the first training loss."""
    later = slice(EARLY_EPOCHS, None)
    train_loss, val_loss = m.column("train_loss")[later], m.column("val_loss")[later]
    train, val = m.column("train_metric")[later], m.column("val_metric")[later]
    counted = int(np.isfinite(train_loss - val_loss).sum())
    if counted < 2:
        return UNKNOWN, f"{max(0, len(m.epochs))} of {EARLY_EPOCHS + 2} epochs with validation"
    loss, worse = _newest(train_loss), _newest(val_loss)
    noise = 0.0
    if m.metric and np.isfinite(train - val).sum() >= 2:
        good, bad = _newest(np.clip(train, -1, 1)), _newest(np.clip(val, -1, 1))
        gap, limits = good - bad, (0.05, 0.10) if m.metric == "accuracy" else (0.10, 0.20)
        samples = max(1.0, float(m.start.get("validation_samples") or 1000))
        noise = 2 * math.sqrt(max(0.0, bad * (1 - bad)) / samples) if m.metric == "accuracy" else 0.0
        text = f"{m.metric} {good:.3f} on train, {bad:.3f} on validation; "
    else:
        first = m.column("train_loss")
        first = first[np.isfinite(first)]
        gap, limits, text = (worse - loss) / max(abs(float(first[0])), 1e-12), (0.10, 0.20), ""
    text += f"loss {loss:.4g} on train, {worse:.4g} on validation"
    if worse <= 1.2 * loss or gap < limits[0] + noise:
        return FINE, text
    curve = smoothed(m.column("val_loss"), EPOCH_WINDOW)
    still_improving = int(np.nanargmin(curve)) >= len(curve) - 2 and gap < 2 * limits[1]
    sure = counted >= 3 and gap >= limits[1] + noise and not still_improving
    return (FIRING if sure else WATCH), text


def _memory_near_budget(m: Measures) -> Judgement:
    if not m.peak:
        return UNKNOWN, "not measured yet"
    text = f"peak {_size(m.peak)}" + (f" of a budget of {_size(m.budget)}" if m.budget else ", no budget set")
    parts = {name: value for name, value in m.peak_of.items() if name != "total" and isinstance(value, int | float)}
    if parts:
        largest = max(parts, key=lambda name: parts[name])
        text += f", most of it {largest} ({_size(parts[largest])})"
    failed = m.end.get("reason") == "failed" and "memory" in str(m.end.get("message", "")).lower()
    if failed or (m.budget and m.peak > m.budget):
        return FIRING, text
    growth = m.process - m.process_after_first_epoch
    if len(m.epochs) >= 3 and growth > max(256 * 2**20, 0.25 * m.process_after_first_epoch):
        return WATCH, f"{text}; the process grew by {_size(growth)} since its first epoch"
    return (WATCH if m.budget and m.peak > 0.9 * m.budget else FINE), text


def _training_slow(m: Measures) -> Judgement:
    if m.wait.count < WAITS_TO_JUDGE and not m.last_rates:
        return UNKNOWN, f"{m.wait.count} of {WAITS_TO_JUDGE} updates"
    waiting = m.wait.value if m.wait.count else 0.0
    text = f"{waiting:.0%} of the time waiting for data, {m.rate:,.0f} samples/s"
    text += f" on {m.start['device']}" if m.start.get("device") else ""
    if m.slowdown >= 2:
        text += f", {m.slowdown:.1f} times slower than at its best"
    if waiting >= 0.4 or m.slowdown >= 3:
        return FIRING, text
    return (WATCH if waiting >= 0.2 or m.slowdown >= 2 else FINE), text


def _validation_rises(m: Measures) -> Judgement:
    values = m.column("val_loss")
    values = values[np.isfinite(values)]
    if values.size < EARLY_EPOCHS + EPOCH_WINDOW:
        return UNKNOWN, f"{values.size} of {EARLY_EPOCHS + EPOCH_WINDOW} epochs with validation"
    # The middle one of three first: a single bad validation is no rise.
    middle = np.median(np.stack([values[2:], values[1:-1], values[:-2]]), axis=0)
    curve = smoothed(np.concatenate([values[:2], middle]), EPOCH_WINDOW)
    best = int(np.argmin(curve))
    since, low = curve.size - 1 - best, float(curve[best])
    rise = float(curve[-1]) - low
    noise = float(np.median(np.abs(np.diff(values))))
    text = f"smoothed validation loss {curve[-1]:.4g}"
    if since:
        text += f", at its best {low:.4g} ({since} epochs ago, {rise / max(abs(low), 1e-12):+.0%})"
    small = 0.01 * abs(float(curve[0]))  # next to what was there to learn
    if since >= 3 and rise > max(0.1 * abs(low), 3 * noise, small):
        return FIRING, text
    return (WATCH if since >= 2 and rise > max(0.03 * abs(low), 1.5 * noise, small) else FINE), text


def _newest(values: np.ndarray) -> float:
    """The newest value of a smoothed curve."""
    curve = smoothed(values, EPOCH_WINDOW)
    return float(curve[np.isfinite(curve)][-1])


def _size(count: float) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20)):
        if abs(count) >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count / 2**10:.0f} KiB"


# Each symptom with how it is judged, and the kinds of events that can change that.
_JUDGES: dict[Symptom, tuple[Callable[[Measures], Judgement], tuple[str, ...]]] = {
    Symptom(
        "loss-does-not-fall",
        "loss does not fall",
        (
            "learning rate too low, or so high that the loss exploded",
            "wrong preprocessing or wrong targets",
            "a network that cannot learn this",
        ),
        (
            "overfit a few samples first: a network that cannot do that has a fault",
            "raise train.lr by factors of 3 where the loss stands still",
            "lower train.lr by factors of 3, or add train.warmup_epochs, where it exploded",
        ),
    ): (_loss_does_not_fall, ("step", "epoch")),
    Symptom(
        "loss-not-finite",
        "loss is NaN or inf",
        ("learning rate too high", "unstable numbers in a layer", "a division by zero or an empty or broken input"),
        (
            "lower train.lr by factors of 3, or add train.warmup_epochs",
            "set train.clip_norm = 1.0 and look at the normalisation layers",
            'with precision.mode = "mixed" keep the layer that is named in fp32 (precision.keep_fp32)',
        ),
    ): (_loss_not_finite, ("step", "epoch")),
    Symptom(
        "validation-worse",
        "train good, validation bad",
        ("overfitting", "train and validation data that differ"),
        (
            'more variety: data.augment = ["crop:2", "flip"]',
            "dropout layers, a higher train.weight_decay or a smaller network",
            "stop earlier: train.early_stop = 5",
        ),
    ): (_validation_worse, ("epoch",)),
    Symptom(
        "memory-near-budget",
        "memory over or near the budget",
        ("micro-batch or resolution too large", "something is kept for too long"),
        (
            "halve train.micro_batch and double train.accumulate: the result stays the same",
            'precision.mode = "mixed", or memory.recompute = "auto"',
            "a lower resolution",
        ),
    ): (_memory_near_budget, ("memory", "epoch")),
    Symptom(
        "training-slow",
        "training is slow",
        ("waiting for data", "no GPU is used", "other work on this machine, or a hot processor"),
        (
            "data that lies on a fast local disk, less augmentation",
            'device.use = "cuda" where there is one; fnwork doctor says what is missing',
            'precision.mode = "mixed" on a GPU, a larger train.micro_batch',
        ),
    ): (_training_slow, ("step",)),
    Symptom(
        "validation-rises",
        "validation loss rises again",
        ("learning rate too high at the end", "overfitting"),
        (
            'lower train.lr, or let it fall: train.schedule = "cosine"',
            "regularise: dropout, train.weight_decay, train.label_smoothing, data.augment",
            "stop earlier: train.early_stop = 5",
        ),
    ): (_validation_rises, ("epoch",)),
}
SYMPTOMS: tuple[Symptom, ...] = tuple(_JUDGES)
