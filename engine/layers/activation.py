"""ReLU, GELU, SiLU and dropout."""

from typing import Any

from engine.layers.base import Layer, LayerError, Pass, Saved
from engine.memory import Array, ArraySpec
from engine.ops.packing import packed_mask


class ReLU(Layer):
    """y = max(x, 0); one bit an element is kept."""

    def saves(self, batch: int) -> dict[str, ArraySpec]:
        return {"mask": packed_mask((batch, *self.input_shape))}

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        y = self.output(x, run)
        run.operations.relu(x, y, self.keep("mask", x.shape[0], run, saved))
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        if grad.dtype != self.input_dtype:
            return self.apply_backward(run, run.operations.relu_backward, saved["mask"], grad)
        run.operations.relu_backward(saved["mask"], grad, grad)
        return grad


class _Smooth(Layer):
    """An activation whose derivative is a function of its input, which it keeps."""

    cheap = keeps_input = True
    operation: str

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        return self.apply(run, getattr(run.operations, self.operation), x)

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        if (dx := self.reuse_input(run, saved)) is not None:
            getattr(run.operations, f"{self.operation}_backward")(dx, grad, dx)
        run.memory.give(grad)
        return dx


class GELU(_Smooth):
    """y = x * Phi(x), Phi by its tanh approximation (Hendrycks and Gimpel 2016)."""

    operation = "gelu"


class SiLU(_Smooth):
    """y = x * sigmoid(x) (Elfwing, Uchibe and Doya 2018)."""

    operation = "silu"


class Dropout(Layer):
    """In training each element is 0 with probability `rate`, the others times 1 / (1 - rate) (Srivastava et al.
    2014).
    """

    cheap = True

    def __init__(self, rate: float = 0.5) -> None:
        if not 0 <= rate < 1:
            raise LayerError(f"dropout: rate must lie between 0 and 1 (1 excluded), got {rate}")
        self.rate = rate

    def _draws(self, run: Pass) -> dict[str, Any]:
        return {"rate": self.rate, "seed": run.seed, "layer": self.index}

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        if not run.training or not self.rate:
            return self.apply(run, run.operations.copy, x)
        return self.apply(run, run.operations.dropout, x, run.place, **self._draws(run))

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        if self.rate:
            run.operations.dropout(grad, run.place, grad, **self._draws(run))
        return grad if grad.dtype == self.input_dtype else self.apply_backward(run, run.operations.copy, grad)
