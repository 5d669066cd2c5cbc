"""Normalisation, pooling, activations, dropout and the small operations against loops, in every storage precision."""

import numpy as np
import oracles
import pytest
from laboratory import memory
from test_operations_products import STORAGE, compare, numbers, weights_dtype

from engine.ops import Operations
from engine.ops import operation as pieces
from engine.ops.packing import packed_mask, packed_positions
from engine.ops.reference import basic


@pytest.fixture
def operations() -> Operations:
    return Operations(memory())


@pytest.fixture(params=[1, 1 << 19], ids=["many pieces", "one piece"], autouse=True)
def piece_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Pieces of eight rows, or one piece."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", request.param)
    monkeypatch.setattr(basic, "_piece", lambda: 7 if request.param == 1 else request.param)
    return request.param


def nothing(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.full(shape, np.nan, dtype)


def mask_of(values: np.ndarray) -> np.ndarray:
    return np.packbits(values > 0)


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("shape", [(21, 3), (2, 3, 5, 7), (1, 1)])
def test_channel_statistics(operations: Operations, dtype: str, shape: tuple[int, ...]) -> None:
    x = numbers(dtype, *shape) + np.asarray(3, dtype)
    mean, variance = nothing(shape[-1:], weights_dtype(dtype)), nothing(shape[-1:], weights_dtype(dtype))
    operations.channel_statistics(x, mean, variance)
    expected = oracles.statistics(x.reshape(-1, shape[-1]).astype(np.float64))
    compare(mean, expected[0], weights_dtype(dtype))
    compare(variance, expected[1], weights_dtype(dtype))


def test_statistics_of_values_far_from_zero(operations: Operations) -> None:
    """Two passes: the variance of 10,000 +- 0.01 is not lost in single precision."""
    x = np.random.default_rng(0).normal(10_000, 0.05, (5000, 1)).astype(np.float32)
    mean, variance = nothing((1,), "f4"), nothing((1,), "f4")
    operations.channel_statistics(x, mean, variance)
    np.testing.assert_allclose(variance, x.astype(np.float64).var(), rtol=1e-3)


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("with_skip", [False, True])
@pytest.mark.parametrize("shape", [(21, 3), (2, 3, 3, 7)])
def test_batch_norm(operations: Operations, dtype: str, relu: bool, with_skip: bool, shape: tuple[int, ...]) -> None:
    wide, channels = weights_dtype(dtype), shape[-1]
    x, grad = numbers(dtype, *shape), numbers(dtype, 1, *shape)[0]
    skip = numbers(dtype, 2, *shape)[0] if with_skip else None
    gamma, beta = numbers(wide, channels), numbers(wide, 2, channels)[0]
    rows = x.reshape(-1, channels).astype(np.float64)
    mean, variance = oracles.statistics(rows)
    inv_std = 1.0 / np.sqrt(variance + 1e-5)
    statistics = (mean.astype(wide), inv_std.astype(wide))
    mask = np.zeros(packed_mask(shape).shape, np.uint8) if relu and with_skip else None

    out = nothing(shape, dtype)
    operations.batch_norm(x, *statistics, gamma, beta, out, skip=skip, relu=relu, mask=mask)
    flat_skip = skip.reshape(rows.shape).astype(np.float64) if with_skip else None
    expected = oracles.batch_norm(rows, mean, inv_std, gamma, beta, flat_skip, relu)
    compare(out, expected.reshape(shape), dtype)
    if mask is not None:
        np.testing.assert_array_equal(mask, mask_of(out))

    if relu and mask is None and with_skip:
        return
    upstream = grad.reshape(rows.shape).astype(np.float64) * (expected > 0 if relu else 1)
    dx, dgamma, dbeta = oracles.batch_norm_gradients(rows, inv_std, mean, gamma, upstream)
    got_gamma, got_beta, got, given = np.ones(channels, wide), np.ones(channels, wide), x.copy(), grad.copy()
    operations.batch_norm_backward(got, *statistics, gamma, beta, given, got_gamma, got_beta, got, relu=relu, mask=mask)
    compare(got, dx.reshape(shape), dtype)
    compare(given, upstream.reshape(shape), dtype)
    compare(got_gamma, 1 + dgamma, "f2" if dtype == "f2" else dtype)
    compare(got_beta, 1 + dbeta, "f2" if dtype == "f2" else dtype)
    assert operations.memory.total == 0


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("shape", [(21, 5), (2, 3, 3, 4), (3, 1)])
def test_layer_norm(operations: Operations, dtype: str, shape: tuple[int, ...]) -> None:
    wide, channels = weights_dtype(dtype), shape[-1]
    x, gamma, beta = numbers(dtype, *shape), numbers(wide, channels), numbers(wide, 2, channels)[0]
    count = x.size // channels
    mean, inv_std, out = nothing((count,), wide), nothing((count,), wide), nothing(shape, dtype)
    operations.layer_norm(x, gamma, beta, mean, inv_std, out, epsilon=1e-3)
    expected = oracles.layer_norm(x.reshape(-1, channels).astype(np.float64), gamma, beta, 1e-3)
    compare(out, expected[0].reshape(shape), dtype)
    compare(mean, expected[1], wide)
    compare(inv_std, expected[2], wide)


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_smooth_activations(operations: Operations, dtype: str, name: str) -> None:
    x, grad = 3 * numbers(dtype, 5, 3, 7), numbers(dtype, 2, 5, 3, 7)[0]
    out = nothing(x.shape, dtype)
    getattr(operations, name)(x, out)
    function = getattr(oracles, name)
    compare(out, np.vectorize(function)(x.astype(np.float64)), dtype)
    expected = grad * np.vectorize(lambda value: oracles.slope(function, value))(x.astype(np.float64))
    in_place = x.copy()
    getattr(operations, f"{name}_backward")(in_place, grad, in_place)
    np.testing.assert_allclose(in_place, expected, atol=max(STORAGE[dtype], 1e-8) * 5)


def test_gelu_is_near_the_exact_one_and_large_inputs_stay_finite(operations: Operations) -> None:
    x = np.array([[-1e4, -100.0, -3.0, -0.5, 0.0, 0.5, 3.0, 100.0, 1e4]], np.float32)
    out = nothing(x.shape, "f4")
    operations.gelu(x, out)
    np.testing.assert_allclose(out[0], [oracles.exact_gelu(value) for value in x[0]], atol=5e-4)
    for name in ("gelu", "silu"):
        in_place = x.copy()
        getattr(operations, f"{name}_backward")(in_place, np.ones_like(x), in_place)
        np.testing.assert_allclose(in_place[0, [0, 1, -2, -1]], [0, 0, 1, 1], atol=1e-6)


@pytest.mark.parametrize("dtype", STORAGE)
def test_relu(operations: Operations, dtype: str) -> None:
    x, grad = numbers(dtype, 5, 3, 7), numbers(dtype, 2, 5, 3, 7)[0]
    x[0, 0, :3] = 0.0, -0.0, np.nan
    out, mask = nothing(x.shape, dtype), np.full(packed_mask(x.shape).shape, 255, np.uint8)
    operations.relu(x, out, mask)
    np.testing.assert_array_equal(out, np.where(np.isnan(x) | (x > 0), x, 0))
    got = grad.copy()
    operations.relu_backward(mask, got, got)
    np.testing.assert_array_equal(got, np.where(x > 0, grad, 0))
    other = nothing(x.shape, dtype)
    operations.relu(x, other, None)
    np.testing.assert_array_equal(other, out)


POOLED = [((3, 4, 6, 3), 2), ((3, 5, 7, 3), 2), ((2, 7, 6, 2), 3), ((2, 3, 2, 1), 1), ((3, 6, 6, 1), 2)]


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize(("shape", "size"), POOLED)
def test_max_pool(operations: Operations, dtype: str, shape: tuple[int, ...], size: int) -> None:
    """Small whole numbers, so that many windows hold their largest value twice: the first one wins."""
    x = np.random.default_rng(1).integers(-2, 3, shape).astype(dtype)
    expected, where = oracles.max_pool(x.astype(np.float64), size)
    out, positions = (
        nothing(expected.shape, dtype),
        np.full(packed_positions(expected.shape, size).shape, 255, np.uint8),
    )
    operations.max_pool(x, out, positions, size=size)
    np.testing.assert_array_equal(out, expected)
    grad, dx = numbers(dtype, *expected.shape), nothing(shape, dtype)
    operations.max_pool_backward(positions, grad, dx, size=size)
    np.testing.assert_array_equal(dx, oracles.max_pool_gradient(where, grad, shape, size))
    other = nothing(expected.shape, dtype)
    operations.max_pool(x, other, None, size=size)
    np.testing.assert_array_equal(other, expected)
    assert operations.memory.total == 0


def test_max_pool_hands_nan_on(operations: Operations) -> None:
    for place in range(4):
        x = np.zeros((1, 2, 2, 1), np.float32)
        x.reshape(-1)[place] = np.nan
        for positions in (None, np.zeros((1, 1), np.uint8)):
            out = np.zeros((1, 1, 1, 1), np.float32)
            operations.max_pool(x, out, positions, size=2)
            assert np.isnan(out).all()


def test_four_positions_lie_in_a_byte() -> None:
    assert packed_positions((5, 4, 4, 3), 2).nbytes == 5 * 12
    assert packed_positions((5, 3, 3, 1), 2).nbytes == 5 * 3
    assert packed_positions((5, 3, 3, 1), 3).nbytes == 5 * 9


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize(("shape", "size"), POOLED)
def test_average_pool(operations: Operations, dtype: str, shape: tuple[int, ...], size: int) -> None:
    x = numbers(dtype, *shape)
    expected = oracles.average_pool(x.astype(np.float64), size)
    out = nothing(expected.shape, dtype)
    operations.average_pool(x, out, size=size)
    compare(out, expected, dtype)
    grad, dx = numbers(dtype, *expected.shape), nothing(shape, dtype)
    operations.average_pool_backward(grad, dx, size=size)
    compare(dx, oracles.average_pool_gradient(grad.astype(np.float64), shape, size), dtype)


@pytest.mark.parametrize("dtype", STORAGE)
def test_global_average(operations: Operations, dtype: str) -> None:
    x = numbers(dtype, 3, 4, 5, 2)
    out, dx = nothing((3, 2), dtype), nothing(x.shape, dtype)
    operations.summarise(x, out)
    compare(out, x.astype(np.float64).mean(axis=(1, 2)), dtype)
    grad = numbers(dtype, 3, 2)
    operations.global_average_backward(grad, dx)
    compare(dx, np.broadcast_to(grad.astype(np.float64)[:, None, None] / 20, x.shape), dtype)


def test_global_average_of_large_half_precision_images(operations: Operations) -> None:
    """The number of pixels, 65,536, and the sum are beyond half precision; the mean and its gradient are not."""
    x = np.full((1, 256, 256, 1), 2.0, np.float16)
    out = nothing((1, 1), "f2")
    operations.summarise(x, out)
    assert out[0, 0] == 2.0
    operations.global_average_backward(np.full((1, 1), 4096.0, np.float16), x)
    np.testing.assert_array_equal(x, np.float16(0.0625))


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean_and_the_share(operations: Operations, dtype: str, rate: float) -> None:
    x, out = np.ones((400, 31), dtype), nothing((400, 31), dtype)
    operations.dropout(x, np.array([2, 3]), out, rate=rate, seed=1, layer=4)
    values = out.astype(np.float64)
    np.testing.assert_allclose(values[values != 0], 1 / (1 - rate), rtol=STORAGE[dtype])
    deviation = np.sqrt(rate * (1 - rate) / x.size)
    assert abs((values == 0).mean() - rate) < 4 * deviation
    assert abs(np.corrcoef(values[:-1].ravel(), values[1:].ravel())[0, 1]) < 4 / np.sqrt(x.size)


def test_dropout_depends_on_its_counter_alone(operations: Operations, piece_bytes: int) -> None:
    """The same draws whatever the precision and the pieces, in place or not; others for each part of the counter."""
    x = np.ones((100, 31))
    drawn = {}
    for counter in [(1, 2, 3, 4), (0, 2, 3, 4), (1, 0, 3, 4), (1, 2, 0, 4), (1, 2, 3, 0)]:
        out = x.copy()
        place, options = np.array(counter[1:3]), {"rate": 0.5, "seed": counter[0], "layer": counter[3]}
        operations.dropout(out, place, out, **options)
        drawn[counter] = out.tobytes()
        for dtype in ("f4", "f2"):
            other = nothing(x.shape, dtype)
            operations.dropout(x.astype(dtype), place, other, **options)
            np.testing.assert_array_equal(other, out)
    assert len(set(drawn.values())) == len(drawn)
    first = np.frombuffer(drawn[1, 2, 3, 4]).reshape(x.shape)
    assert first[0, :8].tolist() == [2, 2, 0, 0, 0, 2, 2, 0]


def test_statistics_and_averages(operations: Operations) -> None:
    variance = np.array([0.25, 4.0], np.float32)
    operations.inverse_deviation(variance, variance, epsilon=0.0)
    np.testing.assert_array_equal(variance, [2.0, 0.5])
    average = np.array([1.0, 2.0], np.float32)
    operations.move_average(np.array([3.0, 4.0], np.float32), average, momentum=0.25)
    np.testing.assert_allclose(average, [0.75 + 0.25 * 3, 1.5 + 0.25 * 4])
    mean, variance, means, variances = np.array([[1.0, 2.0], [0.25, 4.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    operations.enter_statistics(mean, variance, means, variances, momentum=0.25, unbias=2.0, epsilon=0.0)
    np.testing.assert_allclose(means, [0.75 * 3 + 0.25 * 1, 0.75 * 4 + 0.25 * 2])
    np.testing.assert_allclose(variances, [0.75 * 5 + 0.5 * 0.25, 0.75 * 6 + 0.5 * 4])
    np.testing.assert_array_equal((mean, variance), [[1.0, 2.0], [2.0, 0.5]])


@pytest.mark.parametrize("dtype", STORAGE)
def test_small_operations(operations: Operations, dtype: str) -> None:
    x = numbers(dtype, 3, 5, 2)
    out = nothing((3, 10), dtype)
    operations.copy(x, out)
    np.testing.assert_array_equal(out, x.reshape(3, 10))
    operations.add(out, out)
    operations.scale(out, 0.5)
    np.testing.assert_array_equal(out, x.reshape(3, 10))
    values = operations.read(out)
    operations.fill(out, 2.0)
    assert (out == 2).all() and (values == x.reshape(3, 10)).all()
    wide = nothing((3, 10), "f4")
    operations.copy(x, wide)
    np.testing.assert_array_equal(wide, x.reshape(3, 10).astype("f4"))


@pytest.mark.parametrize("dtype", STORAGE)
def test_square_sum(operations: Operations, dtype: str) -> None:
    total = np.array([1.0])
    x = numbers(dtype, 11, 3)
    operations.square_sum(x, total)
    np.testing.assert_allclose(total[0], 1.0 + (x.astype(np.float64) ** 2).sum(), rtol=1e-12)


def test_square_sum_does_not_overflow(operations: Operations) -> None:
    total = np.zeros(1)
    operations.square_sum(np.full((40,), 1e30, np.float32), total)
    np.testing.assert_allclose(total[0], 40e60, rtol=1e-6)


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 6, 7, 32])
def test_is_finite(operations: Operations, dtype: str, bad: float, place: int) -> None:
    x = numbers(dtype, 11, 3)
    assert operations.is_finite(x) is True
    x.reshape(-1)[place] = bad
    assert operations.is_finite(x) is False
    total = np.zeros(1)
    operations.square_sum(x, total)
    assert not np.isfinite(total[0])
