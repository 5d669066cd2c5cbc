"""Everything of a run that lies on the device, and one accumulation window of work on it.

The trainer drives it with data; a forecast drives the same code with shapes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from math import isfinite, nan, sqrt
from typing import Any

import numpy as np

from engine.average import WeightAverage
from engine.errors import InputError
from engine.layers import Builder, Pass, Tables
from engine.layers.activation import Dropout
from engine.losses import TOTALS, Loss
from engine.memory import Array, ArraySpec, Shape
from engine.model import Model, chain
from engine.ops import Operations, from_host, to_host
from engine.optim import Optimizer
from engine.precision import LossScale
from engine.recompute import Plan
from engine.settings import Settings
from engine.state import trained

# Values that are not finite are looked for once a window, by the gradient's norm, so NumPy need not warn of each.
quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")
DATA_SLOTS = 2  # one micro-batch is prepared while the other is worked on


def on_device(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the learner whose work the ledger guards."""

    @wraps(method)
    @quiet
    def guarded(self: "Learner", *arguments: Any) -> Any:
        with self.memory.guard():
            return method(self, *arguments)

    return guarded


@dataclass(frozen=True)
class Update:
    """The outcome of a window: sums over its samples, the gradient's norm after unscaling, and what happened to the
    scale.
    """

    totals: np.ndarray
    grad_norm: float
    finite: bool
    scale_before: float
    scale_reason: str
    where: str = ""
    layer: str = ""


class Learner:
    """Model, optimizer, loss, loss scale and the data slots over one ledger."""

    def __init__(
        self, tables: Tables, input_shape: Shape, outputs: int, settings: Settings, operations: Operations,
        replay: Callable[..., None] = lambda work, *key: work(),
    ) -> None:  # fmt: skip
        """`replay(work, inputs, *others)` does work that is the same each time for the same arguments."""
        self._replay = replay
        self.settings, self.operations, self.memory = settings, operations, operations.memory
        dtypes = (settings.activation_dtype, settings.parameter_dtype)
        builder = Builder(self.memory, operations, settings.seed, *dtypes, outputs)
        self.model = Model(tables, input_shape, builder, settings.keep_fp32)
        flat = self.model.flat
        self.optimizer = Optimizer(settings.optimizer, flat, settings.weight_decay, operations)
        self.average = WeightAverage(settings.average_decay, flat, operations)
        self.loss = Loss(settings.loss, settings.label_smoothing)
        mixed = settings.mode == "mixed"
        self.scale = LossScale(settings.loss_scale if mixed else 1.0, settings.growth_interval, mixed)
        self.inputs = [
            self.memory.take((settings.micro_batch, *input_shape), settings.activation_dtype, "data")
            for _ in range(DATA_SLOTS)
        ]
        self.targets = [self.memory.take_like(target_spec(settings, outputs), "data") for _ in range(DATA_SLOTS)]
        # the squared norm of the gradients stands behind the totals, so that a window is read once
        self._sums = self.memory.take((TOTALS + 1,), np.float64, "workspace")
        self.totals = self._sums[:TOTALS]
        operations.fill(self._sums, 0.0)
        self._draws = any(isinstance(layer, Dropout) for layer in self.model.layers)
        self._place = self.memory.take((2,), np.int64, "workspace")

    @on_device
    def accumulate(
        self, inputs: Array, targets: Array, window_samples: int, plan: Plan, counter: tuple[int, int, int]
    ) -> None:
        """Forward and backward of one micro-batch of a window of `window_samples`; adds to gradients and totals."""
        factor = self.scale.scale / window_samples

        def loss(outputs: Array) -> Array:
            return self.loss.forward(self.operations, outputs, targets, self.totals, factor)

        seed, *place = counter
        for number, value in enumerate(place if self._draws else ()):
            self.operations.fill(self._place[number : number + 1], value)
        run = Pass(self.operations, training=True, seed=seed, place=self._place)
        self._replay(lambda: self.model.train(inputs, loss, plan, run), inputs, factor)

    @on_device
    def update(self, lr: float, last_inputs: Array) -> Update:
        """Ends the window: unscale, clip, move the weights; or skip all of it when anything is not finite."""
        self.operations.square_sum(self.model.flat.gradient, self._sums[TOTALS:])
        *totals, square = self._read_sums()
        norm = sqrt(square) / self.scale.scale if square >= 0 else nan
        finite = isfinite(norm) and isfinite(totals[0])
        where, layer = ("", "") if finite else self._locate(last_inputs)
        if finite:
            clip = self.settings.clip_norm
            factor = (clip / norm if clip and norm > clip else 1.0) / self.scale.scale
            if factor != 1.0:
                self.operations.scale(self.model.flat.gradient, factor)
            self.optimizer.update(lr)
            self.average.update()
        before = self.scale.scale
        reason = self.scale.update(finite)
        self._end_window(finite)
        return Update(np.array(totals), norm if finite else nan, finite, before, reason, where, layer)

    @on_device
    def abandon(self) -> None:
        """Forgets the window so far, as if none of its micro-batches had been seen."""
        self._read_sums()
        self._end_window(False)

    @on_device
    def evaluate(self, inputs: Array, targets: Array) -> np.ndarray:
        """The loss and metric sums of a batch under the running statistics."""

        def work() -> None:
            outputs = self._predict(inputs)
            self.loss.forward(self.operations, outputs, targets, self.totals, None)
            self.memory.give(outputs)

        self._replay(work, inputs, "evaluation")
        return self._read_sums()[:TOTALS]

    @on_device
    def outputs(self, inputs: Array) -> np.ndarray:
        """The network's outputs on the host, float32."""
        outputs = self._predict(inputs)
        values = self.operations.read(outputs).astype(np.float32)
        self.memory.give(outputs)
        return values

    def _predict(self, inputs: Array) -> Array:
        with self.average.in_place():
            return self.model.predict(inputs, Pass(self.operations, training=False))

    @on_device
    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays (views on the CPU) and JSON-able values of everything that training moves."""
        arrays = {f"model.{name}": to_host(array) for name, array in self.model.arrays.items()}
        arrays |= {f"optimizer.{name}": to_host(array) for name, array in self.optimizer.arrays.items()}
        arrays |= {f"average.{name}": to_host(array) for name, array in self.average.arrays.items()}
        counts = {"updates": self.optimizer.count, "averaged": self.average.count}
        return arrays, {**counts, "scale": self.scale.state()}

    @on_device
    def load_state(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        """The inverse of `state`. Raises InputError where the arrays belong to another network."""
        _fill(self.model.arrays, arrays, "model.")
        self.model.statistics.commit(False)
        _fill(self.optimizer.arrays, arrays, "optimizer.")
        _fill(self.average.arrays, arrays, "average.")
        self.optimizer.count, self.average.count = int(values["updates"]), int(values["averaged"])
        self.scale.load_state(values["scale"])

    @on_device
    def load_weights(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Weights and running statistics alone, averaged weights where there are some."""
        _fill(self.model.arrays, trained(arrays), "")
        self.model.statistics.commit(False)
        self.average.restart()

    def _end_window(self, accepted: bool) -> None:
        self.model.statistics.commit(accepted)
        self.operations.fill(self.model.flat.gradient, 0.0)

    def _read_sums(self) -> np.ndarray:
        values = self.operations.read(self._sums)
        self.operations.fill(self._sums, 0.0)
        return values

    def _locate(self, inputs: Array) -> tuple[str, str]:
        """Where values first stop being finite: ("activation" | "loss" | "gradient", layer).

        The last micro-batch runs forward once more, layer by layer; if it is clean, the gradients are searched from
        the loss back.
        """
        run, layers = Pass(self.operations, training=True, place=self._place, again=True), self.model.layers
        broken = ""
        for layer, output in zip(layers, chain(layers, inputs, run), strict=True):
            if not self.operations.is_finite(output):
                broken = layer.name
                break
        self.memory.give(output)
        if broken:
            return "activation", broken
        for parameter in reversed(self.model.parameters):
            if not self.operations.is_finite(parameter.gradient):
                return "gradient", parameter.name.rpartition(".")[0]
        return "loss", self.model.layers[-1].name


def _fill(targets: Mapping[str, Array], sources: Mapping[str, np.ndarray], prefix: str) -> None:
    """Copies the sources under `prefix`. Raises InputError, before anything is copied, where they do not match."""
    found = {name.removeprefix(prefix): array for name, array in sources.items() if name.startswith(prefix)}
    for name in sorted(targets.keys() | found.keys()):
        needed, got = (arrays[name].shape if name in arrays else "nothing" for arrays in (targets, found))
        if needed != got:
            part = {"optimizer.": "optimizer", "average.": "average of weights"}.get(prefix, "network")
            raise InputError(f"the checkpoint is of another {part}: {name} should be {needed}, found {got}")
    for name, target in targets.items():
        from_host(found[name], target)


def target_spec(settings: Settings, outputs: int) -> ArraySpec:
    """Targets of a micro-batch: class numbers, or one value an output."""
    if settings.loss == "cross-entropy" and not settings.soft_targets:
        return ArraySpec((settings.micro_batch,), np.dtype(np.int32))
    return ArraySpec((settings.micro_batch, outputs), np.dtype(np.float32))


def shape_window(learner: Learner, plan: Plan, rows: int) -> None:
    """One window on shapes: two micro-batches stand for any number, since the second finds what every later one
    finds.
    """
    settings = learner.settings
    inputs, targets = learner.inputs[0][:rows], learner.targets[0][:rows]
    for _ in range(min(settings.accumulate, 2)):
        learner.accumulate(inputs, targets, rows * settings.accumulate, plan, (0, 0, 0))
    learner.update(settings.lr, inputs)
