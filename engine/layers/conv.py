"""Two-dimensional convolution of NHWC images."""

from engine.layers.base import Builder, Layer, LayerError, Pass, Saved, image_shape, positive
from engine.layers.parameters import Parameter
from engine.memory import Array, Shape

SAME = -1


class Conv(Layer):
    """Convolution with a square kernel; `padding` -1 keeps the size at stride 1 (kernel // 2 on each side).

    With `identity` as many outputs as there are inputs begin as these, unchanged (Zagoruyko and Komodakis 2017).
    """

    kind = "conv"
    keeps_input = True
    gathered: Array | None = None  # where a batch norm right behind it looks for statistics of the output

    def __init__(
        self, out: int, kernel: int = 3, stride: int = 1, padding: int = SAME, bias: bool = True, identity: bool = False
    ) -> None:
        for name, value in (("out", out), ("kernel", kernel), ("stride", stride)):
            positive(self.kind, name, value)
        if not SAME <= padding < kernel:
            raise LayerError(
                f"conv: padding must lie between 0 and kernel - 1 = {kernel - 1}, or be -1 for kernel // 2; "
                f"got {padding}"
            )
        self.out, self.kernel, self.stride, self.bias, self.identity = out, kernel, stride, bias, identity
        self.padding = kernel // 2 if padding == SAME else padding

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        *size, channels = image_shape(self.kind, input_shape)
        height, width = ((pixels + 2 * self.padding - self.kernel) // self.stride + 1 for pixels in size)
        if min(height, width) < 1:
            kernel = f"{self.kernel}x{self.kernel}"
            raise LayerError(f"{self.kind}: a {kernel} kernel does not fit on {size[0]}x{size[1]} images")
        fan_in = self.kernel**2 * channels
        shape = (self.out, self.kernel, self.kernel, channels)
        self.weight = self.new_weight(builder, shape, fan_in)
        self.offset = builder.parameter(f"{self.name}.bias", (self.out,), fan_in=fan_in) if self.bias else None
        self._geometry = {"stride": self.stride, "padding": self.padding}
        return (height, width, self.out)

    def new_weight(self, builder: Builder, shape: Shape, fan_in: int) -> Parameter:
        """The kernels, one for each output channel."""
        return builder.parameter(f"{self.name}.weight", shape, fan_in=fan_in, identity=self.identity)

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        y, gathered = self.output(x, run), self.gathered if run.training and not run.again else None
        bias = self.offset.value if self.offset else None
        run.operations.convolve(x, self.weight.value, bias, y, gathered, **self._geometry)
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        self.weight_gradient(saved["input"], grad, run)
        if (dx := self.reuse_input(run, saved)) is not None:
            self.gradient_by_input(grad, dx, run)
        run.memory.give(grad)
        return dx

    def weight_gradient(self, x: Array, grad: Array, run: Pass) -> None:
        """Adds d loss / d weight and d loss / d bias."""
        bias_gradient = self.offset.gradient if self.offset else None
        run.operations.convolve_weight_gradient(x, grad, self.weight.gradient, bias_gradient, **self._geometry)

    def gradient_by_input(self, grad: Array, out: Array, run: Pass) -> None:
        """Writes d loss / d input to `out`."""
        run.operations.convolve_input_gradient(grad, self.weight.value, out, **self._geometry)
