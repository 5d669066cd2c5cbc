"""The operations on a card: kernels of our own and cuBLAS for the hot ones, the reference under CuPy for all others.

Arrays are float16 or float32 and lie in memory without gaps. CuPy is imported when the first kernel runs.
"""

from typing import Any

from engine.ops import reference
from engine.ops.cuda.convolution import (
    convolve,
    convolve_input_gradient,
    convolve_weight_gradient,
    linear,
    linear_input_gradient,
    linear_weight_gradient,
)
from engine.ops.cuda.normalization import batch_norm, batch_norm_backward, channel_statistics, enter_statistics
from engine.ops.cuda.passes import (
    cross_entropy,
    dropout,
    max_pool,
    max_pool_backward,
    relu,
    relu_backward,
    summarise,
)
from engine.ops.cuda.update import adam_update, square_sum


def __getattr__(name: str) -> Any:
    """What has no kernel of its own."""
    return getattr(reference, name)
