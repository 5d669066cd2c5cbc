"""The fully connected product: a convolution of images of one pixel."""

from collections.abc import Callable
from typing import Any

from engine.memory import Array, Scratch
from engine.ops.operation import Operation
from engine.ops.reference.convolution import convolve, convolve_input_gradient, convolve_weight_gradient

GEOMETRY = {"stride": 1, "padding": 0}


def _of_one_pixel(like: Operation) -> Operation:
    """A convolution for (rows, inputs) or (rows, outputs), and weights (outputs, inputs)."""

    def with_images(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arrays: Array | None, **work: Scratch) -> Any:
            images = (
                each.reshape(-1, 1, 1, each.shape[-1]) if each is not None and len(each.shape) == 2 else each
                for each in arrays
            )
            return function(*images, **GEOMETRY, **work)

        return called

    return Operation(*map(with_images, (like.compute, like.workspace, like.flops)))


linear = _of_one_pixel(convolve)
"""(x, weight, bias, out): out = x @ weight^T + bias."""

linear_input_gradient = _of_one_pixel(convolve_input_gradient)
"""(grad, weight, out): out = grad @ weight."""

linear_weight_gradient = _of_one_pixel(convolve_weight_gradient)
"""(x, grad, weight_grad, bias_grad): weight_grad += grad^T @ x; bias_grad += sum of grad over the rows."""
