"""A network as a chain of blocks, built from layer tables, and its passes over a micro-batch.

A block begins at each layer with a matrix product, so a block is what recomputation can afford to keep or to run again.
"""

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import Any

from engine.errors import InputError, nearest
from engine.layers import LAYERS, Builder, FlatParameters, FlatStatistics, Layer, LayerError, Pass, Saved, Tables
from engine.layers.activation import ReLU
from engine.layers.block import Block, chain
from engine.layers.conv import Conv
from engine.layers.linear import Linear
from engine.layers.norm import BatchNorm
from engine.layers.residual import Residual
from engine.memory import Array, Shape
from engine.recompute import Plan


class InvalidLayer(InputError):
    """A layer table that cannot become a layer; `index` counts the tables from 0."""

    def __init__(self, index: int, message: str) -> None:
        self.index = index
        super().__init__(f"layer {index + 1}: {message}")


class Model:
    """The chain of blocks over one sample shape."""

    def __init__(self, tables: Tables, input_shape: Shape, builder: Builder, keep_fp32: Sequence[str] = ()) -> None:
        self.layers = _make_layers(tables, input_shape, builder, tuple(keep_fp32))
        self.parameters = builder.parameters
        self.flat = FlatParameters(builder.parameters, builder.parameter_dtype, builder.operations)
        self.statistics = FlatStatistics(builder.statistics, builder.parameter_dtype, builder.operations)
        self.input_dtype = builder.activation_dtype
        self.input_shape, self.output_shape = input_shape, self.layers[-1].output_shape
        self.recompute_seconds = 0.0  # spent on forward passes that were run before
        self.blocks = [Block(group) for group in _group(self.layers)]

    @property
    def parameter_count(self) -> int:
        return sum(parameter.value.size for parameter in self.parameters)

    @property
    def batch_norm(self) -> bool:
        """Whether any layer takes statistics over the micro-batch."""
        return any(isinstance(layer, BatchNorm | Residual) for layer in self.layers)

    @property
    def arrays(self) -> dict[str, Array]:
        """Weights and running statistics by name: the trained model."""
        weights = {parameter.name: parameter.value for parameter in self.parameters}
        return weights | {name: array for layer in self.layers for name, array in layer.buffers.items()}

    def predict(self, x: Array, run: Pass) -> Array:
        """The outputs of x, nothing kept; the caller frees them."""
        *_, output = chain(self.blocks, x, run)
        return output

    def train(self, x: Array, loss: Callable[[Array], Array], plan: Plan, run: Pass) -> None:
        """Forward and backward as `plan` orders; `loss` turns outputs into their gradient. Adds to all gradients.

        `inputs` holds the inputs of blocks that wait for a restart or for backward, `saved` what the layers of blocks
        kept.
        """
        memory = run.memory
        again = replace(run, again=True)
        inputs: dict[int, Array] = {0: x}
        saved: dict[int, list[Saved]] = {}
        seen = 0
        current, grad = x, None
        for position, step in enumerate(plan):
            number, block = step.block, self.blocks[step.block]
            if step.action == "restart":
                current = inputs[number]
            elif step.action == "backward":
                if number == len(self.blocks) - 1:
                    grad = loss(current)
                if plan[position - 1].action == "save":  # this block's output, which nobody reads any more
                    memory.give(current)
                if number == len(self.blocks) - 1:
                    memory.mark("loss", "")
                source = inputs.pop(number, None)
                if block.saves_input:
                    saved[number][0]["input"] = (
                        self.blocks[number - 1].rebuild(again, saved[number - 1]) if source is None else source
                    )
                elif source is not None and number:
                    memory.give(source)
                grad = block.backward(grad, run, saved.pop(number), owns_input=number > 0)
            else:
                kept = [{} for _ in block.layers] if step.action == "save" else None
                began = time.perf_counter()
                y = block.forward(current, (run if number >= seen else again).holding(self._held(plan, position)), kept)
                if number < seen:
                    self.recompute_seconds += time.perf_counter() - began
                if step.action == "keep" or (step.action == "save" and self._needs_held(number, saved)):
                    inputs[number] = current
                elif number and (step.action == "save" or number not in inputs):
                    inputs.pop(number, None)
                    memory.give(current)
                if kept is not None:
                    saved[number] = kept
                seen = max(seen, number + 1)
                current = y

    def _needs_held(self, number: int, saved: Container[int]) -> bool:
        """Whether a block that is saved needs its input held: not when the block before can compute it again."""
        return self.blocks[number].saves_input and not (number - 1 in saved and self.blocks[number - 1].rebuilds)

    def _held(self, plan: Plan, position: int) -> bool:
        """Whether the output of this forward step is held as the input of the next one."""
        this, following = plan[position], plan[position + 1]
        if following.action == "keep":
            return True
        saved = (this.block,) if this.action == "save" else ()
        return following.action == "save" and self._needs_held(following.block, saved)


def _make_layers(tables: Tables, input_shape: Shape, builder: Builder, keep_fp32: tuple[str, ...]) -> list[Layer]:
    """Constructs and builds the layers in order; a ReLU right behind a batch norm becomes part of it."""
    if not tables:
        raise InvalidLayer(0, "the model has no layers")
    layers: list[Layer] = []
    counts: dict[str, int] = {}
    merged: list[str] = []
    shape, dtype = tuple(input_shape), builder.activation_dtype
    try:
        for index, table in enumerate(tables):
            layer, kind = _construct(table), table["type"]
            counts[kind] = counts.get(kind, 0) + 1
            name, layer.index = str(table.get("name") or f"{kind}{counts[kind]}"), index
            if any(name == other.name for other in layers):
                raise LayerError(f"the name {name!r} is taken by an earlier layer")
            if isinstance(layer, ReLU) and layers and isinstance(layers[-1], BatchNorm) and not layers[-1].relu:
                layers[-1].relu = True
                merged.append(name)
                if name in keep_fp32:
                    dtype = layers[-1].dtype = builder.parameter_dtype
                continue
            input_dtype, dtype = dtype, builder.parameter_dtype if name in keep_fp32 else builder.activation_dtype
            shape = layer.place(builder, name, shape, input_dtype, dtype)
            if isinstance(layer, BatchNorm) and layers and isinstance(layers[-1], Conv):
                layers[-1].gathered = layer.gathered
            layers.append(layer)
        if shape != (builder.outputs,):
            advice = "the last layer is to give so many" if len(shape) == 1 else "end with a linear layer"
            raise LayerError(f"the network ends in {shape}, the task needs ({builder.outputs},): {advice}")
    except LayerError as error:
        raise InvalidLayer(index, str(error)) from None
    if not builder.parameters:
        raise InvalidLayer(0, "the network has nothing to train: it needs a layer with weights, such as linear or conv")
    _check_names(keep_fp32, [*(layer.name for layer in layers), *merged])
    for layer in layers:
        layer.needs_input_gradient = False
        if any(parameter.name.startswith(f"{layer.name}.") for parameter in builder.parameters):
            break
    return layers


def _construct(table: dict[str, Any]) -> Layer:
    kind = table.get("type")
    if kind not in LAYERS:
        raise LayerError(f"unknown type {kind!r}: expected one of {', '.join(LAYERS)}{nearest(str(kind), LAYERS)}")
    try:
        return LAYERS[kind](**{key: value for key, value in table.items() if key not in ("type", "name")})
    except TypeError as error:
        raise LayerError(f"{kind}: {str(error).removeprefix(f'{LAYERS[kind].__name__}.__init__() ')}") from None


def _check_names(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(
                f'precision.keep_fp32: there is no layer "{name}"{nearest(name, known)}; layers are {", ".join(known)}'
            )


def _group(layers: Sequence[Layer]) -> list[list[Layer]]:
    """Splits before every matrix product but the first: what comes before that one is no work of its own."""
    groups: list[list[Layer]] = [[]]
    for layer in layers:
        product = isinstance(layer, Conv | Linear | Residual)
        if product and any(isinstance(other, Conv | Linear | Residual) for other in groups[-1]):
            groups.append([])
        groups[-1].append(layer)
    return groups
