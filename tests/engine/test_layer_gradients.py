"""Every layer's backward pass against central differences of its forward pass, in double precision."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laboratory import Lab, check_gradient

from engine.layers import (
    GELU,
    LAYERS,
    AveragePool,
    BatchNorm,
    ChannelAttention,
    Conv,
    Dropout,
    EfficientChannelAttention,
    Flatten,
    GlobalAverage,
    LayerNorm,
    Linear,
    MaxPool,
    PositionAttention,
    ReLU,
    Residual,
    SiLU,
    SqueezeExcitation,
    Whiten,
)


def norm_and_relu() -> BatchNorm:
    layer = BatchNorm()
    layer.relu = True
    return layer


CASES = {
    "linear": (lambda: Linear(4), (5,), 3),
    "linear to the task's outputs": (lambda: Linear(), (4,), 2),
    "linear without bias, one of each": (lambda: Linear(1, bias=False), (1,), 1),
    "linear with its output scaled": (lambda: Linear(3, scale=0.25), (4,), 3),
    "flatten": (Flatten, (2, 3, 2), 2),
    "conv": (lambda: Conv(3), (5, 4, 2), 2),
    "conv 1x1": (lambda: Conv(3, kernel=1), (3, 4, 2), 2),
    "conv even kernel grows": (lambda: Conv(2, kernel=2), (3, 3, 1), 2),
    "conv stride with rows left over": (lambda: Conv(2, kernel=3, stride=2, padding=0), (6, 8, 2), 2),
    "conv stride beyond the kernel": (lambda: Conv(2, kernel=1, stride=3), (7, 5, 1), 1),
    "conv no bias, one channel, one image": (lambda: Conv(1, kernel=5, bias=False), (5, 6, 1), 1),
    "conv kernel as large as the image": (lambda: Conv(2, kernel=4, padding=0), (4, 4, 3), 2),
    "batch norm of rows": (BatchNorm, (4,), 6),
    "batch norm of images": (BatchNorm, (3, 2, 3), 2),
    "batch norm of one row": (BatchNorm, (4,), 1),
    "batch norm of one image": (BatchNorm, (3, 3, 1), 1),
    "batch norm and relu": (norm_and_relu, (3, 3, 5), 3),
    "batch norm and relu of rows": (norm_and_relu, (7,), 5),
    "layer norm of rows": (LayerNorm, (6,), 3),
    "layer norm of images": (LayerNorm, (2, 3, 4), 2),
    "layer norm of one channel": (LayerNorm, (2, 2, 1), 2),
    "relu": (ReLU, (3, 5), 3),
    "gelu": (GELU, (2, 3, 4), 2),
    "silu": (SiLU, (7,), 3),
    "dropout": (lambda: Dropout(0.4), (11,), 4),
    "dropout of nothing": (lambda: Dropout(0.0), (3,), 4),
    "max pool": (MaxPool, (4, 6, 3), 2),
    "max pool with rows and columns left over": (MaxPool, (5, 7, 3), 3),
    "max pool 3": (lambda: MaxPool(3), (8, 6, 1), 2),
    "max pool 1": (lambda: MaxPool(1), (2, 3, 2), 2),
    "average pool": (AveragePool, (4, 4, 2), 2),
    "average pool 3 with rows and columns left over": (lambda: AveragePool(3), (7, 8, 1), 2),
    "global average": (GlobalAverage, (3, 5, 2), 2),
    "whiten": (Whiten, (4, 5, 2), 2),
    "whiten larger patches": (lambda: Whiten(kernel=3), (3, 4, 1), 2),
    "squeeze and excitation": (SqueezeExcitation, (3, 4, 5), 3),
    "squeeze and excitation of many channels": (SqueezeExcitation, (2, 3, 40), 2),
    "squeeze and excitation of one channel, position and image": (SqueezeExcitation, (1, 1, 1), 1),
    "efficient channel attention": (EfficientChannelAttention, (3, 4, 9), 3),
    "efficient channel attention with a wider kernel": (EfficientChannelAttention, (2, 1, 128), 2),
    "efficient channel attention of one channel": (EfficientChannelAttention, (3, 2, 1), 1),
    "channel attention": (ChannelAttention, (3, 4, 5), 3),
    "channel attention of one image": (ChannelAttention, (4, 3, 33), 1),
    "position attention": (PositionAttention, (3, 4, 5), 3),
    "position attention larger than its kernel": (PositionAttention, (9, 8, 2), 2),
    "position attention of one channel": (PositionAttention, (3, 5, 1), 1),
    "residual": (lambda: Residual(3), (4, 4, 3), 2),
    "residual of one channel and one image": (lambda: Residual(1), (3, 3, 1), 1),
    "residual with more channels": (lambda: Residual(4), (3, 4, 2), 2),
    "residual with stride on an odd size": (lambda: Residual(3, stride=2), (5, 7, 3), 2),
}


def test_every_layer_is_checked() -> None:
    assert {type(make()) for make, _, _ in CASES.values()} == set(LAYERS.values())


def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def shake(lab: Lab) -> None:
    """Parameters away from the values that hide mistakes, such as gamma = 1 and beta = 0."""
    for number, parameter in enumerate(lab.parameters.values()):
        parameter.value[...] += 0.5 * numbers(parameter.value.shape, 40 + number)


def check_layer(lab: Lab, batch: int) -> None:
    shake(lab)
    x = numbers((batch, *lab.layer.input_shape), 1)
    upstream = numbers((batch, *lab.layer.output_shape), 2)
    dx, gradients = lab.gradients(x, upstream)

    def function() -> float:
        return float((lab.output(x) * upstream).sum())

    check_gradient(function, x, dx)
    for name, parameter in lab.parameters.items():
        check_gradient(function, parameter.value, gradients[name])


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    make, input_shape, batch = CASES[name]
    check_layer(Lab(make(), input_shape), batch)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_gradients_of_any_convolution(data: st.DataObject) -> None:
    kernel = data.draw(st.integers(1, 4), "kernel")
    padding = data.draw(st.integers(-1, kernel - 1), "padding")
    stride = data.draw(st.integers(1, 4), "stride")
    smallest = max(1, kernel - 2 * (kernel // 2 if padding < 0 else padding))
    height, width = (data.draw(st.integers(smallest, smallest + 4), name) for name in ("height", "width"))
    channels, out, batch = (data.draw(st.integers(1, 3), name) for name in ("channels", "out", "batch"))
    layer = Conv(out, kernel=kernel, stride=stride, padding=padding, bias=data.draw(st.booleans(), "bias"))
    check_layer(Lab(layer, (height, width, channels)), batch)


@pytest.mark.parametrize("name", CASES)
def test_gradients_add_up_and_do_not_depend_on_the_input_s_being_wanted(name: str) -> None:
    """A first layer gets no gradient by its input; its parameters' gradients are the same, added to what is there."""
    make, input_shape, batch = CASES[name]
    x = numbers((batch, *input_shape), 1)
    wanted, first = (Lab(make(), input_shape, input_gradient=flag) for flag in (True, False))
    upstream = numbers((batch, *wanted.layer.output_shape), 2)
    _, expected = wanted.gradients(x, upstream)
    got, gradients = first.gradients(x, upstream)
    if first.parameters:
        assert got is None
    for parameter in gradients:
        np.testing.assert_array_equal(gradients[parameter], expected[parameter])


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("flatten", "dropout of nothing")])
def test_gradients_are_added_to_those_of_earlier_micro_batches(name: str) -> None:
    make, input_shape, batch = CASES[name]
    lab = Lab(make(), input_shape)
    x = numbers((batch, *input_shape), 1)
    upstream = numbers((batch, *lab.layer.output_shape), 2)
    _, once = lab.gradients(x, upstream)
    held, saved = lab.take(x), {}
    y = lab.layer.forward(held, lab.run(), saved)
    if "input" in lab.layer.saves(batch):
        saved["input"] = held
    lab.layer.backward(lab.take(upstream, "gradients"), lab.run(), saved)
    for parameter in lab.parameters.values():
        np.testing.assert_allclose(parameter.gradient, 2 * once[parameter.name], rtol=1e-12, atol=1e-14)
    assert y.shape == upstream.shape


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("inputs", "outputs"), [("f2", "f2"), ("f4", "f2"), ("f2", "f4")])
def test_half_precision_storage_is_close(case: str, inputs: str, outputs: str) -> None:
    """The same pass in half precision, and where a layer kept in single precision meets its neighbours."""
    make, input_shape, batch = CASES[case]
    exact = Lab(make(), input_shape)
    half = Lab(make(), input_shape, np.dtype(outputs), input_dtype=np.dtype(inputs))
    shake(exact)
    for name, parameter in half.parameters.items():
        parameter.value[...] = exact.parameters[name].value
    x = numbers((batch, *input_shape), 1).astype(np.float16).astype(np.float64)
    upstream = numbers((batch, *exact.layer.output_shape), 2).astype(np.float16).astype(np.float64)
    y, dx_and_gradients = exact.output(x), exact.gradients(x, upstream)
    np.testing.assert_allclose(half.output(x), y, atol=6e-3 * (1 + np.abs(y).max()))
    dx, gradients = half.gradients(x, upstream)
    close(dx, dx_and_gradients[0])
    for parameter, gradient in gradients.items():
        close(gradient, dx_and_gradients[1][parameter])


def close(got: np.ndarray, expected: np.ndarray) -> None:
    """A rounded value may fall on the other side of a kink, so a few elements may differ by more than rounding."""
    off = np.abs(got - expected) > 1e-2 * (1 + np.abs(expected).max())
    assert off.mean() <= 0.1
