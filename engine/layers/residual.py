"""The basic residual block (He et al. 2016)."""

from engine.layers.base import Builder, Layer, Pass, Saved, image_shape, positive
from engine.layers.conv import Conv
from engine.layers.norm import BatchNorm
from engine.memory import Array, ArraySpec, Shape
from engine.ops.packing import packed_mask


class Residual(Layer):
    """y = relu(bn2(conv2(relu(bn1(conv1(x))))) + skip(x)) with 3x3 convolutions without bias.

    The skip is x itself, or a 1x1 convolution where the stride or the number of channels changes. Kept are x, the
    outputs of the two convolutions and one bit an element for the last ReLU; what lies between is computed again in
    backward.
    """

    keeps_input = True

    def __init__(self, out: int, stride: int = 1) -> None:
        positive("residual", "out", out)
        positive("residual", "stride", stride)
        self.out, self.stride = out, stride

    def build(self, builder: Builder, input_shape: Shape) -> Shape:
        *_, channels = image_shape("residual", input_shape)
        self.conv1, self.norm1 = Conv(self.out, stride=self.stride, bias=False), BatchNorm()
        self.conv2, self.norm2 = Conv(self.out, bias=False), BatchNorm()
        self.norm1.relu = self.norm2.relu = True
        plain = self.stride == 1 and channels == self.out
        self.skip = None if plain else Conv(self.out, kernel=1, stride=self.stride, bias=False)
        middle = self.conv1.place(builder, f"{self.name}.conv1", input_shape, self.input_dtype, self.dtype)
        for name, part in (("norm1", self.norm1), ("conv2", self.conv2), ("norm2", self.norm2)):
            part.place(builder, f"{self.name}.{name}", middle, self.dtype, self.dtype)
        self.conv1.gathered, self.conv2.gathered = self.norm1.gathered, self.norm2.gathered
        if self.skip:
            self.skip.place(builder, f"{self.name}.skip", input_shape, self.input_dtype, self.dtype)
        return middle

    @property
    def buffers(self) -> dict[str, Array]:
        return {**self.norm1.buffers, **self.norm2.buffers}

    def saves(self, batch: int) -> dict[str, ArraySpec]:
        inner = {"conv1": self.output_spec(batch), "conv2": self.output_spec(batch)}
        return super().saves(batch) | inner | {"mask": packed_mask((batch, *self.output_shape))}

    def forward(self, x: Array, run: Pass, saved: Saved | None) -> Array:
        inner, passing = run.holding(saved is not None), run.holding(False)
        c1 = self.conv1.forward(x, inner, None)
        a1 = self.norm1.forward(c1, passing, None)
        if saved is None:
            run.memory.give(c1)
        c2 = self.conv2.forward(a1, inner, None)
        run.memory.give(a1)
        self.norm2.measure(c2, run)
        skip = self.skip.forward(x, passing, None) if self.skip else x
        y = self.norm2.normalise(c2, run, skip, self.keep("mask", x.shape[0], run, saved))
        if self.skip:
            run.memory.give(skip)
        if saved is None:
            run.memory.give(c2)
        else:
            saved.update(conv1=c1, conv2=c2)
        return y

    def backward(self, grad: Array, run: Pass, saved: Saved) -> Array | None:
        x, c1, c2, mask = saved["input"], saved.pop("conv1"), saved.pop("conv2"), saved.pop("mask")
        # from here on `grad` is the gradient by the sum before the last ReLU, and so by the skip
        self.norm2.gradient_by_input(c2, grad, run.memory.move(c2, "gradients"), run, mask)
        run.memory.give(mask)
        a1 = self.norm1.normalise(c1, run)
        da1 = self.conv2.backward(c2, run, {"input": a1})
        dc1 = self.norm1.backward(da1, run, {"input": c1})
        dx_skip = grad
        if self.skip:
            self.skip.weight_gradient(x, grad, run)
            dx_skip = None
            if self.needs_input_gradient:
                dx_skip = self.input_gradient(x.shape[0], run)
                self.skip.gradient_by_input(grad, dx_skip, run)
            run.memory.give(grad)
        self.conv1.needs_input_gradient = self.needs_input_gradient
        dx = self.conv1.backward(dc1, run, saved)
        if dx is not None:
            run.operations.add(dx_skip, dx)
        if dx_skip is not None:
            run.memory.give(dx_skip)
        return dx
