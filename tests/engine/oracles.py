"""Each operation as loops over its elements in double precision, from its definition and for nothing but clarity."""

from __future__ import annotations

from itertools import product
from math import erf, exp, log, pi, sqrt, tanh

import numpy as np


def places(*sizes: int) -> product:
    """All index tuples below `sizes`."""
    return product(*(range(size) for size in sizes))


def _inside(row: int, column: int, image: np.ndarray) -> bool:
    return 0 <= row < image.shape[0] and 0 <= column < image.shape[1]


def convolve(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, out_shape: tuple, stride: int, padding: int
) -> np.ndarray:
    out = np.zeros(out_shape)
    _, kernel, _, inputs = weight.shape
    for n, i, j, o in places(*out_shape):
        out[n, i, j, o] = 0.0 if bias is None else bias[o]
        for a, b, c in places(kernel, kernel, inputs):
            row, column = i * stride + a - padding, j * stride + b - padding
            if _inside(row, column, x[n]):
                out[n, i, j, o] += weight[o, a, b, c] * x[n, row, column, c]
    return out


def convolve_gradients(
    x: np.ndarray, weight: np.ndarray, grad: np.ndarray, stride: int, padding: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By x, by the weights, by the bias."""
    dx, dw, db = np.zeros(x.shape), np.zeros(weight.shape), np.zeros(len(weight))
    _, kernel, _, inputs = weight.shape
    for n, i, j, o in places(*grad.shape):
        db[o] += grad[n, i, j, o]
        for a, b, c in places(kernel, kernel, inputs):
            row, column = i * stride + a - padding, j * stride + b - padding
            if _inside(row, column, x[n]):
                dx[n, row, column, c] += grad[n, i, j, o] * weight[o, a, b, c]
                dw[o, a, b, c] += grad[n, i, j, o] * x[n, row, column, c]
    return dx, dw, db


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    out = np.zeros((len(x), len(weight)))
    for n, o in places(*out.shape):
        out[n, o] = sum(x[n, i] * weight[o, i] for i in range(x.shape[1])) + (0.0 if bias is None else bias[o])
    return out


def linear_gradients(x: np.ndarray, weight: np.ndarray, grad: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dx, dw, db = np.zeros(x.shape), np.zeros(weight.shape), np.zeros(len(weight))
    for n, o in places(*grad.shape):
        db[o] += grad[n, o]
        for i in range(x.shape[1]):
            dx[n, i] += grad[n, o] * weight[o, i]
            dw[o, i] += grad[n, o] * x[n, i]
    return dx, dw, db


def statistics(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and biased variance of each column."""
    mean, variance = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for c in range(rows.shape[1]):
        mean[c] = sum(rows[:, c]) / len(rows)
        variance[c] = sum((value - mean[c]) ** 2 for value in rows[:, c]) / len(rows)
    return mean, variance


def batch_norm(
    rows: np.ndarray,
    mean: np.ndarray,
    inv_std: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    skip: np.ndarray | None,
    relu: bool,
) -> np.ndarray:
    out = np.zeros(rows.shape)
    for r, c in places(*rows.shape):
        out[r, c] = gamma[c] * (rows[r, c] - mean[c]) * inv_std[c] + beta[c]
        out[r, c] += 0.0 if skip is None else skip[r, c]
        out[r, c] = max(out[r, c], 0.0) if relu else out[r, c]
    return out


def batch_norm_gradients(
    rows: np.ndarray, inv_std: np.ndarray, mean: np.ndarray, gamma: np.ndarray, grad: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By the rows, gamma and beta: d y_r / d x_q taken apart into the three ways that x_q acts on y_r."""
    count, channels = rows.shape
    dx, dgamma, dbeta = np.zeros(rows.shape), np.zeros(channels), np.zeros(channels)
    for c in range(channels):
        s = inv_std[c]
        for r in range(count):
            dgamma[c] += grad[r, c] * (rows[r, c] - mean[c]) * s
            dbeta[c] += grad[r, c]
            for q in range(count):
                direct = 1.0 if r == q else 0.0
                by_mean = -1.0 / count
                by_variance = -(rows[r, c] - mean[c]) * s * s * (rows[q, c] - mean[c]) / count
                dx[q, c] += grad[r, c] * gamma[c] * s * (direct + by_mean + by_variance)
    return dx, dgamma, dbeta


def layer_norm(rows: np.ndarray, gamma: np.ndarray, beta: np.ndarray, epsilon: float) -> tuple[np.ndarray, ...]:
    """Output, mean and 1 / deviation of each row."""
    out, means, inverses = np.zeros(rows.shape), np.zeros(len(rows)), np.zeros(len(rows))
    for r, row in enumerate(rows):
        means[r] = sum(row) / len(row)
        inverses[r] = 1.0 / sqrt(sum((value - means[r]) ** 2 for value in row) / len(row) + epsilon)
        for c, value in enumerate(row):
            out[r, c] = gamma[c] * (value - means[r]) * inverses[r] + beta[c]
    return out, means, inverses


def max_pool(x: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest of each window and its place in it, row by row; the first one where several are equal."""
    shape = (x.shape[0], x.shape[1] // size, x.shape[2] // size, x.shape[3])
    out, position = np.zeros(shape), np.zeros(shape, int)
    for n, i, j, c in places(*shape):
        window = [x[n, i * size + a, j * size + b, c] for a, b in places(size, size)]
        out[n, i, j, c] = max(window)
        position[n, i, j, c] = window.index(max(window))
    return out, position


def max_pool_gradient(position: np.ndarray, grad: np.ndarray, x_shape: tuple, size: int) -> np.ndarray:
    dx = np.zeros(x_shape)
    for n, i, j, c in places(*grad.shape):
        a, b = divmod(position[n, i, j, c], size)
        dx[n, i * size + a, j * size + b, c] = grad[n, i, j, c]
    return dx


def average_pool(x: np.ndarray, size: int) -> np.ndarray:
    shape = (x.shape[0], x.shape[1] // size, x.shape[2] // size, x.shape[3])
    out = np.zeros(shape)
    for n, i, j, c in places(*shape):
        out[n, i, j, c] = sum(x[n, i * size + a, j * size + b, c] for a, b in places(size, size)) / size**2
    return out


def average_pool_gradient(grad: np.ndarray, x_shape: tuple, size: int) -> np.ndarray:
    dx = np.zeros(x_shape)
    for n, i, j, c in places(*grad.shape):
        for a, b in places(size, size):
            dx[n, i * size + a, j * size + b, c] = grad[n, i, j, c] / size**2
    return dx


def means_and_maxima(x: np.ndarray, over: str) -> tuple[np.ndarray, np.ndarray]:
    """Over "positions": (N, C) each; over "channels": (N, H, W) each."""
    kept = (0, 3) if over == "positions" else (0, 1, 2)
    shape = tuple(x.shape[axis] for axis in kept)
    mean, largest = np.zeros(shape), np.full(shape, -np.inf)
    for place in places(*x.shape):
        at = tuple(place[axis] for axis in kept)
        mean[at] += x[place] * mean.size / x.size
        largest[at] = max(largest[at], x[place])
    return mean, largest


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + exp(-x))


def gated(x: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """x * sigmoid(logits), logits (N, C) or (N, H, W)."""
    out = np.zeros(x.shape)
    for n, i, j, c in places(*x.shape):
        out[n, i, j, c] = x[n, i, j, c] * sigmoid(logits[n, c] if logits.ndim == 2 else logits[n, i, j])
    return out


def slide(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """A kernel that moves along the rows of x, with zeros beyond their ends."""
    out = np.zeros(x.shape)
    for n, c, k in places(*x.shape, len(weight)):
        at = c + k - len(weight) // 2
        out[n, c] += weight[k] * x[n, at] if 0 <= at < x.shape[1] else 0.0
    return out


def gelu(x: float) -> float:
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / pi) * (x + 0.044715 * x**3)))


def exact_gelu(x: float) -> float:
    """x * Phi(x), which the other approximates."""
    return 0.5 * x * (1.0 + erf(x / sqrt(2.0)))


def silu(x: float) -> float:
    return x / (1.0 + exp(-x))


def slope(function: object, x: float) -> float:
    """The derivative by central differences."""
    return (function(x + 1e-6) - function(x - 1e-6)) / 2e-6


def cross_entropy(logits: np.ndarray, targets: np.ndarray, smoothing: float) -> tuple[float, int, np.ndarray]:
    """Sum of losses, right answers, gradient of the sum; targets are class numbers, or rows of probabilities."""
    loss, right, grad = 0.0, 0, np.zeros(logits.shape)
    classes = logits.shape[1]
    shares = targets.astype(np.float64) if targets.ndim == 2 else np.eye(classes)[targets]
    for n, row in enumerate(logits):
        highest = max(row)
        normaliser = sum(exp(value - highest) for value in row)
        right += int(list(row).index(highest) == list(shares[n]).index(max(shares[n])))
        for k, value in enumerate(row):
            wanted = smoothing / classes + (1.0 - smoothing) * shares[n, k]
            loss -= wanted * (value - highest - log(normaliser))
            grad[n, k] = exp(value - highest) / normaliser - wanted
    return loss, right, grad


def mean_squared_error(outputs: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    difference = outputs - targets
    width = outputs.shape[1]
    return sum(value**2 for value in difference.reshape(-1)) / width, 2.0 * difference / width


def huber(outputs: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    loss, grad = 0.0, np.zeros(outputs.shape)
    width = outputs.shape[1]
    for n, k in places(*outputs.shape):
        error = outputs[n, k] - targets[n, k]
        loss += (error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5) / width
        grad[n, k] = (error if abs(error) <= 1 else np.sign(error)) / width
    return loss, grad
