"""The presets: networks by name, as the layer tables a person could have written."""

from collections.abc import Callable
from typing import Any

from engine.errors import InputError, nearest

LayerTable = dict[str, Any]
Preset = Callable[..., list[LayerTable]]


def mlp(hidden: int = 256, depth: int = 2, dropout: float = 0.0) -> list[LayerTable]:
    """`depth` hidden layers of `hidden` units with ReLU."""
    layers: list[LayerTable] = [{"type": "flatten"}]
    for _ in range(depth):
        layers += [{"type": "linear", "out": hidden}, {"type": "relu"}]
        if dropout:
            layers.append({"type": "dropout", "rate": dropout})
    return [*layers, {"type": "linear"}]


def cnn8(width: float = 1.0) -> list[LayerTable]:
    """Eight 3x3 convolutions with batch norm and ReLU, two poolings, global average and a linear layer."""
    layers: list[LayerTable] = []
    for channels, pool in ((64, 0), (64, 0), (128, 1), (128, 0), (256, 0), (256, 1), (288, 0), (256, 0)):
        conv = {"type": "conv", "out": max(1, round(channels * width)), "bias": False}
        layers += [conv, {"type": "batch_norm"}, {"type": "relu"}]
        if pool:
            layers.append({"type": "max_pool", "size": 2})
    return [*layers, {"type": "global_average"}, {"type": "linear"}]


def res3(width: float = 1.0, blocks: int = 5) -> list[LayerTable]:
    """Three stages of 32, 64 and 128 channels, `blocks` residual blocks each, the first of a stage with stride 2."""
    layers: list[LayerTable] = []
    for channels in (32, 64, 128):
        for block in range(blocks):
            stride = 2 if block == 0 else 1
            layers.append({"type": "residual", "out": max(1, round(channels * width)), "stride": stride})
    return [*layers, {"type": "global_average"}, {"type": "linear"}]


PRESETS: dict[str, Preset] = {"mlp": mlp, "cnn8": cnn8, "res3": res3}


def layers(preset: str, options: dict[str, Any] | None = None) -> list[LayerTable]:
    """The layer tables of a preset. Raises InputError for an unknown preset or option."""
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}: expected one of {', '.join(PRESETS)}{nearest(preset, PRESETS)}")
    try:
        return PRESETS[preset](**(options or {}))
    except TypeError as error:
        raise InputError(f"preset {preset}: {error}") from None
