"""The operations on a card: kernels of our own and cuBLAS for the hot ones, the reference under CuPy for all others.

Arrays are float16 or float32 and lie in memory without gaps. CuPy is imported when the first kernel runs.
"""

from typing import Any

from engine.ops import reference
from engine.ops.cuda import convolution, normalization, passes, update
from engine.ops.operation import in_card_pieces, operations_of

globals().update(operations_of(convolution, normalization, passes, update))


def __getattr__(name: str) -> Any:
    """What has no kernel of its own."""
    return globals().setdefault(name, in_card_pieces(getattr(reference, name)))
