"""What the checklist judges: running quantities over the events of a run, each in constant time an event."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fnwork.curves import Floats, Smoother, number

FIRST_LOSSES = 10  # their mean is what the loss is compared with
SETTLING_UPDATES = 5  # the first updates wait for the first data, and say nothing about later ones
LONGEST_TRACE = 256
STRETCH_SECONDS = 10.0  # rates are compared over stretches of at least so long: other work comes and goes
STRETCH_UPDATES = 20


@dataclass(frozen=True)
class EpochValues:
    """One epoch's results; nan where there is none."""

    epoch: float
    train_loss: float
    val_loss: float
    train_metric: float
    val_metric: float


class Trace:
    """A curve of any length in at most `LONGEST_TRACE` points: each time it is full, every second one is dropped."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.every = 1
        self._count = 0

    def add(self, value: float) -> None:
        self._count += 1
        if self._count % self.every == 0:
            self.values.append(value)
        if len(self.values) >= LONGEST_TRACE:
            self.values = self.values[1::2]
            self.every *= 2


@dataclass
class Measures:
    """The state of a run as far as the checklist needs it."""

    start: Mapping[str, Any] = field(default_factory=dict)
    end: Mapping[str, Any] = field(default_factory=dict)
    # Training loss, by update
    updates: int = 0
    updates_at_full_rate: int = 0  # since the learning rate last rose: a warm-up is no time to judge
    very_first_loss: float = math.nan
    mean_of_first: float = math.nan
    loss: Smoother = field(default_factory=lambda: Smoother(20))
    deviation: Smoother = field(default_factory=lambda: Smoother(200))  # of one loss from the smoothed one
    trace: Trace = field(default_factory=Trace)
    # Values that are not finite
    bad_losses: int = 0
    bad_in_a_row: int = 0
    bad_share: Smoother = field(default_factory=lambda: Smoother(20))
    skipped: int = 0
    skipped_in_a_row: int = 0
    skipped_share: Smoother = field(default_factory=lambda: Smoother(50))
    bad_validations_in_a_row: int = 0
    last_place: str = ""
    # Speed
    wait: Smoother = field(default_factory=lambda: Smoother(200))
    best_rate: float = 0.0  # samples a second, the middle one of a stretch
    last_rates: deque[float] = field(default_factory=lambda: deque(maxlen=2))  # of the newest two stretches
    # Memory, in bytes
    peak: float = 0.0
    peak_of: Mapping[str, Any] = field(default_factory=dict)
    budget: float = 0.0
    process: float = math.nan
    process_after_first_epoch: float = math.nan
    # Results, by epoch
    epochs: list[EpochValues] = field(default_factory=list)
    metric: str = ""

    def __post_init__(self) -> None:
        self._rate = 0.0
        self._rates: list[float] = []
        self._stretch_began = math.nan

    def take(self, event: Mapping[str, Any]) -> None:
        """Adds one event; kinds that measure nothing are passed over."""
        match event.get("kind"):
            case "start":
                self._take_start(event)
            case "step":
                self._take_step(event)
            case "epoch":
                self._take_epoch(event)
            case "memory":
                self._take_memory(event)
            case "nonfinite":
                self.last_place = " in ".join(str(event.get(key)) for key in ("where", "layer") if event.get(key))
            case "resume":
                self._take_resume(event)
            case "end":
                self.end = event

    @property
    def first_loss(self) -> float:
        """The loss at the start: the mean of the first ones, unless they exploded; then coming down is no progress."""
        exploded = self.mean_of_first > 3 * self.very_first_loss > 0
        return self.very_first_loss if exploded else self.mean_of_first

    @property
    def rate(self) -> float:
        """Samples a second in the newest stretch."""
        return self.last_rates[-1] if self.last_rates else statistics.median(self._rates or [math.nan])

    @property
    def slowdown(self) -> float:
        """How many times slower than at its best the run is; the faster one of the newest two stretches counts."""
        return self.best_rate / max(self.last_rates) if len(self.last_rates) == 2 and max(self.last_rates) > 0 else 1.0

    @property
    def updates_per_epoch(self) -> float:
        """Updates in an epoch; 0 when it is not known."""
        value = number(self.start.get("windows_per_epoch"))
        return value if math.isfinite(value) else 0.0

    def column(self, name: str) -> Floats:
        """One value of every epoch."""
        return np.array([getattr(epoch, name) for epoch in self.epochs], dtype=float)

    def _take_start(self, event: Mapping[str, Any]) -> None:
        self.start, self.end = event, {}
        if not self.updates:
            self.loss = Smoother(min(200.0, max(10.0, self.updates_per_epoch / 5)))

    def _take_step(self, event: Mapping[str, Any]) -> None:
        self.updates += 1
        loss, rate = number(event.get("loss")), number(event.get("lr"))
        self.updates_at_full_rate = 0 if rate > self._rate else self.updates_at_full_rate + 1
        self._rate = rate if math.isfinite(rate) else self._rate
        bad = not math.isfinite(loss)
        skipped = bad or not math.isfinite(number(event.get("grad_norm", 0.0)))
        self.bad_losses += bad
        self.skipped += skipped
        self.bad_in_a_row = self.bad_in_a_row + 1 if bad else 0
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped else 0
        self.bad_share.add(float(bad))
        self.skipped_share.add(float(skipped))
        if not bad:
            known = self.loss.count
            if known < FIRST_LOSSES:
                self.mean_of_first = (self.mean_of_first * known + loss) / (known + 1) if known else loss
            if known:
                self.deviation.add(abs(loss - self.loss.value))
            else:
                self.very_first_loss = loss
            self.trace.add(self.loss.add(loss))
        if self.updates > SETTLING_UPDATES:
            self.wait.add(number(event.get("data_wait")))
            self._take_rate(number(event.get("t")), number(event.get("samples_per_s")))

    def _take_rate(self, t: float, rate: float) -> None:
        if not self._rates:
            self._stretch_began = t
        if math.isfinite(rate):
            self._rates.append(rate)
        if t - self._stretch_began >= STRETCH_SECONDS and len(self._rates) >= STRETCH_UPDATES:
            self.last_rates.append(statistics.median(self._rates))
            self.best_rate = max(self.best_rate, self.last_rates[-1])
            self._rates.clear()

    def _take_epoch(self, event: Mapping[str, Any]) -> None:
        self.metric = next((name for name in ("accuracy", "r2") if f"val_{name}" in event), self.metric)
        values = (number(event.get(f"{part}_{what}")) for what in ("loss", self.metric) for part in ("train", "val"))
        self.epochs.append(EpochValues(number(event.get("epoch")), *values))
        if "val_loss" in event:
            bad = not math.isfinite(self.epochs[-1].val_loss)
            self.bad_validations_in_a_row = self.bad_validations_in_a_row + 1 if bad else 0
        if math.isnan(self.process_after_first_epoch):
            self.process_after_first_epoch = self.process

    def _take_memory(self, event: Mapping[str, Any]) -> None:
        peak, budget = event.get("peak"), number(event.get("budget"))
        if isinstance(peak, Mapping) and number(peak.get("total")) >= self.peak:
            self.peak, self.peak_of = number(peak.get("total")), peak
        self.budget = budget if math.isfinite(budget) else 0.0
        self.process = number(event.get("process"))

    def _take_resume(self, event: Mapping[str, Any]) -> None:
        # The epochs after the checkpoint happen once more; and the process, maybe the machine, is another one.
        last = number(event.get("epoch"))
        self.epochs = [epoch for epoch in self.epochs if not epoch.epoch > last]
        self.bad_in_a_row = self.skipped_in_a_row = self.bad_validations_in_a_row = 0
        self.best_rate = 0.0
        self.last_rates.clear()
        self._rates.clear()
        self.process_after_first_epoch = math.nan
        self.end = {}
