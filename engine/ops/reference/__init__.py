"""Every operation in plain array code that runs on NumPy and on CuPy alike: the specification the fast ones are
tested against.
"""

from engine.ops.operation import operations_of
from engine.ops.reference import activation, attention, basic, convolution, linear, loss, normalization, pooling, update

globals().update(operations_of(activation, attention, basic, convolution, linear, loss, normalization, pooling, update))
