"""Attention: its operations and whole layers against loops, in every precision."""

import numpy as np
import oracles
import pytest
from laboratory import Lab, memory
from test_operations_products import STORAGE, compare, numbers

from engine.layers import ChannelAttention, EfficientChannelAttention, Layer, PositionAttention, SqueezeExcitation
from engine.ops import Operations

SHAPES = [(2, 3, 4, 5), (1, 1, 1, 1), (5, 1, 6, 3), (3, 4, 2, 1)]


@pytest.fixture(params=[1 << 19, 64], ids=["whole", "in pieces"])
def operations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Operations:
    monkeypatch.setattr("engine.ops.operation.PIECE_BYTES", request.param)
    return Operations(memory())


def summary_of(x: np.ndarray, over: str, maxima: bool) -> np.ndarray:
    """Means, or means and maxima, as the operations hold them."""
    mean, largest = oracles.means_and_maxima(x.astype(np.float64), over)
    kinds = [mean, largest] if maxima else [mean]
    return np.concatenate(kinds) if over == "positions" else np.stack(kinds, axis=-1)


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("over", "maxima"), [("positions", False), ("positions", True), ("channels", True)])
def test_means_and_maxima(operations: Operations, dtype: str, shape: tuple, over: str, maxima: bool) -> None:
    x = numbers(dtype, *shape)
    expected = summary_of(x, over, maxima)
    out = np.full(expected.shape, np.nan, dtype)
    operations.summarise(x, out)
    compare(out, expected, dtype)


def test_the_mean_of_large_half_precision_numbers_is_finite(operations: Operations) -> None:
    x, out = np.full((2, 8, 8, 3), 6e4, np.float16), np.empty((4, 3), np.float16)
    operations.summarise(x, out)
    np.testing.assert_array_equal(out, np.float16(6e4))


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("over", "maxima"), [("positions", False), ("positions", True), ("channels", True)])
def test_gradients_by_means_and_maxima_are_added(
    operations: Operations, dtype: str, shape: tuple, over: str, maxima: bool
) -> None:
    """Where several places hold the largest value they share its gradient; so do all of a mean."""
    x = np.round(numbers(dtype, *shape) * 2) / 2  # so that some values are equal
    grad = numbers(dtype, *summary_of(x, over, maxima).shape)
    out = numbers(dtype, *shape, 2)[..., 1].copy()
    before = out.astype(np.float64)
    operations.summarise_backward(x, grad, out)
    axes = (1, 2) if over == "positions" else (3,)
    wide = grad.astype(np.float64)
    kinds = np.split(wide, 2 if maxima else 1) if over == "positions" else [wide[..., k] for k in range(2)]
    kinds = [kind[:, None, None, :] if over == "positions" else kind[..., None] for kind in kinds]
    expected = before + kinds[0] * kinds[0].size / x.size
    if maxima:
        here = x == x.max(axis=axes, keepdims=True)
        expected += here * kinds[1] / here.sum(axis=axes, keepdims=True)
    compare(out, expected, dtype)


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["a channel", "two a channel", "a position"])
def test_gates(operations: Operations, dtype: str, shape: tuple, kind: str) -> None:
    n, height, width, channels = shape
    x, grad = numbers(dtype, 2, *shape)
    logits = numbers(dtype, *((n, height, width, 1) if kind == "a position" else (2 * n, channels)))
    total = logits.astype(np.float64)
    if kind == "a channel":
        logits, total = logits[:n].copy(), total[:n]
    elif kind == "two a channel":
        total = total[:n] + total[n:]
    else:
        total = total[..., 0]
    out, slopes = np.full(shape, np.nan, dtype), np.full(logits.shape, np.nan, dtype)
    operations.gate(x, logits, out)
    wide_x, wide_grad = x.astype(np.float64), grad.astype(np.float64)
    compare(out, oracles.gated(wide_x, total), dtype)
    operations.gate_backward(x, logits, grad, slopes)
    compare(grad, oracles.gated(wide_grad, total), dtype)
    by_gate = (wide_x * wide_grad).sum(axis=3 if kind == "a position" else (1, 2))
    slope = by_gate * np.vectorize(lambda z: oracles.sigmoid(z) * (1 - oracles.sigmoid(z)))(total)
    expected = slope[..., None] if kind == "a position" else np.concatenate([slope] * (len(logits) // n))
    compare(slopes, expected, dtype)


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize(("samples", "channels", "kernel"), [(3, 7, 3), (2, 9, 5), (1, 1, 3), (2, 2, 7), (4, 5, 1)])
def test_slide(operations: Operations, dtype: str, samples: int, channels: int, kernel: int) -> None:
    x, grad = numbers(dtype, 2, samples, channels)
    weight = numbers("f8" if dtype == "f8" else "f4", kernel)
    out, weight_grad = np.full(x.shape, np.nan, dtype), weight.copy()
    operations.slide(x, weight, out)
    compare(out, oracles.slide(x.astype(np.float64), weight), dtype)
    operations.slide_gradient(x, grad, weight_grad)
    by_weight = [(oracles.slide(x.astype(np.float64), unit) * grad).sum() for unit in np.eye(kernel)]
    compare(weight_grad, weight + np.array(by_weight), dtype)


def attention_by_hand(layer: Layer, x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """The layer's output in double precision, from its definition."""
    mean, largest = oracles.means_and_maxima(x, "channels" if isinstance(layer, PositionAttention) else "positions")
    if isinstance(layer, EfficientChannelAttention):
        return oracles.gated(x, oracles.slide(mean, weights["slide.weight"]))
    if isinstance(layer, PositionAttention):
        stacked = np.stack([mean, largest], axis=-1)
        logits = oracles.convolve(stacked, weights["conv.weight"], weights["conv.bias"], (*mean.shape, 1), 1, 3)
        return oracles.gated(x, logits[..., 0])

    def shared(rows: np.ndarray) -> np.ndarray:
        hidden = np.maximum(oracles.linear(rows, weights["reduce.weight"], weights["reduce.bias"]), 0)
        return oracles.linear(hidden, weights["expand.weight"], weights["expand.bias"])

    return oracles.gated(x, shared(mean) + shared(largest) if isinstance(layer, ChannelAttention) else shared(mean))


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("kind", [SqueezeExcitation, EfficientChannelAttention, ChannelAttention, PositionAttention])
def test_layers_are_what_their_definition_says(kind: type[Layer], dtype: str) -> None:
    lab = Lab(kind(), (4, 5, 36), np.dtype(dtype))
    x = numbers(dtype, 2, 4, 5, 36)
    weights = {name.removeprefix("layer."): each.value.astype(np.float64) for name, each in lab.parameters.items()}
    compare(lab.output(x), attention_by_hand(lab.layer, x.astype(np.float64), weights), dtype)


@pytest.mark.parametrize(("channels", "kernel"), [(1, 1), (16, 3), (64, 3), (128, 5), (256, 5), (512, 5), (2048, 7)])
def test_the_kernel_across_channels_grows_with_their_number(channels: int, kernel: int) -> None:
    """k is the odd number that (log2(C) + 1) / 2 is cut to, or the next one."""
    lab = Lab(EfficientChannelAttention(), (1, 1, channels))
    assert lab.parameters["layer.slide.weight"].value.shape == (kernel,)


def test_an_image_is_gated_by_itself_alone() -> None:
    for kind in (SqueezeExcitation, EfficientChannelAttention, ChannelAttention, PositionAttention):
        lab = Lab(kind(), (3, 3, 20))
        x = numbers("f8", 4, 3, 3, 20)
        together = lab.output(x)
        np.testing.assert_allclose(together, np.concatenate([lab.output(x[n : n + 1]) for n in range(4)]), rtol=1e-12)
