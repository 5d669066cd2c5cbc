"""What a layer is: a forward and a backward side by side, its parameters, and one declaration of what it saves.

Memory moves by three rules, the same for every layer.
- `forward` returns a new array. The input stays the caller's, who frees it unless the layer saves it.
- `backward` owns `grad` and everything in `saved`: it may write over them, and gives back what it does not return.
  What it leaves in `saved` the caller frees.
- `saves` declares what lies between the two; `forward` puts those arrays into `saved`. The name "input" stands for
  the input itself, which the caller keeps and enters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from engine.errors import InputError
from engine.layers.parameters import Parameter, Statistic
from engine.memory import Array, ArraySpec, Memory, Shape
from engine.ops import Operations, from_host

Saved = dict[str, Array]
Tables = Sequence[dict[str, Any]]  # layers as a spec's [[model.layers]] describe them


class LayerError(InputError):
    """A layer that cannot be built on the input it gets."""


@dataclass(frozen=True)
class Pass:
    """What one forward or backward pass over a micro-batch carries along.

    `training`: batch statistics and dropout are on. `again`: this forward pass is a recomputation, nothing may move a
    second time. `seed` and `place` = (epoch, micro-batch), an array, key the draws. `hold`: the output will be kept for
    backward.
    """

    operations: Operations
    training: bool
    seed: int = 0
    place: Array = None
    again: bool = False
    hold: bool = False

    def holding(self, hold: bool) -> "Pass":
        """The same pass, for a layer whose output is kept or not."""
        return self if hold == self.hold else replace(self, hold=hold)

    @property
    def memory(self) -> Memory:
        return self.operations.memory


@dataclass
class Builder:
    """Where a layer gets its arrays when it is built, and the dtypes of its work."""

    memory: Memory
    operations: Operations
    seed: int
    activation_dtype: np.dtype
    parameter_dtype: np.dtype
    outputs: int
    parameters: list[Parameter] = field(default_factory=list)
    statistics: list[Statistic] = field(default_factory=list)

    def parameter(
        self, name: str, shape: Shape, fan_in: int = 0, value: float = 0.0, identity: bool = False
    ) -> Parameter:
        """A new parameter: uniform in +-1 / sqrt(fan_in) where a fan-in is given, else filled with `value`.

        With `identity` the first kernels of a convolution pass on one input channel each, as it is.
        """
        number = len(self.parameters) + 1

        def start(array: Array) -> None:
            if not fan_in:
                self.operations.fill(array, value)
            elif not isinstance(array, ArraySpec):
                bound = 1.0 / sqrt(fan_in)
                draws = np.random.Generator(np.random.Philox(key=[self.seed, number]))
                host = array if isinstance(array, np.ndarray) else np.empty(shape, array.dtype)
                draws.random(out=host, dtype=host.dtype)
                host *= 2.0 * bound
                host -= bound
                if identity:
                    same, middle = np.arange(min(shape[0], shape[3])), shape[1] // 2
                    host[same] = 0.0
                    host[same, middle, middle, same] = 1.0
                from_host(host, array)

        self.parameters.append(Parameter(name, shape, len(shape) > 1, start))
        return self.parameters[-1]

    def statistic(self, shape: Shape, start: float) -> Statistic:
        """A new running average."""
        self.statistics.append(Statistic(shape, start))
        return self.statistics[-1]

    def buffer(self, shape: Shape, value: float, category: str = "weights") -> Array:
        """A float32 array that is there from the start, and not trained."""
        made = self.memory.take(shape, self.parameter_dtype, category)
        self.operations.fill(made, value)
        return made


class Layer:
    """Base of all layers; a subclass is a class with the options of its table in the spec as constructor arguments."""

    cheap: ClassVar[bool] = False  # its output costs little to compute again from what it saves
    keeps_input: ClassVar[bool] = False  # backward needs the input
    name: str = ""
    index: int = 0
    input_shape: Shape = ()
    output_shape: Shape = ()
    dtype: np.dtype
    input_dtype: np.dtype
    needs_input_gradient: bool = True

    def place(self, builder: Builder, name: str, input_shape: Shape, input_dtype: np.dtype, dtype: np.dtype) -> Shape:
        """Builds the layer under its name, behind inputs of that shape and dtype; returns the shape of its output."""
        self.name, self.input_shape, self.input_dtype, self.dtype = name, input_shape, input_dtype, dtype
        self.output_shape = self.build(builder, input_shape)
        return self.output_shape

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        """Makes the parameters for one sample of `input_shape` and returns the shape of one output sample."""
        return input_shape

    def saves(self, batch: int) -> dict[str, ArraySpec]:
        """What lies between forward and backward for a micro-batch of `batch` samples."""
        return {"input": self.input_spec(batch)} if self.keeps_input else {}

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        """The output for x; fills `saved` (None: nothing is kept, as in evaluation)."""
        raise NotImplementedError

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        """d loss / d input from d loss / d output; adds to the gradients of the parameters."""
        raise NotImplementedError

    @property
    def buffers(self) -> dict[str, Array]:
        """Arrays that belong to the trained model but are not parameters."""
        return {}

    def output(self, x: Array, run: Pass) -> Array:
        """Memory for the output of x."""
        return run.memory.take((x.shape[0], *self.output_shape), self.dtype, "activations" if run.hold else "workspace")

    def input_gradient(self, batch: int, run: Pass) -> Array:
        """Memory for the gradient by the input."""
        return run.memory.take((batch, *self.input_shape), self.input_dtype, "gradients")

    def keep(self, name: str, batch: int, run: Pass, saved: Saved | None) -> Array | None:
        """Memory for what `saves` declares under that name, None where nothing is kept."""
        if saved is None:
            return None
        saved[name] = run.memory.take_like(self.saves(batch)[name], "activations")
        return saved[name]

    def apply(self, run: Pass, operation: Callable[..., None], *arguments: Array | None, **options: Any) -> Array:
        """A new output y by operation(*arguments, y), the input being the first of the arguments."""
        y = self.output(arguments[0], run)
        operation(*arguments, y, **options)
        return y

    def apply_backward(self, run: Pass, operation: Callable[..., None], *arguments: Array, **options: Any) -> Array:
        """A new gradient dx by operation(*arguments, dx); the last argument, the gradient by the output, is freed."""
        dx = self.input_gradient(arguments[-1].shape[0], run)
        operation(*arguments, dx, **options)
        run.memory.give(arguments[-1])
        return dx

    def reuse_input(self, run: Pass, saved: Saved) -> Array | None:
        """The buffer of the saved input, for its last reader to write the gradient into; None where none is needed."""
        return run.memory.move(saved.pop("input"), "gradients") if self.needs_input_gradient else None

    def input_spec(self, batch: int) -> ArraySpec:
        return ArraySpec((batch, *self.input_shape), self.input_dtype)

    def output_spec(self, batch: int) -> ArraySpec:
        return ArraySpec((batch, *self.output_shape), self.dtype)


def image_shape(layer: str, input_shape: Shape) -> tuple[int, int, int]:
    """Height, width and channels; refuses what is no image."""
    if len(input_shape) != 3:
        raise LayerError(f"{layer} needs images (height, width, channels), got {input_shape}")
    return input_shape


def positive(layer: str, name: str, value: Any) -> None:
    """Refuses sizes below 1."""
    if value < 1:
        raise LayerError(f"{layer}: {name} must be at least 1, got {value}")
