"""A run as it is watched: what its folder says, folded into what a screen shows. No widget in here."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fnwork.checklist import SYMPTOMS, UNKNOWN, Checklist, Symptom
from fnwork.curves import Curves, History, Smoother, number
from fnwork.run_folder import LAST, EventTail, RunReader
from fnwork.tui.figures import figure
from fnwork.tui.theme import CATEGORIES

_STATE_SECONDS = 1.0
_RECENT_UPDATES = 20


@dataclass(frozen=True)
class Progress:
    """Where a run is, for the header. Seconds; nan or 0 where nothing is known yet."""

    name: str = ""
    state: str = ""
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    steps: int = 0
    elapsed: float = 0.0
    left: float = math.nan
    samples_per_s: float = math.nan
    lr: float = math.nan
    data_wait: float = math.nan
    device: str = ""
    precision: str = ""
    outcome: str = ""
    """What came out, once the run is over."""

    @property
    def share(self) -> float:
        """How much is done, 0 to 1."""
        return min(1.0, self.step / self.steps) if self.steps else 0.0


@dataclass(frozen=True)
class Memory:
    """The latest memory event. Bytes; `budget` is 0 when there is none."""

    categories: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    peak: int = 0
    process: int = 0
    budget: int = 0


@dataclass(frozen=True)
class Check:
    """One entry of the checklist as it is shown."""

    title: str
    state: str
    evidence: str
    causes: tuple[str, ...]
    advice: tuple[str, ...]


class RunWatch:
    """Follows one run's folder.

    `look` may take seconds at first and so belongs in a thread; nothing else may be asked while it works.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tail = EventTail(folder)
        self._reader = RunReader(folder)
        self._state_at = -math.inf
        self._smoother = Smoother(1)
        self.state = ""
        self.status: Mapping[str, Any] = {}
        self.start: Mapping[str, Any] = {}
        self.end: Mapping[str, Any] = {}
        self.planned_steps = 0
        self.curves = Curves()
        self.smooth_loss = History("t", "step", "loss")
        """The loss of the updates, smoothed; nan where the loss is not finite."""
        self.memory = Memory()
        # A run that has ended keeps its checklist in its record; judging a long one anew would take seconds.
        kept = (self._reader.record() or {}).get("checklist")
        self._findings = [found for found in kept if isinstance(found, dict)] if isinstance(kept, list) else []
        self._checklist = None if self._findings else Checklist()
        self.log: list[dict[str, Any]] = []

    def look(self) -> bool:
        """Take over what is new in the folder; False if nothing is."""
        events = self._tail.read()
        for event in events:
            self._take(event)
        now = time.monotonic()
        ended = any(event["kind"] in ("end", "resume") for event in events)
        if not ended and now - self._state_at < _STATE_SECONDS:  # the state asks the system about a process
            return bool(events)
        self._state_at = now
        before = self._without_heartbeat(), self.state
        self.status = self._reader.status()
        self.state = self._reader.state(self.status)
        return bool(events) or before != (self._without_heartbeat(), self.state)

    def _without_heartbeat(self) -> dict[str, Any]:
        return {key: value for key, value in self.status.items() if key != "heartbeat"}

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind == "step" and not math.isfinite(number(event.get("step"))):
            return
        self.curves.take(event)
        if self._checklist is not None:
            self._checklist.update(event)
        match kind:
            case "step":
                self._smooth(event["t"], number(event["step"]), number(event.get("loss")))
            case "memory":
                self._take_memory(event)
            case "start":
                self._take_start(event)
            case "end":
                self.end = event
            case "resume":
                self._take_resume(event)
        if kind not in ("step", "memory", "start"):
            self.log.append(event)

    def _take_start(self, event: dict[str, Any]) -> None:
        self.start = event
        # About a fifth of an epoch is averaged.
        self._smoother = Smoother(min(500.0, max(5.0, self.windows_per_epoch / 5)))
        limit = self._reader.resolved().get("train", {}).get("limit_windows", 0)
        steps = _count(event.get("epochs")) * self.windows_per_epoch
        self.planned_steps = min(steps, _count(limit) or steps)

    def _smooth(self, t: float, step: float, loss: float) -> None:
        mean = self._smoother.add(loss)
        self.smooth_loss.append(t=t, step=step, loss=mean if math.isfinite(loss) else math.nan)

    def _take_resume(self, event: dict[str, Any]) -> None:
        # What was written after the moment that a resume goes back to happens once more.
        self.smooth_loss.cut_after("t", event["t"])
        self.log = [old for old in self.log if old["t"] <= event["t"]]
        self.end = {}
        if self._checklist is None:
            self._findings, self._checklist = [], Checklist()
            for old in self._reader.events():
                self._checklist.update(old)

    def _take_memory(self, event: dict[str, Any]) -> None:
        held, peak = event.get("bytes"), event.get("peak")
        held = {name: _count(held.get(name)) for name in CATEGORIES} if isinstance(held, dict) else {}
        most = _count(peak.get("total")) if isinstance(peak, dict) else 0
        self.memory = Memory(held, sum(held.values()), most, _count(event.get("process")), _count(event.get("budget")))

    # --- what a screen asks for ---

    @property
    def windows_per_epoch(self) -> int:
        """Updates in an epoch; 0 before the start event."""
        return _count(self.start.get("windows_per_epoch"))

    @property
    def metric(self) -> str:
        """What the run is judged by: accuracy, or r2 in a regression."""
        return "r2" if np.isfinite(self.curves.epochs["val_r2"]).any() else "accuracy"

    @property
    def is_over(self) -> bool:
        """Whether nobody trains this run any more."""
        return bool(self.state) and self.state not in ("running", "paused")

    @property
    def can_resume(self) -> bool:
        """Whether training can go on from its last checkpoint."""
        return self.state in ("stopped", "interrupted", "failed") and (self.folder / LAST).is_file()

    @property
    def step_now(self) -> float:
        """The newest update."""
        return self.curves.steps.last("step", 0.0)

    @property
    def seconds(self) -> float:
        """The run's clock at its newest event."""
        return max(
            _known(history.last("t", 0.0)) for history in (self.curves.steps, self.curves.epochs, self.curves.memory)
        )

    def progress(self) -> Progress:
        """Where the run is."""
        epochs = _count(self.start.get("epochs")) or _count(self.status.get("epochs"))
        step = int(self.step_now)
        epoch = -(-step // self.windows_per_epoch) if self.windows_per_epoch else _count(self.status.get("epoch"))
        return Progress(
            name=str(self.status.get("name") or self.start.get("name") or self.folder.name),
            state=self.state,
            epoch=min(epoch, epochs) if epochs else epoch,
            epochs=epochs,
            step=step,
            steps=self.planned_steps,
            elapsed=self.seconds,
            left=math.nan if self.is_over else self._seconds_left(self.planned_steps - step),
            samples_per_s=self._recent("samples_per_s"),
            lr=self.curves.steps.last("lr"),
            data_wait=self._recent("data_wait"),
            device=str(self.start.get("device", "")),
            precision=str(self.start.get("precision", "")),
            outcome=self._outcome() if self.is_over else "",
        )

    def _outcome(self) -> str:
        best = self.end.get("best")
        metric = self.metric
        parts = [str(self.end.get("message") or "")]
        if isinstance(best, dict) and f"val_{metric}" in best:
            result = figure(best[f"val_{metric}"], metric)
            parts.append(f"best validation {metric} {result} in epoch {best.get('epoch', '?')}")
        if f"test_{metric}" in self.end:
            parts.append(f"test {metric} {figure(self.end[f'test_{metric}'], metric)}")
        return "   ".join(filter(None, parts))

    def checklist(self) -> list[Check]:
        """All entries of the checklist, in their order."""
        findings = [asdict(found) for found in self._checklist.findings()] if self._checklist else self._findings
        found = {str(finding.get("symptom")): finding for finding in findings}
        return [_check(symptom, found.get(symptom.key, {})) for symptom in SYMPTOMS]

    def _recent(self, column: str) -> float:
        values = self.curves.steps[column][-_RECENT_UPDATES:]
        values = values[np.isfinite(values)]
        return float(values.mean()) if values.size else math.nan

    def _seconds_left(self, steps: int) -> float:
        """From the pace of the last two epochs, evaluation included."""
        count = min(len(self.curves.steps), max(_RECENT_UPDATES, 2 * self.windows_per_epoch))
        if count < 2 or steps <= 0:
            return 0.0 if steps <= 0 and count else math.nan
        times, numbers = self.curves.steps["t"][-count:], self.curves.steps["step"][-count:]
        passed = numbers[-1] - numbers[0]
        return float((times[-1] - times[0]) / passed * steps) if passed > 0 else math.nan


def _check(symptom: Symptom, finding: Mapping[str, Any]) -> Check:
    state, evidence = str(finding.get("state", UNKNOWN)), str(finding.get("evidence", ""))
    return Check(symptom.title, state, evidence, symptom.causes, symptom.advice)


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0


def _known(value: float) -> float:
    return value if math.isfinite(value) else 0.0
