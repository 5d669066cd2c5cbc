"""Training as an iterator of events.

    for event in trainer.run(): ...

Not asking for the next event is a pause; `stop` is met within one micro-batch. Between two "step" events lies one
window:
`accumulate` micro-batches and one update. Everything an exact resume needs is in `state` at every "step", "epoch" and
"end".
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from math import ceil, inf
from typing import Any

import numpy as np
import psutil

from engine import resident
from engine.data import Augment, DataSet
from engine.device import choose
from engine.errors import InputError, RunError
from engine.events import Event
from engine.feed import Feed
from engine.forecast import forecast
from engine.layers import Tables
from engine.layers.whiten import Whiten
from engine.learner import Learner, Update
from engine.losses import TOTALS, metrics
from engine.memory import BudgetExceeded, Memory
from engine.ops import Operations, kernels_named
from engine.precision import FLOOR
from engine.progress import Progress
from engine.replay import Replay
from engine.schedule import learning_rate
from engine.settings import Settings
from engine.state import State

MAX_SKIPS = 5  # windows in a row that may be skipped at the lowest loss scale before training stops
MEMORY_INTERVAL = 1.0  # seconds between memory events within an epoch


class Trainer:
    """One training run of a network on a data set.

    `layers` are layer tables as in a spec, `augment` acts on the train part, `advise` says which settings would keep to
    a budget of so many bytes, `compilation` compiles kernels for a precision before they are needed. Raises InputError
    (InvalidLayer for a layer) where the parts do not go together, BudgetExceeded where the forecast is over the budget.
    """

    def __init__(
        self, layers: Tables, data: DataSet, settings: Settings, device: str = "auto",
        augment: Augment = None, advise: Callable[["Trainer", int], str] = lambda trainer, budget: "",
        compilation: Callable[[str], Any] | None = None,
    ) -> None:  # fmt: skip
        _check(data, settings)
        self._advise, self._compilation = advise, compilation
        self.device = choose(device)
        budget = self.device.budget(settings.budget)
        settings = replace(settings, soft_targets=bool(augment and augment.mixup), budget=budget)
        self.data, self.settings, self._augment = data, settings, augment
        samples = [len(part or ()) for part in (data.train, data.validation, data.test)]
        data_bytes = resident.data_bytes(self.device, data.input_shape, samples, data.nbytes, augment)
        self.network = (layers, data.input_shape, data.outputs)
        self.layout = {"alignment": self.device.alignment, "data_bytes": data_bytes, "samples": len(data.train)}
        self._build()
        self._progress = Progress(validated=len(data.validation) > 0)
        self._stop = threading.Event()
        self.windows_per_epoch = ceil(len(data.train) / (settings.micro_batch * settings.accumulate))

    def _build(self) -> None:
        """The ledger and all that lies in it, as the forecast says."""
        data, settings, budget, data_bytes = self.data, self.settings, self.settings.budget, self.layout["data_bytes"]
        self.forecast = forecast(*self.network, settings, **self.layout)
        if budget and self.forecast.peak["total"] > budget:
            raise self._too_much(budget)
        capacity = self.forecast.reserved - data_bytes
        try:
            self.memory = Memory(self.device.allocate, capacity, budget, self.device.alignment)
        except (MemoryError, RuntimeError) as error:
            raise self._too_much(self.device.budget(0) or psutil.virtual_memory().available, str(error)) from None
        if data_bytes:
            self.memory.adopt(data_bytes, "data")
        self.memory.guard = self.device.guard(self.memory)
        operations = Operations(self.memory, kernels_named(self.forecast.kernels))
        with self.memory.guard():
            replay = (Replay(self.device, self.memory),) if self.device.is_cuda else ()
            self._learner = Learner(*self.network, settings, operations, *replay)
            if isinstance(first := self._learner.model.layers[0], Whiten):
                first.fit(data.train.inputs, data.preprocessing.pixel_table(np.dtype(np.float32)))
            self._feed = Feed(data, self._learner, self.device, settings.seed, self._augment, data_bytes > 0)

    @property
    def step(self) -> int:
        """Updates made so far."""
        return self._progress.step

    def stop(self) -> None:
        """Asks for the end, from any thread; met within one micro-batch."""
        self._stop.set()

    def run(self) -> Iterator[Event]:
        """Trains from where the state stands. Ends with one "end" event; raises only for faults of this program."""
        self._began = time.monotonic()
        yield self._event("start", **self._description())
        if self.forecast.fallback:
            yield self._event("warning", message=_slower(self.forecast.fallback))
        try:
            if self._compilation and self.forecast.kernels == "cpu" and not self.settings.kernels:
                yield from self._compile()
            yield from self._epochs()
        except BudgetExceeded as error:
            yield self._end("failed", f"{error}. {self._advise(self, error.budget)}".rstrip(". "))
        except RunError as error:
            yield self._end("failed", str(error))
        finally:
            self._feed.close()

    def _epochs(self) -> Iterator[Event]:
        settings, progress = self.settings, self._progress
        while progress.epoch <= settings.epochs and not progress.ended:
            yield from self._windows()
            if self._stop.is_set():
                yield self._end("stopped", "stopped on request")
                return
            yield from self._finish_epoch()
            if settings.limit_windows and progress.step >= settings.limit_windows:
                progress.ended = "finished"
            elif settings.early_stop and progress.epochs_without_better >= settings.early_stop:
                progress.ended = "early-stopped"
        yield self._end(progress.ended or "finished", self._why_ended())

    def _why_ended(self) -> str:
        if self._progress.ended == "early-stopped":
            return f"no better validation result for {self._progress.epochs_without_better} epochs"
        if self._progress.ended:
            return f"limit of {self.settings.limit_windows} windows reached"
        return f"all {self.settings.epochs} epochs done" if self.settings.epochs > 1 else "1 epoch done"

    def _windows(self) -> Iterator[Event]:
        """The windows of the epoch that are left."""
        settings, progress, learner, feed = self.settings, self._progress, self._learner, self._feed
        batches = feed.training(progress.epoch, progress.micro)
        last_memory = -inf
        while progress.micro * settings.micro_batch < len(self.data.train):
            if feed.interrupted:
                batches = feed.training(progress.epoch, progress.micro)
            began, waited = time.monotonic(), feed.waited
            left = len(self.data.train) - progress.micro * settings.micro_batch
            samples = min(settings.micro_batch * settings.accumulate, left)
            used = 0
            while used * settings.micro_batch < samples:
                batch = next(batches)
                counter = (settings.seed, progress.epoch, progress.micro + used)
                learner.accumulate(batch.inputs, batch.targets, samples, self.forecast.plan, counter)
                used += 1
                if self._stop.is_set():
                    learner.abandon()
                    return
            lr = learning_rate(settings, progress.step, self.windows_per_epoch)
            at_floor = learner.scale.scale <= FLOOR
            update = learner.update(lr, batch.inputs)
            seconds, waited = time.monotonic() - began, feed.waited - waited
            progress.enter_window(used, seconds, waited)
            if update.finite:
                progress.enter_update(update.totals, samples)
            yield from self._report(update, samples, seconds, waited, lr)
            if at_floor and learner.scale.skips >= MAX_SKIPS:
                raise RunError(_hopeless(update, learner.scale.skips))
            if progress.step <= 2 or time.monotonic() - last_memory > MEMORY_INTERVAL:
                last_memory = time.monotonic()
                yield self._memory_event()
            if settings.limit_windows and progress.step >= settings.limit_windows:
                return

    def _report(self, update: Update, samples: int, seconds: float, waited: float, lr: float) -> Iterator[Event]:
        scale, step = self._learner.scale, self._progress.step
        if not update.finite:
            action = "update skipped, gradients zeroed"
            yield self._event("nonfinite", where=update.where, layer=update.layer, action=action, step=step)
        if update.scale_reason:
            yield self._event("scale", **{"from": update.scale_before, "to": scale.scale, "why": update.scale_reason})
        yield self._event(
            "step", epoch=self._progress.epoch, step=step, loss=float(update.totals[0]) / samples, lr=lr,
            grad_norm=update.grad_norm, samples_per_s=samples / max(seconds, 1e-9), data_wait=_share(waited, seconds),
            **({"scale": scale.scale} if scale.dynamic else {}),
        )  # fmt: skip

    def _finish_epoch(self) -> Iterator[Event]:
        """Validation, the best so far, and the next epoch's start."""
        progress = self._progress
        found = self._metrics("train", progress.totals, progress.samples)
        values: dict[str, Any] = {"epoch": progress.epoch, "step": progress.step, **found}
        if len(self.data.validation):
            values |= self.evaluate("validation")
        seconds, rate = progress.seconds, progress.samples / max(progress.seconds, 1e-9)
        speed = {"seconds": seconds, "data_wait": _share(progress.waited, seconds), "samples_per_s": rate}
        if self.forecast.recomputed_work and not self.device.is_cuda:
            speed["recompute"] = _share(self._learner.model.recompute_seconds, seconds)
            self._learner.model.recompute_seconds = 0.0
        better = progress.enter_epoch(values)
        yield self._event("epoch", **values, **speed, best=better)
        yield self._memory_event()

    def evaluate(self, part: str) -> dict[str, float]:
        """Loss and metrics of "train", "validation" or "test" under the current weights, named train_*, val_*,
        test_*.
        """
        totals, samples = np.zeros(TOTALS), 0
        for batch in self._feed.in_order(part):
            totals += self._learner.evaluate(batch.inputs, batch.targets)
            samples += batch.count
        return self._metrics("val" if part == "validation" else part, totals, samples)

    def outputs(self, inputs: np.ndarray) -> np.ndarray:
        """The network's outputs for raw inputs as in a part, (N, outputs)."""
        results = [self._learner.outputs(batch.inputs) for batch in self._feed.of(inputs)]
        return np.concatenate([np.zeros((0, self.data.outputs), np.float32), *results])

    def state(self) -> State:
        """Weights, statistics, optimizer, loss scale, position and best result; arrays of the CPU are views, not
        copies.
        """
        arrays, values = self._learner.state()
        data = {"classes": list(self.data.classes), "preprocessing": asdict(self.data.preprocessing)}
        return State(arrays, {**values, **self._progress.state(), **data})

    def load_state(self, state: State) -> None:
        """Continues exactly from `state`. Raises InputError where it belongs to another network."""
        try:
            self._learner.load_state(state.arrays, state.values)
            self._progress.load_state(state.values)
        except KeyError as missing:
            raise InputError(f"the checkpoint lacks {missing}: another version of this program wrote it") from None

    def load_weights(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The weights and statistics of a checkpoint, nothing else of it."""
        self._learner.load_weights(arrays)

    def _metrics(self, prefix: str, totals: np.ndarray, samples: int) -> dict[str, float]:
        values = metrics(self.data.task, totals, samples, self.data.preprocessing.target_std)
        return {f"{prefix}_{name}": value for name, value in values.items()}

    def _too_much(self, budget: int, what: str = "") -> BudgetExceeded:
        """The refusal of what the forecast says."""
        peak = dict(self.forecast.peak)
        return BudgetExceeded(peak.pop("total"), budget, peak, self._advise(self, budget), what)

    def _compile(self) -> Iterator[Event]:
        """Has kernels compiled that do not lie on disk; where that fails, all is built again on the reference."""
        with self._compilation(self.settings.mode) as compilation:
            for message in compilation.progress(self._stop):
                yield self._event("warning", message=message)
            failure = compilation.failure()
        if failure:
            state = self.state()
            self._feed.close()
            self.settings = replace(self.settings, kernels="reference")
            self._build()
            self.load_state(state)
            yield self._event("warning", message=_slower(failure))

    def _description(self) -> dict[str, Any]:
        settings, data = self.settings, self.data
        return {
            "parameters": self._learner.model.parameter_count, "device": self.device.name,
            "device_why": self.device.why, "operations": self.forecast.kernels, "precision": settings.mode,
            "train_samples": len(data.train), "validation_samples": len(data.validation),
            "test_samples": len(data.test or ()), "epochs": settings.epochs,
            "windows_per_epoch": self.windows_per_epoch, "micro_batch": settings.micro_batch,
            "accumulate": settings.accumulate, "recompute": self.forecast.recomputed_work / self.forecast.work,
            "budget": settings.budget or self.device.total,
        }  # fmt: skip

    def _memory_event(self) -> Event:
        process, budget = psutil.Process().memory_info().rss, self.settings.budget or self.device.total
        peak = dict(self.memory.peak)
        return self._event("memory", bytes=self.memory.fullest(), peak=peak, process=process, budget=budget)

    def _end(self, reason: str, message: str) -> Event:
        return self._event("end", reason=reason, best=dict(self._progress.best), message=message)

    def _event(self, kind: str, **values: Any) -> Event:
        return Event(kind, time.monotonic() - self._began, values)


def _slower(reason: str) -> str:
    return f"the operations cannot be compiled ({reason}): the reference runs instead, several times slower"


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / max(whole, 1e-9)))


def _check(data: DataSet, settings: Settings) -> None:
    if not len(data.train):
        raise InputError(f"the data set {data.name} has no samples to train on")
    if (settings.loss == "cross-entropy") != (data.task == "classification"):
        raise InputError(f"train.loss = {settings.loss!r} does not go with the task {data.task!r}")


def _hopeless(update: Update, skips: int) -> str:
    return (
        f"{skips} updates in a row were not finite and had to be skipped: values first stop being finite in the "
        f"{update.where} of layer {update.layer!r}. Lower train.lr, look at the layer's input, "
        "or add a normalisation layer before it"
    )
