"""Convolution and linear operations against loops, in every storage precision and cut into many pieces."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laboratory import memory

from engine.memory import ArraySpec
from engine.ops import Operations
from engine.ops import operation as pieces
from engine.ops.reference import convolution

STORAGE = {"f8": 1e-11, "f4": 2e-5, "f2": 6e-3}  # the relative error that is allowed


def compare(got: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(got.astype(np.float64) / scale, expected / scale, atol=STORAGE[dtype], rtol=0)


def numbers(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def weights_dtype(dtype: str) -> str:
    return "f8" if dtype == "f8" else "f4"


@pytest.fixture
def operations() -> Operations:
    return Operations(memory())


def check_convolution(
    operations: Operations, dtype: str, x_shape: tuple, outputs: int, kernel: int, stride: int, padding: int
) -> None:
    height, width = ((size + 2 * padding - kernel) // stride + 1 for size in x_shape[1:3])
    out_shape = (x_shape[0], height, width, outputs)
    x, grad = numbers(dtype, *x_shape), numbers(dtype, *out_shape)
    weight, bias = (
        numbers(weights_dtype(dtype), outputs, kernel, kernel, x_shape[3]),
        numbers(weights_dtype(dtype), outputs),
    )
    geometry = {"stride": stride, "padding": padding}

    out = np.full(out_shape, np.nan, dtype)
    operations.convolve(x, weight, bias, out, **geometry)
    compare(out, oracles.convolve(x, weight, bias, out_shape, **geometry), dtype)
    operations.convolve(x, weight, None, out, **geometry)
    compare(out, oracles.convolve(x, weight, None, out_shape, **geometry), dtype)

    dx, dw, db = oracles.convolve_gradients(x, weight, grad, **geometry)
    out = np.full(x_shape, np.nan, dtype)
    operations.convolve_input_gradient(grad, weight, out, **geometry)
    compare(out, dx, dtype)
    before_weight, before_bias = numbers(weights_dtype(dtype), *weight.shape), numbers(weights_dtype(dtype), outputs)
    got_weight, got_bias = before_weight.copy(), before_bias.copy()
    operations.convolve_weight_gradient(x, grad, got_weight, got_bias, **geometry)
    compare(got_weight, before_weight + dw, dtype)
    compare(got_bias, before_bias + db, dtype)
    operations.convolve_weight_gradient(x, grad, got_weight, None, **geometry)
    compare(got_weight, before_weight + 2 * dw, dtype)
    assert operations.memory.total == 0


@pytest.mark.parametrize("column_bytes", [1, 600, 4000, 1 << 21])
@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(3, 1, 1), (3, 2, 1), (1, 1, 0), (1, 2, 0), (2, 1, 1), (3, 3, 0), (5, 2, 4)]
)
def test_convolution(
    operations: Operations,
    monkeypatch: pytest.MonkeyPatch,
    column_bytes: int,
    dtype: str,
    kernel: int,
    stride: int,
    padding: int,
) -> None:
    """Pieces of one row, of some rows, of some images, of all: with the last one always smaller than the others."""
    monkeypatch.setattr(convolution, "COLUMN_BYTES", column_bytes)
    check_convolution(operations, dtype, (3, 7, 6, 2), 2, kernel, stride, padding)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_convolution(data: st.DataObject) -> None:
    kernel = data.draw(st.integers(1, 4), "kernel")
    padding = data.draw(st.integers(0, kernel - 1), "padding")
    smallest = max(1, kernel - 2 * padding)
    shape = tuple(
        data.draw(st.integers(low, low + 3), name) for name, low in zip("nhwc", (1, smallest, smallest, 1), strict=True)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "COLUMN_BYTES", data.draw(st.sampled_from((1, 500, 1 << 21)), "column bytes"))
        outputs, stride = data.draw(st.integers(1, 3), "outputs"), data.draw(st.integers(1, 5), "stride")
        check_convolution(Operations(memory()), "f8", shape, outputs, kernel, stride, padding)


def test_the_columns_of_a_batch_are_never_all_there() -> None:
    """Scratch of a large convolution stays near the size of a piece, whatever the batch."""
    operation = convolution.convolve
    x, out = ArraySpec((256, 64, 64, 64), np.dtype("f4")), ArraySpec((256, 64, 64, 64), np.dtype("f4"))
    weight = ArraySpec((64, 3, 3, 64), np.dtype("f4"))
    scratch = sum(spec.nbytes for spec in operation.workspace(x, weight, None, out, stride=1, padding=1))
    assert scratch < 2 * convolution.COLUMN_BYTES
    assert x.nbytes * 9 > 1000 * convolution.COLUMN_BYTES


@pytest.mark.parametrize("piece_bytes", [1, 1 << 19])
@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(21, 5, 3), (1, 1, 1), (8, 3, 4)])
def test_linear(
    operations: Operations,
    monkeypatch: pytest.MonkeyPatch,
    piece_bytes: int,
    dtype: str,
    rows: int,
    inputs: int,
    outputs: int,
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", piece_bytes)
    x, grad = numbers(dtype, rows, inputs), numbers(dtype, rows, outputs)
    weight, bias = numbers(weights_dtype(dtype), outputs, inputs), numbers(weights_dtype(dtype), outputs)
    out = np.full((rows, outputs), np.nan, dtype)
    for offset in (bias, None):
        operations.linear(x, weight, offset, out)
        compare(out, oracles.linear(x, weight, offset), dtype)
    dx, dw, db = oracles.linear_gradients(x, weight, grad)
    out = np.full(x.shape, np.nan, dtype)
    operations.linear_input_gradient(grad, weight, out)
    compare(out, dx, dtype)
    got_weight, got_bias = np.ones_like(weight), np.ones_like(bias)
    operations.linear_weight_gradient(x, grad, got_weight, got_bias)
    compare(got_weight, 1 + dw, dtype)
    compare(got_bias, 1 + db, dtype)
    operations.linear_weight_gradient(x, grad, got_weight, None)
    compare(got_weight, 1 + 2 * dw, dtype)
    assert operations.memory.total == 0
