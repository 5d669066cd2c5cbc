"""All layer types by the name they have in a spec; the constructor's arguments are the keys of the layer's table."""

from engine.layers.activation import GELU, Dropout, ReLU, SiLU
from engine.layers.attention import ChannelAttention, EfficientChannelAttention, PositionAttention, SqueezeExcitation
from engine.layers.base import Builder, Layer, LayerError, Pass, Saved, Tables
from engine.layers.conv import Conv
from engine.layers.linear import Flatten, Linear
from engine.layers.norm import BatchNorm, LayerNorm
from engine.layers.parameters import FlatParameters, FlatStatistics
from engine.layers.pool import AveragePool, GlobalAverage, MaxPool
from engine.layers.residual import Residual
from engine.layers.whiten import Whiten

LAYERS: dict[str, type[Layer]] = {
    "linear": Linear, "flatten": Flatten, "conv": Conv, "batch_norm": BatchNorm, "layer_norm": LayerNorm, "relu": ReLU,
    "gelu": GELU, "silu": SiLU, "dropout": Dropout, "max_pool": MaxPool, "average_pool": AveragePool,
    "global_average": GlobalAverage, "residual": Residual, "whiten": Whiten, "se": SqueezeExcitation,
    "eca": EfficientChannelAttention, "cbam_channels": ChannelAttention, "cbam_positions": PositionAttention,
}  # fmt: skip

__all__ = ["LAYERS", "Builder", "FlatParameters", "FlatStatistics", "Layer", "LayerError", "Pass", "Saved", "Tables"]
