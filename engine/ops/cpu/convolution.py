"""Convolution: by minimal filtering where that pays, else row by row."""

from types import ModuleType

from engine.memory import Array, ArraySpec, Scratch
from engine.ops import reference
from engine.ops.cpu import channels, direct, winograd
from engine.ops.cpu.storage import compiled, flat
from engine.ops.cpu.threads import in_parallel


def _way(weight: Array, *, stride: int, padding: int) -> ModuleType:
    outputs, kernel, _, inputs = weight.shape
    return winograd if kernel == 3 and stride == 1 and min(inputs, outputs) >= 16 else direct


def _forward_workspace(x: Array, weight: Array, bias: Array | None, *arrays: Array, **geometry: int) -> list[ArraySpec]:
    return _way(weight, **geometry).forward_workspace(x, weight, *arrays, **geometry)


@compiled(reference.convolve, _forward_workspace)
def convolve(x: Array, weight: Array, *arrays: Array | None, work: Scratch, **geometry: int) -> None:
    """As the reference; minimal filtering gathers statistics while the output is still in the cache."""
    _way(weight, **geometry).forward(x, weight, *arrays, work=work, **geometry)


def _input_gradient_workspace(grad: Array, weight: Array, out: Array, **geometry: int) -> list[ArraySpec]:
    return _way(weight, **geometry).input_gradient_workspace(grad, weight, out, **geometry)


@compiled(reference.convolve_input_gradient, _input_gradient_workspace)
def convolve_input_gradient(grad: Array, weight: Array, out: Array, *, work: Scratch, **geometry: int) -> None:
    """As the reference."""
    _way(weight, **geometry).input_gradient(grad, weight, out, work=work, **geometry)


def _weight_gradient_workspace(
    x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None, **geometry: int
) -> list[ArraySpec]:
    sums = [] if bias_grad is None else [channels.vectors(grad, 1), *channels.sum_scratch(grad, 2)]
    return [*_way(weight_grad, **geometry).weight_gradient_workspace(x, grad, weight_grad, **geometry), *sums]


@compiled(reference.convolve_weight_gradient, _weight_gradient_workspace)
def convolve_weight_gradient(
    x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None, *, work: Scratch, **geometry: int
) -> None:
    """As the reference."""
    _way(weight_grad, **geometry).add_weight_gradient(x, grad, weight_grad, work=work[:3], **geometry)
    if bias_grad is not None:
        ranges, (zeros, *sums) = channels.ranges(grad), work[3:]
        in_parallel(channels.moments, ranges, flat(grad), channels.repeated(0.0, zeros[0]), own=sums)
        bias_grad += channels.channel_totals(sums[1], len(ranges), grad.shape[-1])[0].astype(bias_grad.dtype)
