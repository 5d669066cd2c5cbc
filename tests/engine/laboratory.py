"""What the engine's tests share: a layer or a learner over a real ledger, small data sets, and the gradient check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from engine.data import DataSet, Part, Preprocessing
from engine.layers import Builder, FlatParameters, FlatStatistics, Layer, Pass
from engine.learner import Learner
from engine.memory import Memory
from engine.ops import Operations, kernels_named
from engine.recompute import Plan, keep_all
from engine.settings import Settings

STEP = 1e-6
TOLERANCE = 1e-5

FLOAT64 = np.dtype(np.float64)


def memory(**options: Any) -> Memory:
    """A ledger over NumPy arrays filled with garbage, so that reading what was never written shows."""

    def allocate(size: int) -> np.ndarray:
        storage = np.empty(size, np.uint8)
        storage[...] = 0xFF  # NaN in every float type
        return storage

    return Memory(allocate, capacity=1 << 22, **options)


class Lab:
    """One layer, built on samples of `input_shape`, with its forward and backward on arrays of the ledger."""

    def __init__(
        self,
        layer: Layer,
        input_shape: tuple[int, ...],
        dtype: Any = np.float64,
        *,
        input_dtype: Any = None,
        parameter_dtype: Any = None,
        input_gradient: bool = True,
    ) -> None:
        self.memory = memory()
        self.operations = Operations(self.memory)
        self.layer = layer
        parameter_dtype = np.dtype(parameter_dtype or (np.float64 if dtype == np.float64 else np.float32))
        self.builder = Builder(self.memory, self.operations, 3, np.dtype(dtype), parameter_dtype, outputs=3)
        layer.name, layer.index, layer.input_shape = "layer", 0, input_shape
        layer.dtype, layer.input_dtype = np.dtype(dtype), np.dtype(input_dtype or dtype)
        layer.needs_input_gradient = input_gradient
        layer.output_shape = layer.build(self.builder, input_shape)
        for name, array in layer.buffers.items():
            if name.endswith(".weight"):  # computed from data, which there is none of here
                array[...] = np.random.default_rng(9).normal(size=array.shape)
        FlatParameters(self.builder.parameters, parameter_dtype, self.operations)
        FlatStatistics(self.builder.statistics, parameter_dtype, self.operations)
        self.parameters = {parameter.name: parameter for parameter in self.builder.parameters}
        self.base = dict(self.memory.bytes)

    def run(self, **options: Any) -> Pass:
        return Pass(self.operations, **{"training": True, "seed": 5, "place": np.array([1, 2]), **options})

    def take(self, values: np.ndarray, category: str = "activations", dtype: Any = None) -> np.ndarray:
        array = self.memory.take(values.shape, dtype or self.layer.input_dtype, category)
        array[...] = values
        return array

    def output(self, x: np.ndarray, **options: Any) -> np.ndarray:
        """The output for x, nothing kept."""
        held = self.take(x)
        y = self.layer.forward(held, self.run(**options), None)
        values = y.copy()
        self.memory.give(y)
        self.memory.give(held)
        return values

    def gradients(self, x: np.ndarray, upstream: np.ndarray) -> tuple[np.ndarray | None, dict[str, np.ndarray]]:
        """d sum(upstream * y) / d x and by each parameter, from one forward and one backward pass."""
        held, saved = self.take(x), {}
        y = self.layer.forward(held, self.run(), saved)
        self.memory.give(y)
        self.check_saved(len(x), saved)
        if "input" in self.layer.saves(len(x)):
            saved["input"] = held
        else:
            self.memory.give(held)
        for parameter in self.parameters.values():
            parameter.gradient[...] = 0
        dx = self.layer.backward(self.take(upstream, "gradients", self.layer.dtype), self.run(), saved)
        for array in saved.values():
            self.memory.give(array)
        values = None
        if dx is not None:
            assert dx.dtype == self.layer.input_dtype
            values = dx.copy()
            self.memory.give(dx)
        assert self.memory.bytes == self.base
        return values, {name: parameter.gradient.copy() for name, parameter in self.parameters.items()}

    def check_saved(self, batch: int, saved: dict[str, np.ndarray]) -> None:
        """What is kept is what is declared, array by array."""
        declared = {name: (spec.shape, spec.dtype) for name, spec in self.layer.saves(batch).items() if name != "input"}
        assert {name: (array.shape, array.dtype) for name, array in saved.items()} == declared


def check_gradient(function: Callable[[], float], array: np.ndarray, gradient: np.ndarray, most: int = 60) -> None:
    """Central differences of `function` by the elements of `array`, which it reads, against `gradient`.

    Where the second difference does not vanish the function has a kink within the step, and the element says nothing.
    """
    flat, expected = array.reshape(-1), gradient.reshape(-1)
    chosen = np.random.default_rng(8).permutation(flat.size)[:most]
    scale = 1.0 + np.abs(gradient).max()
    middle, checked = function(), 0
    for place in chosen:
        value = flat[place]
        flat[place] = value + STEP
        above = function()
        flat[place] = value - STEP
        below = function()
        flat[place] = value
        if abs(above - 2 * middle + below) / STEP > TOLERANCE * scale:
            continue
        checked += 1
        assert abs((above - below) / (2 * STEP) - expected[place]) < TOLERANCE * scale, (place, expected[place])
    assert checked >= 0.8 * len(chosen)


def learner(
    tables: Sequence[dict[str, Any]],
    input_shape: tuple[int, ...],
    outputs: int = 3,
    *,
    dtype: Any = None,
    kernels: str = "reference",
    **settings: Any,
) -> Learner:
    """A learner over a real ledger; `dtype` float64 makes all of it double precision."""
    chosen = Settings(**{"micro_batch": 8, **settings}, **({"parameter_dtype": np.dtype(dtype)} if dtype else {}))
    operations = Operations(memory(budget=chosen.budget), kernels_named(kernels))
    return Learner(tables, input_shape, outputs, chosen, operations)


def window(
    trained: Learner, micro_batches: Sequence[tuple[np.ndarray, np.ndarray]], plan: Plan | None = None
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The totals and the gradients of one window, not yet applied."""
    plan = plan or keep_all(len(trained.model.blocks))
    samples = sum(len(inputs) for inputs, _ in micro_batches)
    for number, (inputs, targets) in enumerate(micro_batches):
        rows = slice(len(inputs))
        held, wanted = trained.inputs[0][rows], trained.targets[0][rows]
        held[...], wanted[...] = inputs, targets
        trained.accumulate(held, wanted, samples, plan, (7, 1, number))
    gradients = {parameter.name: parameter.gradient.copy() for parameter in trained.model.parameters}
    return trained.totals.copy(), gradients


def images(samples: int, shape: tuple[int, ...] = (12, 12, 2), classes: int = 3, seed: int = 0) -> DataSet:
    """Noise with one brighter quarter for each class; 12 validation images, a test part of 6."""
    random = np.random.default_rng(seed)

    def part(count: int) -> Part:
        targets = random.integers(0, classes, count).astype(np.int32)
        pixels = random.integers(0, 120, (count, *shape))
        half = shape[0] // 2
        for image, target in zip(pixels, targets, strict=True):
            image[half * (target % 2) :, : half * (1 + target // 2)] += 120
        return Part(pixels.astype(np.uint8), targets)

    channels = shape[2]
    preprocessing = Preprocessing(
        "classification", shape, _names(classes), channel_mean=(90.0,) * channels, channel_std=(60.0,) * channels
    )
    return DataSet(
        "noise", "classification", part(samples), part(12), part(6), shape, _names(classes), preprocessing, ""
    )


def table(
    samples: int, features: int = 5, task: str = "classification", validation: int = 12, seed: int = 0
) -> DataSet:
    """Rows whose target is a fixed function of their features."""
    random = np.random.default_rng(seed)
    direction = random.normal(size=features)

    def part(count: int) -> Part:
        rows = random.normal(size=(count, features)).astype(np.float32)
        value = rows @ direction
        if task == "classification":
            return Part(rows, np.digitize(value, (-1.0, 1.0)).astype(np.int32))
        return Part(rows, value[:, None].astype(np.float32))

    classes = _names(3) if task == "classification" else ()
    preprocessing = Preprocessing(task, (features,), classes, target_mean=100.0, target_std=25.0)
    parts = [part(count) for count in (samples, validation, 6)]
    return DataSet("rows", task, *parts, (features,), classes, preprocessing, "")


def _names(classes: int) -> tuple[str, ...]:
    return tuple(f"class {number}" for number in range(classes))


def of_kind(events: Iterator[Any] | Sequence[Any], kind: str) -> list[Any]:
    """The values of all events of a kind."""
    return [event.values for event in events if event.kind == kind]
