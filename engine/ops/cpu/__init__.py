"""The operations on the CPU: compiled kernels for the hot ones, the reference for all others."""

from typing import Any

from engine.ops import reference
from engine.ops.cpu import kernels
from engine.ops.cpu.convolution import convolve, convolve_input_gradient, convolve_weight_gradient
from engine.ops.cpu.dropout import dropout
from engine.ops.cpu.elementwise import add, converted, copy
from engine.ops.cpu.normalization import batch_norm, batch_norm_backward, channel_statistics
from engine.ops.cpu.pooling import max_pool, max_pool_backward
from engine.ops.cpu.update import adam_update


def __getattr__(name: str) -> Any:
    """What has no kernel of its own."""
    return globals().setdefault(name, converted(getattr(reference, name)))
