"""Fully connected layers, and the flattening that usually comes before them."""

from math import prod

from engine.layers.base import Builder, Layer, LayerError, Pass, Saved, positive
from engine.memory import Array, Shape


class Linear(Layer):
    """y = scale * (x W^T + b) over the last axis; W is (out, in). Without `out`: as many as the task has classes or
    targets.
    """

    keeps_input = True

    def __init__(self, out: int | None = None, bias: bool = True, scale: float = 1.0) -> None:
        if out is not None:
            positive("linear", "out", out)
        self.out, self.bias, self.scale = out, bias, scale

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        if len(input_shape) != 1:
            raise LayerError(
                f"linear needs one row of numbers a sample, got {input_shape}; "
                "put a flatten or global_average before it"
            )
        inputs, outputs = input_shape[0], self.out or builder.outputs
        self.weight = builder.parameter(f"{self.name}.weight", (outputs, inputs), fan_in=inputs)
        self.offset = builder.parameter(f"{self.name}.bias", (outputs,), fan_in=inputs) if self.bias else None
        return (outputs,)

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        bias = self.offset.value if self.offset else None
        y = self.apply(run, run.operations.linear, x, self.weight.value, bias)
        if self.scale != 1.0:
            run.operations.scale(y, self.scale)
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        if self.scale != 1.0:
            run.operations.scale(grad, self.scale)
        bias_gradient = self.offset.gradient if self.offset else None
        run.operations.linear_weight_gradient(saved["input"], grad, self.weight.gradient, bias_gradient)
        if (dx := self.reuse_input(run, saved)) is not None:
            run.operations.linear_input_gradient(grad, self.weight.value, dx)
        run.memory.give(grad)
        return dx


class Flatten(Layer):
    """One row of numbers a sample."""

    cheap = True

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        return (prod(input_shape),)

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        return self.apply(run, run.operations.copy, x)

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        if grad.dtype == self.input_dtype:
            return run.memory.reshape(grad, (grad.shape[0], *self.input_shape))
        return self.apply_backward(run, run.operations.copy, grad)
