"""The layers of a network one by one: what each puts out, holds, computes and keeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.forecast import Forecast
from engine.layers import LAYERS, Pass
from engine.learner import Learner
from engine.memory import Memory
from engine.model import chain
from engine.ops import reference
from engine.ops.operation import Operation
from engine.ops.shapes import ShapeOperations
from fnwork.layer_forecast import layer_forecasts
from fnwork.prepare import Premises


@dataclass(frozen=True)
class LayerRow:
    """`multiply_adds` of products in the forward pass of one sample; `saved_bytes` for backward of a micro-batch."""

    name: str
    type: str
    output_shape: tuple[int, ...]
    parameters: int
    multiply_adds: int
    saved_bytes: int


def rows(at: Premises, forecast: Forecast) -> Sequence[LayerRow]:
    """A row a layer; `forecast` is that of the same network."""
    operations = _Counting(Memory())
    learner = Learner(at.tables, at.input_shape, at.outputs, at.settings, operations)
    types = {layer: name for name, layer in LAYERS.items()}
    layers, counts = learner.model.layers, []
    for output in chain(layers, learner.inputs[0][:1], Pass(operations, training=False)):
        counts.append(operations.multiply_adds)
        operations.multiply_adds, last = 0, output
    operations.memory.give(last)
    return [
        LayerRow(known.name, types[type(layer)], known.output_shape, known.parameters, count, known.saved_bytes)
        for layer, count, known in zip(layers, counts, layer_forecasts(forecast), strict=True)
    ]


class _Counting(ShapeOperations):
    """Shapes alone, with the multiply-adds of convolutions and linear products."""

    multiply_adds = 0

    def _call(self, operation: Operation, *arguments: Any, **options: Any) -> None:
        if operation in (reference.convolve, reference.linear):
            self.multiply_adds += round(operation.flops(*arguments, **options) / 2)
        super()._call(operation, *arguments, **options)
