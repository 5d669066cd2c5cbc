"""The operations on the CPU: compiled kernels for the hot ones, the reference for all others."""

from typing import Any

from engine.ops import reference
from engine.ops.cpu import convolution, dropout, elementwise, loss, normalization, pooling, update
from engine.ops.operation import operations_of

globals().update(operations_of(convolution, dropout, elementwise, loss, normalization, pooling, update))


def __getattr__(name: str) -> Any:
    """What has no kernel of its own."""
    return globals().setdefault(name, elementwise.converted(getattr(reference, name)))
