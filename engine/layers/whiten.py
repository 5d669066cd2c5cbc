"""A first convolution that is not trained but computed from the train images."""

import numpy as np

from engine.layers.base import Builder, LayerError, Pass, image_shape
from engine.layers.conv import Conv
from engine.layers.parameters import Parameter
from engine.memory import Array, Shape
from engine.ops import from_host

SAMPLES = 512  # at most so many images are looked at, at even distances
EPSILON = 5e-4  # keeps directions in which patches hardly vary from being blown up


class Whiten(Conv):
    """Convolution whose outputs over the train images are uncorrelated with variance 1, each with both signs.

    A patch of kernel x kernel pixels gives 2 * kernel^2 * channels numbers: p V / sqrt(e + epsilon), V and e the
    eigenvectors and eigenvalues of the patches' second moments, and the same negated (Jordan 2024).
    """

    kind = "whiten"

    def __init__(self, kernel: int = 2) -> None:
        super().__init__(1, kernel, padding=0, bias=False)

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        if self.index:
            raise LayerError("whiten is computed from the images themselves: it must be the first layer")
        self.out = 2 * self.kernel**2 * image_shape(self.kind, input_shape)[2]
        return super().build(builder, input_shape)

    def new_weight(self, builder: Builder, shape: Shape, fan_in: int) -> Parameter:
        return Parameter(f"{self.name}.weight", shape, False, lambda array: None, builder.buffer(shape, 0.0))

    @property
    def buffers(self) -> dict[str, Array]:
        return {self.weight.name: self.weight.value}

    def fit(self, images: np.ndarray, values: np.ndarray) -> None:
        """Computes the filters from some of the train images, uint8; `values` (channels, 256) normalises pixels."""
        moments, shape = 0.0, self.weight.value.shape
        chosen = images[np.arange(0, len(images), -(-len(images) // SAMPLES))]
        for image in chosen:
            normalised = values[np.arange(len(values)), image].astype(np.float64)
            windows = np.lib.stride_tricks.sliding_window_view(normalised, shape[1:3], axis=(0, 1))
            patches = np.moveaxis(windows, 2, -1).reshape(-1, shape[0] // 2)
            moments += patches.T @ patches / len(patches)
        variances, vectors = np.linalg.eigh(moments / len(chosen))
        filters = (vectors / np.sqrt(np.maximum(variances, 0.0) + EPSILON)).T[::-1]
        from_host(np.concatenate([filters, -filters]).reshape(shape), self.weight.value)

    def weight_gradient(self, x: Array, grad: Array, run: Pass) -> None:
        """Nothing: the filters are not trained."""
