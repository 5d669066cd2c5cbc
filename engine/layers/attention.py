"""Light attention: an image times gates between 0 and 1, one a channel or one a position, worked out from the image."""

from math import log2

from engine.layers.activation import ReLU
from engine.layers.base import Builder, Layer, Pass, Saved, image_shape
from engine.layers.block import Block
from engine.layers.conv import Conv
from engine.layers.linear import Linear
from engine.memory import Array, Shape


class _Attention(Layer):
    """y = x * sigmoid(g), where g comes from a small network over means, or means and maxima, of x.

    Only x is kept: the rest is small, and computed again in backward. `summary` of a subclass gives the shape of a row
    of means, and the layers from there to the gates by name.
    """

    cheap = keeps_input = True
    kind: str
    rows = 1  # an image: its means, or its means and its maxima

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        shape, parts = self.summary(*image_shape(self.kind, input_shape))
        self._summary = shape
        for name, part in parts.items():
            shape = part.place(builder, f"{self.name}.{name}", shape, self.dtype, self.dtype)
        self._network = Block(list(parts.values()))
        return input_shape

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        summary, logits = self._logits(x, run, None)
        run.memory.give(summary)
        y = self.apply(run, run.operations.gate, x, logits)
        run.memory.give(logits)
        return y

    def _logits(self, x: Array, run: Pass, kept: list[Saved] | None) -> tuple[Array, Array]:
        summary = run.memory.take((self.rows * x.shape[0], *self._summary), self.dtype, "workspace")
        run.operations.summarise(x, summary)
        return summary, self._network.forward(summary, run.holding(False), kept)

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        kept: list[Saved] = [{} for _ in self._network.layers]
        _, logits = self._logits(saved["input"], run, kept)
        slopes = run.memory.take(logits.shape, logits.dtype, "gradients")
        run.operations.gate_backward(saved["input"], logits, grad, slopes)
        run.memory.give(logits)
        by_summary = self._network.backward(slopes, run, kept, owns_input=True)
        run.operations.summarise_backward(saved["input"], by_summary, grad)
        run.memory.give(by_summary)
        if not self.needs_input_gradient:
            run.memory.give(grad)
            return None
        return grad if grad.dtype == self.input_dtype else self.apply_backward(run, run.operations.copy, grad)


class SqueezeExcitation(_Attention):
    """A gate a channel, from all channels' means by two linear layers (Hu, Shen and Sun 2018)."""

    kind = "se"

    def summary(self, height: int, width: int, channels: int) -> tuple[Shape, dict[str, Layer]]:
        hidden = Linear(max(1, channels // 16))
        return (channels,), {"reduce": hidden, "relu": ReLU(), "expand": Linear(channels)}


class EfficientChannelAttention(_Attention):
    """A gate a channel, from its neighbours' means: one kernel moves along the channels (Wang et al. 2020)."""

    kind = "eca"

    def summary(self, height: int, width: int, channels: int) -> tuple[Shape, dict[str, Layer]]:
        return (channels,), {"slide": _Slide(int((log2(channels) + 1) / 2) | 1)}


class ChannelAttention(SqueezeExcitation):
    """The first half of CBAM: as `se`, the same layers over the means and over the maxima (Woo et al. 2018)."""

    kind = "cbam_channels"
    rows = 2


class PositionAttention(_Attention):
    """The second half of CBAM: a gate a position, from its mean and maximum over channels by a convolution."""

    kind = "cbam_positions"

    def summary(self, height: int, width: int, channels: int) -> tuple[Shape, dict[str, Layer]]:
        return (height, width, 2), {"conv": Conv(1, kernel=7)}


class _Slide(Layer):
    """y[n, c] = sum over k of weight[k] * x[n, c + k - (kernel - 1) / 2], the kernel being of odd size."""

    keeps_input = True

    def __init__(self, kernel: int) -> None:
        self.kernel = kernel

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        self.weight = builder.parameter(f"{self.name}.weight", (self.kernel,), fan_in=self.kernel)
        return input_shape

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        return self.apply(run, run.operations.slide, x, self.weight.value)

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        run.operations.slide_gradient(saved["input"], grad, self.weight.gradient)
        dx = self.reuse_input(run, saved)
        run.operations.slide(grad, self.weight.value[::-1], dx)
        run.memory.give(grad)
        return dx
