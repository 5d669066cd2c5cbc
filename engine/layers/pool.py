"""Pooling layers over windows that do not overlap, and the average over the whole image."""

from engine.layers.base import Builder, Layer, LayerError, Pass, Saved, image_shape, positive
from engine.memory import Array, ArraySpec, Shape
from engine.ops.packing import packed_positions


class _Pool(Layer):
    """Windows of size x size, one output each; what is left over at the right and bottom edge is ignored."""

    cheap = True
    kind: str

    def __init__(self, size: int = 2) -> None:
        positive(self.kind, "size", size)
        self.size = size

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        *image, channels = image_shape(self.kind, input_shape)
        height, width = (pixels // self.size for pixels in image)
        if min(height, width) < 1:
            raise LayerError(
                f"{self.kind}: windows of {self.size}x{self.size} do not fit on images of {image[0]}x{image[1]}"
            )
        return (height, width, channels)


class MaxPool(_Pool):
    """The largest of each window; its position is kept, in two bits for 2x2."""

    kind = "max_pool"

    def saves(self, batch: int) -> dict[str, ArraySpec]:
        return {"positions": packed_positions((batch, *self.output_shape), self.size)}

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        y = self.output(x, run)
        run.operations.max_pool(x, y, self.keep("positions", x.shape[0], run, saved), size=self.size)
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        return self.apply_backward(run, run.operations.max_pool_backward, saved["positions"], grad, size=self.size)


class AveragePool(_Pool):
    """The mean of each window."""

    kind = "average_pool"

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        return self.apply(run, run.operations.average_pool, x, size=self.size)

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        return self.apply_backward(run, run.operations.average_pool_backward, grad, size=self.size)


class GlobalAverage(Layer):
    """The mean over height and width: (N, H, W, C) to (N, C)."""

    cheap = True

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        return image_shape("global_average", input_shape)[2:]

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        return self.apply(run, run.operations.summarise, x)

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        return self.apply_backward(run, run.operations.global_average_backward, grad)
