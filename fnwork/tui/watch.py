"""A run as it is watched: what its folder says, folded into what a screen shows. No widget in here."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
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
_BLOCK = 1 << 18  # bytes of events that are taken at once
_READ_SECONDS = 0.4  # then what is known of a long run is shown before the rest is read
_JUDGE_SECONDS = 0.2
_BREATH = 0.004  # seconds after each block in which the thread that answers keys gets its turn


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

    `look` takes a moment and so belongs in a thread; nothing else may be asked while it works. A long run takes several
    looks until all that is in its folder is known and judged; `is_behind` tells.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tail = EventTail(folder)
        self._judged = EventTail(folder)
        self._reader = RunReader(folder)
        self._state_at = -math.inf
        self._smoother = Smoother(1)
        self.state = ""
        self.is_behind = False
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
        self._checks: dict[str, Mapping[str, Any]] = {}  # what the run said itself, until all is judged here
        self._resumed_at = 0.0
        self.log: list[dict[str, Any]] = []

    def look(self) -> bool:
        """Take over what is new in the folder; False if nothing is."""
        kinds: set[str] = set()
        began, behind = time.monotonic(), False
        while not behind and (events := self._tail.read(_BLOCK)):
            kinds.update(event["kind"] for event in events)
            self._take_all(events)
            behind = time.monotonic() - began >= _READ_SECONDS
            time.sleep(_BREATH)
        judged = False
        if not behind:
            judged, behind = self._judge()
        self.is_behind = behind
        changed = judged or bool(kinds)
        now = time.monotonic()
        ends = bool(self.end) and not self.is_over  # its state is written a moment after the event
        if not ends and "resume" not in kinds and now - self._state_at < _STATE_SECONDS:
            return changed  # the state asks the system about a process
        self._state_at = now
        before = self._without_heartbeat(), self.state
        self.status = self._reader.status()
        self.state = self._reader.state(self.status)
        return changed or before != (self._without_heartbeat(), self.state)

    def _judge(self) -> tuple[bool, bool]:
        """Take the checklist on for a moment; it takes longer than the curves, which do not wait for it.

        Returns whether anything was judged, and whether there is more.
        """
        if self._checklist is None:
            return False, False
        began, judged = time.monotonic(), False
        while time.monotonic() - began < _JUDGE_SECONDS:
            events = self._judged.read(_BLOCK // 4)
            if not events:
                self._checks.clear()
                return judged, False
            judged = True
            for event in events:
                self._checklist.update(event)
            time.sleep(_BREATH)
        return judged, True

    def _without_heartbeat(self) -> dict[str, Any]:
        return {key: value for key, value in self.status.items() if key != "heartbeat"}

    def _take_all(self, events: Sequence[dict[str, Any]]) -> None:
        """Updates first, as many as can be taken at once; a start or a resume changes what comes after it."""
        first = 0
        for index, event in enumerate(events):
            if event["kind"] in ("start", "resume"):
                self._take_between(events[first:index])
                self._take(event)
                first = index + 1
        self._take_between(events[first:])

    def _take_between(self, events: Sequence[dict[str, Any]]) -> None:
        self._take_steps([event for event in events if event["kind"] == "step" and _is_finite(event.get("step"))])
        for event in events:
            if event["kind"] != "step":
                self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        self.curves.take(event)
        match kind:
            case "memory":
                self._take_memory(event)
            case "start":
                self._take_start(event)
            case "end":
                self.end = event
            case "check" if self._checklist is not None:
                self._checks[str(event.get("symptom"))] = event
            case "resume":
                self._take_resume(event)
        if kind not in ("memory", "start") or event.get("device_why"):
            # A run is judged once more after its end; why it ended is looked for as the last thing that happened.
            behind_it = bool(self.end) and kind != "end"
            self.log.insert(len(self.log) - behind_it, event)

    def _take_start(self, event: dict[str, Any]) -> None:
        self.start = event
        # About a fifth of an epoch is averaged.
        self._smoother = Smoother(min(500.0, max(5.0, self.windows_per_epoch / 5)))
        limit = self._reader.resolved().get("train", {}).get("limit_windows", 0)
        steps = _count(event.get("epochs")) * self.windows_per_epoch
        self.planned_steps = min(steps, _count(limit) or steps)

    def _take_steps(self, events: Sequence[Mapping[str, Any]]) -> None:
        if not events:
            return
        known = len(self.curves.steps)
        self.curves.take_steps(events)
        new = {name: self.curves.steps[name][known:] for name in ("t", "step", "loss")}
        self.smooth_loss.extend(new | {"loss": self._smoother.add_all(new["loss"])})

    def _take_resume(self, event: dict[str, Any]) -> None:
        # What was written after the moment that a resume goes back to happens once more.
        self.smooth_loss.cut_after("t", event["t"])
        self.log = [old for old in self.log if old["t"] <= event["t"]]
        self.end = {}
        self._resumed_at = number(event.get("step"))
        if self._checklist is None:
            self._findings, self._checklist = [], Checklist()

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
        parts = []
        if f"test_{metric}" in self.end:
            parts.append(f"test {metric} {figure(self.end[f'test_{metric}'], metric)}")
        if isinstance(best, dict) and f"val_{metric}" in best:
            result = figure(best[f"val_{metric}"], metric)
            parts.append(f"validation {metric} {result} in epoch {best.get('epoch', '?')}")
        # A narrow screen cuts the end off: of a failure the reason counts most, else what came out.
        parts.insert(0 if self.state == "failed" else len(parts), str(self.end.get("message") or ""))
        return "   ".join(filter(None, parts))

    def checklist(self) -> list[Check]:
        """All entries of the checklist, in their order."""
        findings = [asdict(found) for found in self._checklist.findings()] if self._checklist else self._findings
        found = {str(finding.get("symptom")): finding for finding in findings} | self._checks
        return [_check(symptom, found.get(symptom.key, {}), self.is_over) for symptom in SYMPTOMS]

    def _recent(self, column: str) -> float:
        values = self.curves.steps[column][-_RECENT_UPDATES:]
        values = values[np.isfinite(values)]
        return float(values.mean()) if values.size else math.nan

    def _seconds_left(self, steps: int) -> float:
        """From the pace of the last two epochs since any resume, evaluation included."""
        since_resume = len(self.curves.steps) - int(np.searchsorted(self.curves.steps["step"], self._resumed_at))
        count = min(since_resume, max(_RECENT_UPDATES, 2 * self.windows_per_epoch))
        if count < 2 or steps <= 0:
            return 0.0 if steps <= 0 and count else math.nan
        times, numbers = self.curves.steps["t"][-count:], self.curves.steps["step"][-count:]
        passed = numbers[-1] - numbers[0]
        return float((times[-1] - times[0]) / passed * steps) if passed > 0 else math.nan


def _check(symptom: Symptom, finding: Mapping[str, Any], is_over: bool) -> Check:
    state, evidence = str(finding.get("state", UNKNOWN)), str(finding.get("evidence", ""))
    state = state.removesuffix(" yet") if is_over else state
    return Check(symptom.title, state, evidence, symptom.causes, symptom.advice)


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0


def _is_finite(value: Any) -> bool:
    return type(value) is int or math.isfinite(number(value))


def _known(value: float) -> float:
    return value if math.isfinite(value) else 0.0
