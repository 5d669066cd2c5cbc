"""Batch norm and layer norm."""

from math import prod

from engine.layers.base import Builder, Layer, LayerError, Pass, Saved
from engine.memory import Array, ArraySpec, Shape


def _check_epsilon(layer: str, epsilon: float) -> None:
    if epsilon <= 0:
        raise LayerError(f"{layer}: epsilon must be above 0, got {epsilon}")


class BatchNorm(Layer):
    """y = gamma * (x - mean) / sqrt(variance + epsilon) + beta for each channel (Ioffe and Szegedy 2015).

    With `relu`, set where a ReLU follows, the ReLU is part of the same pass. Only x and the statistics are kept: the
    output is computed again where it is needed. Running statistics move once a window that is accepted:
    running = (1 - momentum) * running + momentum * batch, the variance unbiased.
    """

    cheap = keeps_input = True
    relu = False

    def __init__(self, momentum: float = 0.1, epsilon: float = 1e-5) -> None:
        _check_epsilon("batch_norm", epsilon)
        if not 0 < momentum <= 1:
            raise LayerError(f"batch_norm: momentum must lie above 0 and at most at 1, got {momentum}")
        self.momentum, self.epsilon = momentum, epsilon

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        channels = input_shape[-1]
        self.gamma = builder.parameter(f"{self.name}.gamma", (channels,), value=1.0)
        self.beta = builder.parameter(f"{self.name}.beta", (channels,), value=0.0)

        self.mean, self.variance = builder.statistic((channels,), 0.0), builder.statistic((channels,), 1.0)
        self._mean, self._inv_std = (builder.buffer((channels,), start, "activations") for start in (0.0, 1.0))
        self.gathered = builder.buffer((2, channels), float("nan"), "workspace")
        return input_shape

    @property
    def buffers(self) -> dict[str, Array]:
        return {f"{self.name}.running_mean": self.mean.value, f"{self.name}.running_variance": self.variance.value}

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        self.measure(x, run)
        return self.normalise(x, run)

    def measure(self, x: Array, run: Pass) -> None:
        """The statistics for the pass: the batch's in training (once, however often it is computed again), else the
        running ones.
        """
        operations = run.operations
        if not run.training:
            operations.copy(self.mean.value, self._mean)
            operations.inverse_deviation(self.variance.value, self._inv_std, epsilon=self.epsilon)
        elif not run.again:
            operations.channel_statistics(x, self._mean, self._inv_std, self.gathered)
            count = x.size // x.shape[-1]
            arrays = (self._mean, self._inv_std, self.mean.pending, self.variance.pending)
            factors = {"momentum": self.momentum, "unbias": count / max(count - 1, 1), "epsilon": self.epsilon}
            operations.enter_statistics(*arrays, **factors)

    def normalise(self, x: Array, run: Pass, skip: Array | None = None, mask: Array | None = None) -> Array:
        """The output under the statistics at hand; `skip` is added before the ReLU, whose bits go to `mask`."""
        arrays = (x, self._mean, self._inv_std, self.gamma.value, self.beta.value)
        return self.apply(run, run.operations.batch_norm, *arrays, skip=skip, relu=self.relu, mask=mask)

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        x, dx = saved["input"], self.reuse_input(run, saved)
        self.gradient_by_input(x, grad, grad if dx is None else dx, run)
        run.memory.give(grad)
        return dx

    def gradient_by_input(self, x: Array, grad: Array, out: Array, run: Pass, mask: Array | None = None) -> None:
        """Adds the gradients of gamma and beta, writes d loss / d x to `out`; `grad` becomes that of the sum before
        the ReLU.
        """
        arrays = (x, self._mean, self._inv_std, self.gamma.value, self.beta.value, grad)
        gradients = (self.gamma.gradient, self.beta.gradient, out)
        run.operations.batch_norm_backward(*arrays, *gradients, relu=self.relu, mask=mask)


class LayerNorm(Layer):
    """y = gamma * (x - mean) / sqrt(variance + epsilon) + beta over the last axis of each sample (Ba, Kiros and
    Hinton 2016).
    """

    cheap = keeps_input = True

    def __init__(self, epsilon: float = 1e-5) -> None:
        _check_epsilon("layer_norm", epsilon)
        self.epsilon = epsilon

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        self.gamma = builder.parameter(f"{self.name}.gamma", input_shape[-1:], value=1.0)
        self.beta = builder.parameter(f"{self.name}.beta", input_shape[-1:], value=0.0)
        self._parameter_dtype = builder.parameter_dtype
        return input_shape

    def _rows(self, batch: int) -> ArraySpec:
        return ArraySpec((batch * prod(self.input_shape[:-1]),), self._parameter_dtype)

    def saves(self, batch: int) -> dict[str, ArraySpec]:
        return super().saves(batch) | {"mean": self._rows(batch), "inv_std": self._rows(batch)}

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        mean, inv_std = (run.memory.take_like(self._rows(x.shape[0]), "activations") for _ in range(2))
        arrays = (x, self.gamma.value, self.beta.value, mean, inv_std)
        y = self.apply(run, run.operations.layer_norm, *arrays, epsilon=self.epsilon)
        if saved is None:
            run.memory.give(mean)
            run.memory.give(inv_std)
        else:
            saved.update(mean=mean, inv_std=inv_std)
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        x, dx = saved["input"], self.reuse_input(run, saved)
        arrays = (x, saved["mean"], saved["inv_std"], self.gamma.value, grad)
        gradients = (self.gamma.gradient, self.beta.gradient, grad if dx is None else dx)
        run.operations.layer_norm_backward(*arrays, *gradients)
        run.memory.give(grad)
        return dx
