"""Training as an iterator of events.

    for event in trainer.run(): ...

Not asking for the next event is a pause; `stop` is met within one micro-batch. Between two "step" events lies one window:
`accumulate` micro-batches and one update. Everything an exact resume needs is in `state` at every "step", "epoch" and "end".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, inf, isfinite
from typing import Any

import numpy as np
import psutil

from engine.data import DataSet, Loader, Part, Slot
from engine.device import choose
from engine.errors import InputError, RunError
from engine.events import Event
from engine.fit import advice, fit
from engine.forecast import forecast
from engine.layers import Pass
from engine.learner import Learner, Update
from engine.losses import TOTALS, metrics
from engine.memory import Array, BudgetExceeded, Memory
from engine.ops import Operations
from engine.precision import FLOOR
from engine.schedule import learning_rate
from engine.settings import NOISY_BATCH, Settings
from engine.state import State

__all__ = ["Settings", "Trainer"]

MAX_SKIPS = 5  # windows in a row that may be skipped at the lowest loss scale before training stops
MEMORY_INTERVAL = 1.0  # seconds between memory events within an epoch


class Trainer:
    """One training run of a network on a data set.

    `layers` are layer tables as in a spec. Raises InputError (InvalidLayer for a layer) where the parts do not go together.
    """

    def __init__(
        self,
        layers: Sequence[dict[str, Any]],
        data: DataSet,
        settings: Settings,
        device: str = "auto",
        augment: Sequence[str] = (),
    ) -> None:
        _check(data, settings)
        self.data, self.settings, self._augment = data, settings, tuple(augment)
        self.device = choose(device)
        data_bytes = 0 if self.device.is_cuda else data.nbytes
        self.forecast = forecast(
            layers,
            data.input_shape,
            data.outputs,
            settings,
            alignment=self.device.alignment,
            data_bytes=data_bytes,
            samples=len(data.train),
        )
        self._layers = layers
        if settings.budget and self.forecast.peak["total"] > settings.budget:
            peak = {name: size for name, size in self.forecast.peak.items() if name != "total"}
            raise BudgetExceeded(self.forecast.peak["total"], settings.budget, peak, self._advice())
        self.memory = Memory(
            self.device.allocate,
            capacity=self.forecast.reserved - data_bytes,
            budget=settings.budget,
            alignment=self.device.alignment,
        )
        if data_bytes:
            self.memory.adopt(data_bytes, "data")
        self._learner = Learner(layers, data.input_shape, data.outputs, settings, Operations(self.memory))
        self._slots = self._host_slots()
        self._loaders: dict[str, Loader] = {}
        self._stop = threading.Event()
        self._began = time.monotonic()
        self.windows_per_epoch = ceil(len(data.train) / (settings.micro_batch * settings.accumulate))
        self.epoch, self.micro, self.step = 1, 0, 0
        self._totals, self._samples, self._epoch_seconds = np.zeros(TOTALS), 0, 0.0
        self._best: dict[str, Any] = {}
        self._epochs_without_better = 0
        self._ended = ""

    @property
    def parameter_count(self) -> int:
        return self._learner.model.parameter_count

    def stop(self) -> None:
        """Asks for the end, from any thread; met within one micro-batch."""
        self._stop.set()

    def run(self) -> Iterator[Event]:
        """Trains from where the state stands. Ends with one "end" event; raises only for faults of this program."""
        self._began = time.monotonic()
        yield self._event("start", **self._description())
        for message in self._warnings():
            yield self._event("warning", message=message)
        try:
            yield from self._epochs()
        except BudgetExceeded as error:
            self._ended = "failed"
            yield self._end("failed", f"{error}. {self._advice()}")
        except RunError as error:
            self._ended = "failed"
            yield self._end("failed", str(error))
        finally:
            self._close_loaders()

    def _epochs(self) -> Iterator[Event]:
        settings = self.settings
        while self.epoch <= settings.epochs and not self._ended:
            yield from self._windows()
            if self._stop.is_set():
                yield self._end("stopped", "stopped on request")
                return
            yield from self._finish_epoch()
            if settings.limit_windows and self.step >= settings.limit_windows:
                self._ended = "finished"
                yield self._end("finished", f"limit of {settings.limit_windows} windows reached")
                return
            if settings.early_stop and self._epochs_without_better >= settings.early_stop:
                self._ended = "early-stopped"
                yield self._end(
                    "early-stopped", f"no better validation result for {self._epochs_without_better} epochs"
                )
                return
        if not self._ended:
            self._ended = "finished"
        yield self._end(self._ended, "")

    def _windows(self) -> Iterator[Event]:
        """The windows of the epoch that are left."""
        settings = self.settings
        loader = self._loader("train")
        batches = loader.batches(self.epoch, start=self.micro)
        rows = settings.micro_batch * settings.accumulate
        last_memory = time.monotonic()
        while self.micro * settings.micro_batch < len(self.data.train):
            began, waited = time.monotonic(), loader.waited
            samples = min(rows, len(self.data.train) - self.micro * settings.micro_batch)
            seen, used = 0, 0
            while seen < samples:
                batch = next(batches)
                inputs, targets = self._on_device(batch.inputs, 0), self._on_device(batch.targets, 1)
                counter = (settings.seed, self.epoch, self.micro + used)
                self._learner.accumulate(inputs, targets, samples, self.forecast.plan, counter)
                seen, used = seen + batch.count, used + 1
                if self._stop.is_set():
                    self._learner.abandon()
                    return
            lr = learning_rate(settings, self.step, self.windows_per_epoch)
            at_floor = self._learner.scale.scale <= FLOOR
            update = self._learner.update(lr, inputs)
            seconds = time.monotonic() - began
            self.micro += used
            self._enter(update, samples, seconds)
            yield from self._report(update, samples, seconds, loader.waited - waited, lr)
            if at_floor and self._learner.scale.skips >= MAX_SKIPS:
                raise RunError(_hopeless(update, self._learner.scale.skips))
            if self.step <= 2 or time.monotonic() - last_memory > MEMORY_INTERVAL:
                last_memory = time.monotonic()
                yield self._memory_event()
            if settings.limit_windows and self.step >= settings.limit_windows:
                return

    def _enter(self, update: Update, samples: int, seconds: float) -> None:
        self._epoch_seconds += seconds
        if update.finite:
            self.step += 1
            self._totals += update.totals
            self._samples += samples

    def _report(self, update: Update, samples: int, seconds: float, waited: float, lr: float) -> Iterator[Event]:
        values: dict[str, Any] = {
            "epoch": self.epoch,
            "step": self.step,
            "loss": float(update.totals[0]) / samples,
            "lr": lr,
            "grad_norm": update.grad_norm,
            "samples_per_s": samples / max(seconds, 1e-9),
            "data_wait": min(1.0, waited / max(seconds, 1e-9)),
        }
        scale = self._learner.scale
        if scale.dynamic:
            values["scale"] = scale.scale
        if not update.finite:
            yield self._event(
                "nonfinite",
                where=update.where,
                layer=update.layer,
                action="update skipped, gradients zeroed",
                step=self.step,
            )
        if update.scale_reason:
            yield self._event("scale", **{"from": update.scale_before, "to": scale.scale, "why": update.scale_reason})
        yield self._event("step", **values)

    def _finish_epoch(self) -> Iterator[Event]:
        """Validation, the best so far, and the next epoch's start."""
        values: dict[str, Any] = {"epoch": self.epoch, "step": self.step}
        values |= self._named("train", metrics(self.data.task, self._totals, self._samples, self._target_std))
        samples_per_s = self._samples / self._epoch_seconds if self._epoch_seconds else 0.0
        if len(self.data.validation):
            values |= self.evaluate("validation")
        better = self._is_better(values)
        if better:
            names = ("epoch", "step", *(name for name in values if name.startswith(("train_", "val_"))))
            self._best = {name: values[name] for name in names}
        self._epochs_without_better = 0 if better else self._epochs_without_better + 1
        waited = self._loaders["train"].waited
        seconds = self._epoch_seconds
        self.epoch, self.micro = self.epoch + 1, 0
        self._totals, self._samples, self._epoch_seconds = np.zeros(TOTALS), 0, 0.0
        yield self._event(
            "epoch",
            **values,
            seconds=seconds,
            data_wait=min(1.0, max(0.0, waited - getattr(self, "_waited_before", 0.0)) / max(seconds, 1e-9)),
            samples_per_s=samples_per_s,
            best=better,
        )
        self._waited_before = waited
        yield self._memory_event()

    def _is_better(self, values: Mapping[str, Any]) -> bool:
        """Higher validation accuracy, then lower validation loss; lower loss for regression. The train part stands in for an empty one."""

        def rank(result: Mapping[str, Any]) -> tuple[float, float]:
            prefix = "val" if len(self.data.validation) else "train"
            loss = result.get(f"{prefix}_loss", inf)
            accuracy = result.get(f"{prefix}_accuracy", 0.0)
            return (accuracy, -loss) if isfinite(loss) else (-inf, -inf)

        if rank(values) == (-inf, -inf):
            return False
        return not self._best or rank(values) > rank(self._best)

    def evaluate(self, part: str) -> dict[str, float]:
        """Loss and metrics of a part ("train", "validation", "test") under the current weights, named train_*, val_*, test_*."""
        totals, samples = np.zeros(TOTALS), 0
        for batch in self._loader(part, shuffle=False).batches(0):
            totals += self._learner.evaluate(self._on_device(batch.inputs, 0), self._on_device(batch.targets, 1))
            samples += batch.count
        prefix = {"validation": "val"}.get(part, part)
        return self._named(prefix, metrics(self.data.task, totals, samples, self._target_std))

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Probabilities (N, classes), or values in the target's units (N, 1), for raw inputs as in a part."""
        targets = np.zeros((len(inputs), *self._slots[0].targets.shape[1:]), self._slots[0].targets.dtype)
        results: list[np.ndarray] = []
        self._close_loaders()
        loader = Loader(
            Part(inputs, targets), self.data.preprocessing, self._slots, seed=self.settings.seed, shuffle=False
        )
        operations = self._learner.operations
        for batch in loader.batches(0):
            outputs = self._learner.model.predict(self._on_device(batch.inputs, 0), Pass(operations, training=False))
            results.append(operations.read(outputs).astype(np.float32))
            self.memory.give(outputs)
        values = np.concatenate(results) if results else np.zeros((0, self.data.outputs), np.float32)
        if self.data.task == "regression":
            return self.data.preprocessing.in_units(values)
        values = np.exp(values - values.max(axis=1, keepdims=True))
        return values / values.sum(axis=1, keepdims=True)

    def state(self) -> State:
        """Weights, statistics, optimizer, loss scale, position and best result; arrays of the CPU are views, not copies."""
        learner = self._learner
        arrays = {f"model.{name}": self._to_host(array) for name, array in learner.model.arrays.items()}
        arrays |= {f"optimizer.{name}": self._to_host(array) for name, array in learner.optimizer.arrays.items()}
        values = {
            "epoch": self.epoch,
            "micro": self.micro,
            "step": self.step,
            "updates": learner.optimizer.count,
            "totals": [float(total) for total in self._totals],
            "samples": self._samples,
            "epoch_seconds": self._epoch_seconds,
            "best": self._best,
            "epochs_without_better": self._epochs_without_better,
            "scale": learner.scale.state(),
            "ended": self._ended,
            "classes": list(self.data.classes),
            "preprocessing": self.data.preprocessing.to_dict(),
        }
        return State(arrays, values)

    def load_state(self, state: State) -> None:
        """Continues exactly from `state`. Raises InputError where it belongs to another network."""
        learner, values = self._learner, state.values
        self._fill(learner.model.arrays, state.arrays, "model.")
        self._fill(learner.optimizer.arrays, state.arrays, "optimizer.")
        learner.model.commit(False)
        learner.optimizer.count = int(values["updates"])
        learner.scale.load_state(values["scale"])
        self.epoch, self.micro, self.step = int(values["epoch"]), int(values["micro"]), int(values["step"])
        self._totals = np.array(values["totals"], np.float64)
        self._samples, self._epoch_seconds = int(values["samples"]), float(values["epoch_seconds"])
        self._best = dict(values["best"])
        self._epochs_without_better = int(values["epochs_without_better"])
        self._ended = str(values["ended"])

    def load_weights(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The weights and statistics of a checkpoint, nothing else of it."""
        self._fill(self._learner.model.arrays, arrays, "model.")
        self._learner.model.commit(False)

    def _fill(self, targets: Mapping[str, Array], sources: Mapping[str, np.ndarray], prefix: str) -> None:
        for name, target in targets.items():
            source = sources.get(prefix + name)
            if source is None or source.shape != target.shape:
                got = "nothing" if source is None else str(source.shape)
                raise InputError(f"the checkpoint is of another network: {name} needs {target.shape}, found {got}")
            target[...] = self._from_host(source)

    def _loader(self, part: str, shuffle: bool = True) -> Loader:
        """The loader of a part; all share the slots, so the others are closed first."""
        self._close_loaders()
        name = part if shuffle else f"{part} in order"
        if name not in self._loaders:
            samples: Part | None = getattr(self.data, part)
            if samples is None:
                raise InputError(f"the data set {self.data.name} has no {part} part")
            self._loaders[name] = Loader(
                samples,
                self.data.preprocessing,
                self._slots,
                seed=self.settings.seed,
                augment=self._augment if shuffle else (),
                shuffle=shuffle,
            )
        return self._loaders[name]

    def _close_loaders(self) -> None:
        for loader in self._loaders.values():
            loader.close()

    def _host_slots(self) -> list[Slot]:
        """Where batches are prepared: the ledger's own data arrays on the CPU, buffers on the host for a card."""
        pairs = zip(self._learner.inputs, self._learner.targets, strict=True)
        if not self.device.is_cuda:
            return [Slot(inputs, targets) for inputs, targets in pairs]
        return [
            Slot(np.empty(inputs.shape, inputs.dtype), np.empty(targets.shape, targets.dtype))
            for inputs, targets in pairs
        ]

    def _on_device(self, host: np.ndarray, kind: int) -> Array:
        """A prepared array where the operations can read it."""
        if not self.device.is_cuda:
            return host
        target = (self._learner.inputs, self._learner.targets)[kind][0][: len(host)]
        target.set(host)
        return target

    def _to_host(self, array: Array) -> np.ndarray:
        return array.get() if self.device.is_cuda else array

    def _from_host(self, array: np.ndarray) -> Array:
        if not self.device.is_cuda:
            return array
        import cupy

        return cupy.asarray(array)

    @property
    def _target_std(self) -> float:
        return self.data.preprocessing.target_std

    @staticmethod
    def _named(prefix: str, values: Mapping[str, float]) -> dict[str, float]:
        return {f"{prefix}_{name}": value for name, value in values.items()}

    def _advice(self) -> str:
        """Settings that would keep to the budget."""
        found = fit(
            self._layers,
            self.data.input_shape,
            self.data.outputs,
            self.settings,
            self.settings.budget,
            alignment=self.device.alignment,
            data_bytes=0 if self.device.is_cuda else self.data.nbytes,
            samples=len(self.data.train),
        )
        return advice(found)

    def _warnings(self) -> Iterator[str]:
        settings = self.settings
        if self._learner.model.batch_norm and settings.accumulate > 1 and settings.micro_batch < NOISY_BATCH:
            yield (
                f"batch norm sees {settings.micro_batch} samples at a time, although an update sees "
                f"{settings.micro_batch * settings.accumulate}: below {NOISY_BATCH} its statistics are noisy. "
                "Use a larger train.micro_batch with less train.accumulate, or layer_norm"
            )

    def _description(self) -> dict[str, Any]:
        settings, data = self.settings, self.data
        return {
            "parameters": self.parameter_count,
            "device": self.device.name,
            "precision": settings.mode,
            "train_samples": len(data.train),
            "validation_samples": len(data.validation),
            "test_samples": len(data.test) if data.test is not None else 0,
            "epochs": settings.epochs,
            "windows_per_epoch": self.windows_per_epoch,
            "micro_batch": settings.micro_batch,
            "accumulate": settings.accumulate,
            "budget": settings.budget or self.device.total,
        }

    def _memory_event(self) -> Event:
        return self._event(
            "memory",
            bytes=dict(self.memory.bytes),
            peak=dict(self.memory.peak),
            process=psutil.Process().memory_info().rss,
            budget=self.settings.budget or self.device.total,
        )

    def _end(self, reason: str, message: str) -> Event:
        return self._event("end", reason=reason, best=dict(self._best), message=message)

    def _event(self, kind: str, **values: Any) -> Event:
        return Event(kind, time.monotonic() - self._began, values)


def _check(data: DataSet, settings: Settings) -> None:
    if not len(data.train):
        raise InputError(f"the data set {data.name} has no samples to train on")
    if (settings.loss == "cross-entropy") != (data.task == "classification"):
        raise InputError(f"train.loss = {settings.loss!r} does not go with the task {data.task!r}")


def _hopeless(update: Update, skips: int) -> str:
    return (
        f"{skips} updates in a row were not finite and had to be skipped: values first stop being finite in the "
        f"{update.where} of layer {update.layer!r}. Lower train.lr, look at the layer's input, or add a normalisation layer before it"
    )
