"""Convolution: by minimal filtering where that pays, else row by row."""

from engine.memory import Array, ArraySpec
from engine.ops import reference
from engine.ops.cpu import channels, direct, winograd
from engine.ops.cpu.storage import compiled, flat
from engine.ops.cpu.threads import in_parallel
from engine.ops.operation import operation


def _by_tiles(weight: Array, stride: int) -> bool:
    return winograd.suits(weight.shape[1], stride, weight.shape[3], weight.shape[0])


def _forward_workspace(
    x: Array, weight: Array, bias: Array | None, out: Array, *, stride: int, padding: int
) -> list[ArraySpec]:
    if not compiled(x, weight, bias, out):
        return reference.convolve.workspace(x, weight, bias, out, stride=stride, padding=padding)
    if _by_tiles(weight, stride):
        return winograd.correlation_workspace(x, out)
    return direct.forward_workspace(x, weight, out, stride=stride, padding=padding)


@operation(workspace=_forward_workspace, flops=reference.convolve.flops)
def convolve(
    x: Array, weight: Array, bias: Array | None, out: Array, *, stride: int, padding: int, work: list[Array]
) -> None:
    """As the reference."""
    if not compiled(x, weight, bias, out):
        reference.convolve.compute(x, weight, bias, out, stride=stride, padding=padding, work=work)
    elif _by_tiles(weight, stride):
        winograd.correlate(x, weight, bias, out, padding=padding, backward=False, work=work)
    else:
        direct.forward(x, weight, bias, out, stride=stride, padding=padding, work=work)


def _input_gradient_workspace(grad: Array, weight: Array, out: Array, *, stride: int, padding: int) -> list[ArraySpec]:
    if not compiled(grad, weight, out):
        return reference.convolve_input_gradient.workspace(grad, weight, out, stride=stride, padding=padding)
    if _by_tiles(weight, stride):
        return winograd.correlation_workspace(grad, out)
    return direct.input_gradient_workspace(grad, weight, out, stride=stride, padding=padding)


@operation(workspace=_input_gradient_workspace, flops=reference.convolve_input_gradient.flops)
def convolve_input_gradient(
    grad: Array, weight: Array, out: Array, *, stride: int, padding: int, work: list[Array]
) -> None:
    """As the reference."""
    if not compiled(grad, weight, out):
        reference.convolve_input_gradient.compute(grad, weight, out, stride=stride, padding=padding, work=work)
    elif _by_tiles(weight, stride):
        winograd.correlate(grad, weight, None, out, padding=2 - padding, backward=True, work=work)
    else:
        direct.input_gradient(grad, weight, out, stride=stride, padding=padding, work=work)


def _weight_gradient_workspace(
    x: Array, grad: Array, weight_grad: Array, bias_grad: Array | None, *, stride: int, padding: int
) -> list[ArraySpec]:
    if not compiled(x, grad, weight_grad):
        return reference.convolve_weight_gradient.workspace(
            x, grad, weight_grad, bias_grad, stride=stride, padding=padding
        )
    sums = channels.sum_scratch(grad, 1) if bias_grad is not None else []
    if _by_tiles(weight_grad, stride):
        return [*sums, *winograd.weight_gradient_workspace(x, grad)]
    return [*sums, *direct.weight_gradient_workspace(x, grad, weight_grad, stride=stride, padding=padding)]


@operation(workspace=_weight_gradient_workspace, flops=reference.convolve_weight_gradient.flops)
def convolve_weight_gradient(
    x: Array,
    grad: Array,
    weight_grad: Array,
    bias_grad: Array | None,
    *,
    stride: int,
    padding: int,
    work: list[Array],
) -> None:
    """As the reference."""
    if not compiled(x, grad, weight_grad):
        return reference.convolve_weight_gradient.compute(
            x, grad, weight_grad, bias_grad, stride=stride, padding=padding, work=work
        )
    if bias_grad is not None:
        *sums, first, second, third = work
        work = [first, second, third]
        _add_row_sums(grad, bias_grad, *sums)
    if _by_tiles(weight_grad, stride):
        winograd.add_weight_gradient(x, grad, weight_grad, padding=padding, work=work)
    else:
        direct.add_weight_gradient(x, grad, weight_grad, stride=stride, padding=padding, work=work)


def _add_row_sums(grad: Array, bias_grad: Array, block: Array, total: Array) -> None:
    ranges = channels.ranges(grad)

    def gather(part: int) -> None:
        channels.sums(flat(grad), *ranges[part], block[part].reshape(-1), total[part].reshape(-1))

    in_parallel(gather, len(ranges))
    bias_grad += channels.channel_totals(total, len(ranges), grad.shape[-1])[0].astype(bias_grad.dtype)
