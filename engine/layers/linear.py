"""Fully connected layers, and the flattening that usually comes before them."""

from __future__ import annotations

from math import prod

from engine.layers.base import Builder, Layer, LayerError, Pass, Saved, positive, take_over
from engine.memory import Array, ArraySpec


class Linear(Layer):
    """y = x W^T + b over the last axis; W is (out, in). Without `out`: as many as the task has classes or targets."""

    def __init__(self, out: int | None = None, bias: bool = True) -> None:
        if out is not None:
            positive("linear", "out", out)
        self.out, self.bias = out, bias

    def build(self, builder: Builder, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(input_shape) != 1:
            raise LayerError(
                f"linear needs one row of numbers a sample, got {input_shape}; "
                "put a flatten or global_average before it"
            )
        inputs, outputs = input_shape[0], self.out or builder.outputs
        self.weight = builder.parameter(f"{self.name}.weight", (outputs, inputs), fan_in=inputs)
        self.offset = builder.parameter(f"{self.name}.bias", (outputs,), fan_in=inputs) if self.bias else None
        return (outputs,)

    def saves(self, batch: int) -> dict[str, ArraySpec]:
        return {"input": self.input_spec(batch)}

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        y = self.output(x, run)
        run.operations.linear(x, self.weight.value, self.offset.value if self.offset else None, y)
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        x = saved["input"]
        run.operations.linear_weight_gradient(
            x, grad, self.weight.gradient, self.offset.gradient if self.offset else None
        )
        dx = None
        if self.needs_input_gradient:
            dx = take_over(saved.pop("input"), run)
            run.operations.linear_input_gradient(grad, self.weight.value, dx)
        run.memory.give(grad)
        return dx


class Flatten(Layer):
    """One row of numbers a sample."""

    cheap = True

    def build(self, builder: Builder, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        return (prod(input_shape),)

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        y = self.output(x, run)
        run.operations.copy(x, y)
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        if grad.dtype == self.input_dtype:
            return run.memory.reshape(grad, (grad.shape[0], *self.input_shape))
        dx = self.input_gradient(grad.shape[0], run)
        run.operations.copy(grad, dx)
        run.memory.give(grad)
        return dx
