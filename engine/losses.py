"""Losses and metrics of a micro-batch, added up over a window or an epoch in float64."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from engine.memory import Array
from engine.ops import Operations

TOTALS = 5  # loss; right answers or squared error; absolute error; sum of targets; sum of their squares


@dataclass(frozen=True)
class Loss:
    """`name` as in the spec; `smoothing` is the label smoothing of cross-entropy."""

    name: str
    smoothing: float = 0.0

    def forward(
        self, operations: Operations, outputs: Array, targets: Array, totals: Array, factor: float | None
    ) -> Array | None:
        """Adds to `totals`; with a `factor` returns a new array, factor times the gradient of the summed loss."""
        grad = operations.memory.take(outputs.shape, outputs.dtype, "gradients") if factor is not None else None
        factor = factor or 0.0
        if self.name == "cross-entropy":
            operations.cross_entropy(outputs, targets, grad, totals, smoothing=self.smoothing, factor=factor)
        else:
            kernel = operations.mean_squared_error if self.name == "mse" else operations.huber
            kernel(outputs, targets, grad, totals, factor=factor)
            operations.regression_sums(outputs, targets, totals)
        return grad


def metrics(task: str, totals: np.ndarray, samples: int, target_std: float) -> dict[str, float]:
    """`loss` and, by task, `accuracy`, or `r2`, `mae` and `rmse` (the last two in the target's own units)."""
    totals, samples = (totals, samples) if samples else (totals * np.nan, 1)  # none where every update was skipped
    loss, second, absolute, target, square = (float(total) for total in totals)
    values: dict[str, Any] = {"loss": loss / samples}
    if task == "classification":
        return {**values, "accuracy": second / samples}
    spread = square - target * target / samples
    r2 = 1.0 - second / spread if spread > 0 else float("nan")
    rmse = sqrt(second / samples) if second >= 0 else float("nan")
    return {**values, "r2": r2, "mae": absolute / samples * target_std, "rmse": rmse * target_std}
