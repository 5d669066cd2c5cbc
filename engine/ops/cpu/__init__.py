"""The operations on the CPU: compiled kernels for the hot ones, the reference for all others."""

from typing import Any

from engine.ops import reference
from engine.ops.cpu.convolution import convolve, convolve_input_gradient, convolve_weight_gradient
from engine.ops.cpu.elementwise import adam_update, add, copy, relu, relu_backward, square_sum
from engine.ops.cpu.normalization import batch_norm, batch_norm_backward, channel_statistics
from engine.ops.cpu.pooling import global_average, global_average_backward, max_pool, max_pool_backward

__all__ = [
    "adam_update",
    "add",
    "batch_norm",
    "batch_norm_backward",
    "channel_statistics",
    "convolve",
    "convolve_input_gradient",
    "convolve_weight_gradient",
    "copy",
    "global_average",
    "global_average_backward",
    "max_pool",
    "max_pool_backward",
    "relu",
    "relu_backward",
    "square_sum",
]


def __getattr__(name: str) -> Any:
    """What has no kernel of its own."""
    return getattr(reference, name)
