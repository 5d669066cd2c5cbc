"""The presets: networks by name, as the layer tables a person could have written."""

from collections.abc import Callable
from typing import Any, Literal

from engine.errors import InputError, nearest

LayerTable = dict[str, Any]
Preset = Callable[..., list[LayerTable]]
Attention = Literal["none", "se", "eca", "cbam"]
ATTENTION = {"none": (), "se": ("se",), "eca": ("eca",), "cbam": ("cbam_channels", "cbam_positions")}


def mlp(hidden: int = 256, depth: int = 2, dropout: float = 0.0) -> list[LayerTable]:
    """`depth` hidden layers of `hidden` units with ReLU."""
    layers: list[LayerTable] = [{"type": "flatten"}]
    for _ in range(depth):
        layers += [{"type": "linear", "out": hidden}, {"type": "relu"}]
        if dropout:
            layers.append({"type": "dropout", "rate": dropout})
    return [*layers, {"type": "linear"}]


def cnn8(width: float = 1.0, attention: Attention = "none") -> list[LayerTable]:
    """Eight 3x3 convolutions with batch norm and ReLU, two poolings, global average and a linear layer; attention at
    the end of each of the three sizes.
    """
    layers: list[LayerTable] = []
    for stage in ((64, 64, 128), (128, 256, 256), (288, 256)):
        if layers:
            layers.append({"type": "max_pool", "size": 2})
        for channels in stage:
            conv = {"type": "conv", "out": _scaled(channels, width), "bias": False}
            layers += [conv, {"type": "batch_norm"}, {"type": "relu"}]
        layers += _attention(attention)
    return [*layers, {"type": "global_average"}, {"type": "linear"}]


def res3(
    width: float = 1.0, blocks: int = 5, widths: tuple[int, ...] = (32, 64, 128), attention: Attention = "none"
) -> list[LayerTable]:
    """A stage of `blocks` residual blocks for each of `widths`, the first one of a stage with stride 2; attention
    behind each block.
    """
    layers: list[LayerTable] = []
    for channels in widths:
        for block in range(blocks):
            layers.append({"type": "residual", "out": _scaled(channels, width), "stride": 1 if block else 2})
            layers += _attention(attention)
    return [*layers, {"type": "global_average"}, {"type": "linear"}]


def air(width: float = 1.0) -> list[LayerTable]:
    """Fast on small images, in the spirit of airbench (Jordan 2024): a whitening first convolution, three wide and
    shallow stages, each of which halves the image behind its first convolution, convolutions that begin as the
    identity, and outputs scaled down.
    """
    norm = [{"type": "batch_norm"}, {"type": "gelu"}]
    layers: list[LayerTable] = [{"type": "whiten"}, {"type": "gelu"}]
    for channels in (64, 256, 256):
        conv = {"type": "conv", "out": _scaled(channels, width), "bias": False, "identity": True}
        layers += [conv, {"type": "max_pool"}, *norm, conv, *norm]
    head = {"type": "linear", "bias": False, "scale": 1 / 9}
    return [*layers, {"type": "max_pool", "size": 3}, {"type": "global_average"}, head]


def _scaled(channels: int, width: float) -> int:
    return max(1, round(channels * width))


def _attention(kind: str) -> list[LayerTable]:
    if kind not in ATTENTION:
        raise InputError(
            f"unknown attention {kind!r}: expected one of {', '.join(ATTENTION)}{nearest(kind, ATTENTION)}"
        )
    return [{"type": layer} for layer in ATTENTION[kind]]


PRESETS: dict[str, Preset] = {"mlp": mlp, "cnn8": cnn8, "res3": res3, "air": air}


def layers(preset: str, options: dict[str, Any] | None = None) -> list[LayerTable]:
    """The layer tables of a preset. Raises InputError for an unknown preset or option."""
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}: expected one of {', '.join(PRESETS)}{nearest(preset, PRESETS)}")
    try:
        return PRESETS[preset](**(options or {}))
    except TypeError as error:
        raise InputError(f"preset {preset}: {error}") from None
