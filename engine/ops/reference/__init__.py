"""Every operation in plain array code that runs on NumPy and on CuPy alike: the specification the fast ones are
tested against.
"""

from engine.ops.reference.activation import dropout, gelu, gelu_backward, relu, relu_backward, silu, silu_backward
from engine.ops.reference.attention import gate, gate_backward, slide, slide_gradient, summarise, summarise_backward
from engine.ops.reference.basic import add, copy, fill, is_finite, read, scale, square_sum
from engine.ops.reference.convolution import convolve, convolve_input_gradient, convolve_weight_gradient
from engine.ops.reference.linear import linear, linear_input_gradient, linear_weight_gradient
from engine.ops.reference.loss import cross_entropy, huber, mean_squared_error, regression_sums
from engine.ops.reference.normalization import (
    batch_norm,
    batch_norm_backward,
    channel_statistics,
    enter_statistics,
    inverse_deviation,
    layer_norm,
    layer_norm_backward,
)
from engine.ops.reference.pooling import (
    average_pool,
    average_pool_backward,
    global_average_backward,
    max_pool,
    max_pool_backward,
)
from engine.ops.reference.update import adam_update, move_average, sgd_update
