"""ReLU, GELU, SiLU and dropout."""

from __future__ import annotations

from engine.layers.base import Layer, LayerError, Pass, Saved, take_over
from engine.memory import Array, ArraySpec
from engine.ops.packing import packed_mask


class ReLU(Layer):
    """y = max(x, 0); one bit an element is kept."""

    def saves(self, batch: int) -> dict[str, ArraySpec]:
        return {"mask": packed_mask((batch, *self.input_shape))}

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        y = self.output(x, run)
        mask = None
        if saved is not None:
            mask = saved["mask"] = run.memory.take_like(packed_mask(x.shape), "activations")
        run.operations.relu(x, y, mask)
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        if grad.dtype == self.input_dtype:
            run.operations.relu_backward(saved["mask"], grad, grad)
            return grad
        dx = self.input_gradient(grad.shape[0], run)
        run.operations.relu_backward(saved["mask"], grad, dx)
        run.memory.give(grad)
        return dx


class _Smooth(Layer):
    """An activation whose derivative is a function of its input, which it keeps."""

    cheap = True
    operation: str

    def saves(self, batch: int) -> dict[str, ArraySpec]:
        return {"input": self.input_spec(batch)}

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        y = self.output(x, run)
        getattr(run.operations, self.operation)(x, y)
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        dx = None
        if self.needs_input_gradient:
            dx = take_over(saved.pop("input"), run)
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

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        y = self.output(x, run)
        if run.training and self.rate:
            run.operations.dropout(x, y, rate=self.rate, counter=(*run.counter, self.index))
        else:
            run.operations.copy(x, y)
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        if self.rate:
            run.operations.dropout(grad, grad, rate=self.rate, counter=(*run.counter, self.index))
        if grad.dtype == self.input_dtype:
            return grad
        dx = self.input_gradient(grad.shape[0], run)
        run.operations.copy(grad, dx)
        run.memory.give(grad)
        return dx
