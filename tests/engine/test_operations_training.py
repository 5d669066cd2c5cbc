"""Losses against loops, optimizers against their formulas."""

from functools import partial

import numpy as np
import oracles
import pytest
from laboratory import memory
from test_operations_products import STORAGE, compare, numbers

from engine.layers import FlatParameters
from engine.layers.parameters import Parameter
from engine.losses import TOTALS, Loss, metrics
from engine.ops import Operations
from engine.optim import SLOTS, Optimizer


@pytest.fixture
def operations() -> Operations:
    return Operations(memory())


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("classes", [1, 2, 5])
@pytest.mark.parametrize("soft", [False, True])
def test_cross_entropy(operations: Operations, dtype: str, smoothing: float, classes: int, soft: bool) -> None:
    logits = 3 * numbers(dtype, 7, classes)
    targets = np.random.default_rng(0).integers(0, classes, 7).astype(np.int32)
    if soft:
        targets = (np.random.default_rng(0).multinomial(256, np.ones(classes) / classes, 7) / 256).astype(np.float32)
    totals, grad = np.zeros(TOTALS), np.full(logits.shape, np.nan, dtype)
    operations.cross_entropy(logits, targets, grad, totals, smoothing=smoothing, factor=0.25)
    loss, right, expected = oracles.cross_entropy(logits.astype(np.float64), targets, smoothing)
    np.testing.assert_allclose(totals[0], loss, rtol=1e-5 if dtype != "f8" else 1e-12, atol=1e-6)
    assert totals[1] == right
    compare(grad, 0.25 * expected, dtype)


def test_class_numbers_are_probabilities_that_are_all_or_nothing(operations: Operations) -> None:
    logits, numbered = numbers("f4", 6, 4), np.arange(6, dtype=np.int32) % 4
    made = []
    for targets in (numbered, np.eye(4, dtype=np.float32)[numbered]):
        totals = np.zeros(TOTALS)
        made.append((Loss("cross-entropy", 0.1).forward(operations, logits, targets, totals, 0.5), totals))
    np.testing.assert_allclose(made[0][0], made[1][0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(made[0][1], made[1][1], rtol=1e-6)


def test_cross_entropy_of_far_apart_logits(operations: Operations) -> None:
    logits, grad, totals = np.array([[3e4, -3e4]], np.float16), np.zeros((1, 2), np.float16), np.zeros(TOTALS)
    operations.cross_entropy(logits, np.array([1], np.int32), grad, totals, smoothing=0.0, factor=1.0)
    assert totals[0] == pytest.approx(6e4, rel=1e-3)
    np.testing.assert_array_equal(grad, [[1.0, -1.0]])


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("name", ["mean_squared_error", "huber"])
@pytest.mark.parametrize("width", [1, 3])
def test_regression_losses(operations: Operations, dtype: str, name: str, width: int) -> None:
    outputs, targets = 2 * numbers(dtype, 9, width), numbers("f4", 2, 9, width)[0]
    outputs[0, 0] = targets[0, 0] = 1.5
    totals, grad = np.zeros(TOTALS), np.full(outputs.shape, np.nan, dtype)
    getattr(operations, name)(outputs, targets, grad, totals, factor=0.5)
    loss, expected = getattr(oracles, name)(outputs.astype(np.float64), targets.astype(np.float64))
    np.testing.assert_allclose(totals[0], loss, rtol=1e-5)
    compare(grad, 0.5 * expected, dtype)


@pytest.mark.parametrize(("name", "width"), [("cross-entropy", 4), ("mse", 1), ("huber", 2)])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_gradients_of_losses(operations: Operations, name: str, width: int, smoothing: float) -> None:
    """The returned gradient is that of the first total, times the factor; nothing of the metrics enters it."""
    outputs = numbers("f8", 6, width)
    targets = numbers("f4", 3, 6, width)[0] if width < 4 else np.arange(6, dtype=np.int32) % 4
    loss = Loss(name, smoothing)
    totals = np.zeros(TOTALS)
    grad = loss.forward(operations, outputs, targets, totals, 0.125)
    for place in np.ndindex(outputs.shape):
        values = []
        for step in (1e-6, -1e-6):
            moved, at = outputs.copy(), np.zeros(TOTALS)
            moved[place] += step
            assert loss.forward(operations, moved, targets, at, None) is None
            values.append(at[0])
        assert grad[place] == pytest.approx(0.125 * (values[0] - values[1]) / 2e-6, abs=1e-7)
    operations.memory.give(grad)
    assert operations.memory.total == 0


def test_metrics_of_classification() -> None:
    values = metrics("classification", np.array([6.0, 3.0, 0, 0, 0]), 4, 1.0)
    assert values == {"loss": 1.5, "accuracy": 0.75}


def test_metrics_of_regression_are_in_the_target_s_units(operations: Operations) -> None:
    outputs, targets = numbers("f4", 30, 1), numbers("f4", 2, 30, 1)[0]
    totals = np.zeros(TOTALS)
    for rows in (slice(0, 13), slice(13, 30)):
        Loss("mse").forward(operations, outputs[rows], targets[rows], totals, None)
    values = metrics("regression", totals, 30, 25.0)
    error = (outputs - targets).astype(np.float64)
    spread = targets - targets.mean(dtype=np.float64)
    assert values["loss"] == pytest.approx((error**2).mean(), rel=1e-5)
    assert values["r2"] == pytest.approx(1 - (error**2).sum() / (spread**2).sum(), rel=1e-5)
    assert values["mae"] == pytest.approx(25 * np.abs(error).mean(), rel=1e-5)
    assert values["rmse"] == pytest.approx(25 * np.sqrt((error**2).mean()), rel=1e-5)


def test_r2_of_equal_targets_is_not_a_number() -> None:
    assert np.isnan(metrics("regression", np.array([1.0, 1.0, 1.0, 4.0, 4.0]), 4, 1.0)["r2"])
    for task in ("classification", "regression"):
        assert all(np.isnan(value) for value in metrics(task, np.zeros(5), 0, 1.0).values())


class Formula:
    """The optimizers as their papers write them, one number at a time in double precision."""

    def __init__(self, name: str, lr: float, decay: float) -> None:
        self.name, self.lr, self.decay, self.count = name, lr, decay, 0
        self.velocity = self.mean = self.square = 0.0

    def __call__(self, w: float, g: float) -> float:
        self.count += 1
        if self.name in ("adam", "adamw"):
            if self.name == "adam":
                g = g + self.decay * w
            self.mean = 0.9 * self.mean + 0.1 * g
            self.square = 0.999 * self.square + 0.001 * g * g
            mean, square = self.mean / (1 - 0.9**self.count), self.square / (1 - 0.999**self.count)
            if self.name == "adamw":
                w = w - self.lr * self.decay * w
            return w - self.lr * mean / (np.sqrt(square) + 1e-8)
        g = g + self.decay * w
        if self.name == "sgd":
            return w - self.lr * g
        self.velocity = 0.9 * self.velocity + g
        return w - self.lr * (g + 0.9 * self.velocity if self.name == "nesterov" else self.velocity)


@pytest.mark.parametrize("piece_bytes", [64, 1 << 19])
@pytest.mark.parametrize("name", SLOTS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_optimizers(monkeypatch: pytest.MonkeyPatch, name: str, dtype: str, piece_bytes: int) -> None:
    """Five updates of a matrix and of a vector; decay moves the matrix only."""
    monkeypatch.setattr("engine.ops.operation.PIECE_BYTES", piece_bytes)
    operations = Operations(memory())
    matrix, vector = numbers(dtype, 5, 7), numbers(dtype, 6)
    matrix[0, 0] = 0.0
    parameters = [
        Parameter(label, value.shape, value.ndim > 1, partial(np.copyto, src=value))
        for label, value in (("vector", vector), ("matrix", matrix))
    ]
    flat = FlatParameters(parameters, matrix.dtype, operations)
    optimizer = Optimizer(name, flat, 0.1, operations)
    expected = {"matrix": matrix.astype(np.float64), "vector": vector.astype(np.float64)}
    formulas = {
        label: [Formula(name, 0.02, 0.1 if label == "matrix" else 0.0) for _ in range(value.size)]
        for label, value in expected.items()
    }
    for step in range(5):
        for number, parameter in enumerate(parameters):
            parameter.gradient[...] = numbers(dtype, step + 1, number + 1, *parameter.value.shape)[0, 0]
            flat = expected[parameter.name].reshape(-1)
            for place, gradient in enumerate(parameter.gradient.reshape(-1)):
                flat[place] = formulas[parameter.name][place](flat[place], float(gradient))
        optimizer.update(0.02)
    assert optimizer.count == 5
    for parameter in parameters:
        np.testing.assert_allclose(
            parameter.value, expected[parameter.name], rtol=1e-5 if dtype == "f4" else 1e-12, atol=1e-7
        )
    assert operations.memory.bytes["workspace"] == 0
