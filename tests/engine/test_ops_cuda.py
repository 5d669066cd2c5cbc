"""The operations of a card against the reference: kernels built for the CPU, NumPy in the place of CuPy and cuBLAS."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_cpu import both_ways, build, stand_in
from cuda_on_cpu.both_ways import compare, on_the_card, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.memory import ArraySpec
from engine.ops import cuda, kernels_named, reference, to_host
from engine.ops.cuda import convolution
from engine.ops.operation import Operation
from engine.ops.packing import packed_mask, packed_positions

pytestmark = pytest.mark.skipif(bool(build.obstacle()), reason=build.obstacle() or "-")

STORED = [np.float32, np.float16]
SINGLE = np.float32


@pytest.fixture(autouse=True)
def card():
    with stand_in.installed():
        yield


@pytest.fixture
def random():
    return np.random.default_rng(5)


def normal(random, shape, dtype=SINGLE):
    return random.standard_normal(shape).astype(dtype)


CONVOLUTIONS = [
    # batch, height, width, inputs, outputs, kernel, stride, padding
    (2, 7, 9, 17, 19, 3, 1, 1),
    (1, 5, 5, 16, 16, 3, 1, 0),
    (3, 6, 8, 33, 20, 3, 1, 2),
    (2, 9, 7, 3, 16, 3, 1, 1),
    (2, 9, 8, 8, 7, 3, 2, 1),
    (1, 1, 1, 4, 3, 1, 1, 0),
    (2, 5, 6, 8, 16, 1, 1, 0),
    (2, 8, 9, 6, 10, 1, 2, 0),
    (2, 11, 6, 3, 18, 5, 3, 2),
    (3, 6, 6, 2, 1, 4, 1, 3),
    (2, 20, 13, 1, 17, 7, 2, 3),
]


def convolve_all(random, shape, stored, made):
    batch, height, width, inputs, outputs, kernel, stride, padding = shape
    x = normal(random, (batch, height, width, inputs), stored)
    weight = normal(random, (outputs, kernel, kernel, inputs)) / SINGLE(np.sqrt(kernel * kernel * inputs))
    bias = normal(random, outputs)
    size = [(extent + 2 * padding - kernel) // stride + 1 for extent in (height, width)]
    out = np.zeros((batch, *size, outputs), made)
    grad, before = normal(random, out.shape, made), normal(random, weight.shape)
    loose = {"dtype": np.float16 if np.float16 in (stored, made) else SINGLE, "stride": stride, "padding": padding}
    compare("convolve", x, weight, bias, out, **loose)
    compare("convolve", x, weight, None, out, **loose)
    compare("convolve_input_gradient", grad, weight, np.zeros_like(x), **loose)
    compare("convolve_weight_gradient", x, grad, before, bias, **loose)
    compare("convolve_weight_gradient", x, grad, before, None, **loose)


@pytest.mark.parametrize("piece_bytes", [400, convolution.COLUMN_BYTES])
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", CONVOLUTIONS, ids=str)
def test_convolution(random, monkeypatch, shape, stored, piece_bytes):
    monkeypatch.setattr(convolution, "COLUMN_BYTES", piece_bytes)
    convolve_all(random, shape, stored, stored)


@pytest.mark.parametrize("shape", [CONVOLUTIONS[0], CONVOLUTIONS[4], CONVOLUTIONS[6]], ids=str)
@pytest.mark.parametrize("precisions", [(np.float16, SINGLE), (SINGLE, np.float16)], ids=str)
def test_convolution_between_precisions(random, shape, precisions):
    convolve_all(random, shape, *precisions)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.tuples(st.integers(1, 3), *[st.integers(1, 9)] * 2, *[st.integers(1, 17)] * 2, st.integers(1, 4)),
    st.integers(1, 3), st.integers(0, 3), st.sampled_from(STORED), st.integers(100, 4000),
)  # fmt: skip
def test_any_convolution(monkeypatch, sizes, stride, padding, stored, piece_bytes):
    kernel = sizes[-1]
    padding %= kernel
    if min(sizes[1:3]) + 2 * padding >= kernel:
        monkeypatch.setattr(convolution, "COLUMN_BYTES", piece_bytes)
        convolve_all(np.random.default_rng(0), (*sizes, stride, padding), stored, stored)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("sizes", [(7, 5, 3), (1, 1, 1), (70, 24, 16)], ids=str)
def test_linear(random, sizes, stored):
    rows, inputs, outputs = sizes
    x, weight, bias = normal(random, (rows, inputs), stored), normal(random, (outputs, inputs)), normal(random, outputs)
    weight /= SINGLE(np.sqrt(inputs))
    grad = normal(random, (rows, outputs), stored)
    compare("linear", x, weight, bias, np.zeros_like(grad), dtype=stored)
    compare("linear", x, weight, None, np.zeros(grad.shape, SINGLE), dtype=stored)
    compare("linear_input_gradient", grad, weight, np.zeros_like(x), dtype=stored)
    compare("linear_weight_gradient", x, grad, normal(random, weight.shape), bias, dtype=stored)


ROWS = [(3, 5, 7, 3), (1, 1, 1, 8), (7, 13), (5, 9, 11, 32), (33, 8), (513, 101), (9000, 5)]


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", [*ROWS, (3000, 40)], ids=str)
def test_channel_statistics(random, shape, stored):
    x = (normal(random, shape) * 3 + np.arange(shape[-1])).astype(stored)
    _, mean, variance, _ = on_the_card("channel_statistics", x, *np.zeros((2, shape[-1]), SINGLE))
    rows = x.reshape(-1, shape[-1]).astype(np.float64)
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(variance, rows.var(axis=0), rtol=1e-5, atol=1e-5)


def test_channel_statistics_far_from_zero(random):
    x = normal(random, (40, 30, 30, 4)) * SINGLE(0.01) + SINGLE(100)
    _, _, variance, _ = on_the_card("channel_statistics", x, *np.zeros((2, 4), SINGLE))
    np.testing.assert_allclose(variance, x.reshape(-1, 4).astype(np.float64).var(axis=0), rtol=1e-3)


def norm_arguments(random, shape, stored):
    channels = shape[-1]
    x = normal(random, shape, stored)
    mean, inv_std = normal(random, channels) * SINGLE(0.1), np.abs(normal(random, channels)) + SINGLE(0.5)
    return x, mean, inv_std, normal(random, channels) + SINGLE(1), normal(random, channels)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("relu", [False, True])
def test_batch_norm(random, shape, stored, relu):
    vectors, out = norm_arguments(random, shape, stored), np.zeros(shape, stored)
    mask = np.zeros(packed_mask(shape).shape, np.uint8) if relu else None
    compare("batch_norm", *vectors, out, skip=None, relu=relu, mask=None, dtype=stored)
    compare("batch_norm", *vectors, out, skip=normal(random, shape, stored), relu=relu, mask=mask, dtype=stored)
    other = np.float16 if stored == SINGLE else SINGLE
    skip = normal(random, shape, other)
    compare("batch_norm", *vectors, out.astype(other), skip=skip, relu=relu, mask=mask, dtype=np.float16)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("relu", ["none", "found again", "mask"])
def test_batch_norm_backward(random, shape, stored, relu):
    vectors, grad = norm_arguments(random, shape, stored), normal(random, shape, stored)
    mask = random.integers(0, 256, packed_mask(shape).shape).astype(np.uint8) if relu == "mask" else None
    arrays = (*vectors, grad, *normal(random, (2, shape[-1])), np.zeros(shape, stored))
    compare("batch_norm_backward", *arrays, relu=relu != "none", mask=mask, dtype=stored)


def test_batch_norm_backward_over_its_input(random):
    """The gradient may be written over x, as the layers do."""
    arrays = (*norm_arguments(random, (50, 6), SINGLE), normal(random, (50, 6)), *np.zeros((2, 6), SINGLE))
    options = {"relu": True, "mask": None}
    *_, apart, _ = on_the_card("batch_norm_backward", *arrays, np.zeros_like(arrays[0]), **options)
    held = [both_ways.transfer(array) for array in arrays]
    specs = cuda.batch_norm_backward.workspace(*held, held[0], **options)
    work = [both_ways.transfer(np.full(spec.shape, np.nan, spec.dtype)) for spec in specs]
    cuda.batch_norm_backward.compute(*held, held[0], work=work, **options)
    np.testing.assert_array_equal(to_host(held[0]), apart)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5, 7), (7, 1001)], ids=str)
def test_relu_and_averages(random, shape, stored):
    x, mask = normal(random, shape, stored), np.zeros(packed_mask(shape).shape, np.uint8)
    x.reshape(-1)[0] = np.nan
    compare("relu", x, np.zeros_like(x), mask, dtype=stored)
    compare("relu", x, np.zeros_like(x), None, dtype=stored)
    bits = random.integers(0, 256, mask.shape).astype(np.uint8)
    compare("relu_backward", bits, normal(random, shape, stored), np.zeros(shape, stored), dtype=stored)
    compare("move_average", normal(random, shape), normal(random, shape), momentum=0.1)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("counter", [(0, 0, 0, 0), (7, 3, 11, 2), (2**63 - 1, 2**40, 5, 2**33)], ids=str)
@pytest.mark.parametrize("rate", [0.0, 0.25, 0.9])
def test_dropout_draws_what_numpy_draws(random, stored, counter, rate):
    x = normal(random, (6, 7, 31), stored)
    seed, *place, layer = counter
    arrays, options = (x, np.array(place), np.zeros_like(x)), {"rate": rate, "seed": seed, "layer": layer}
    *_, found, _ = on_the_card("dropout", *arrays, **options)
    *_, expected, _ = run(reference, "dropout", *arrays, **options)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("shape", [(1, 4, 6, 8), (5, 7, 9, 24), (3, 9, 6, 3)], ids=str)
def test_max_pool(random, shape, size, stored):
    x = np.round(normal(random, shape, stored) * 2)  # with equal values in a window
    x[0, 0, 1, 2] = np.nan
    out = np.zeros((shape[0], shape[1] // size, shape[2] // size, shape[3]), stored)
    positions = np.zeros(packed_positions(out.shape, size).shape, np.uint8)
    compare("max_pool", x, out, None, size=size)
    _, _, positions, _ = compare("max_pool", x, out, positions, size=size)
    compare("max_pool_backward", positions, normal(random, out.shape, stored), np.ones_like(x), size=size)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", [(1, 2), (300, 10), (7, 33)], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("soft", [False, True])
def test_cross_entropy(random, shape, smoothing, soft, stored):
    logits, totals = normal(random, shape, stored) * 3, normal(random, 5, np.float64)
    targets = random.integers(0, shape[1], shape[0]).astype(np.int32)
    if soft:
        targets = random.dirichlet(np.ones(shape[1]), shape[0]).astype(SINGLE)
    options = {"smoothing": smoothing, "factor": 0.25, "dtype": stored}
    compare("cross_entropy", logits, targets, np.zeros_like(logits), totals, **options)
    compare("cross_entropy", logits, targets, None, totals, **options)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(random, bad):
    logits = normal(random, (5, 4))
    logits[2, 3] = bad
    *_, totals, _ = on_the_card(
        "cross_entropy", logits, np.zeros(5, np.int32), None, np.zeros(5), smoothing=0.0, factor=1.0
    )
    assert not np.isfinite(totals[0])
    x = normal(random, (9, 5))
    x[4, 1] = bad
    *_, variance, _ = on_the_card("channel_statistics", x, *np.zeros((2, 5), SINGLE))
    assert not np.isfinite(variance[1]) and np.isfinite(variance[[0, 2, 3, 4]]).all()
    _, total, _ = on_the_card("square_sum", x, np.zeros(1))
    assert not np.isfinite(total[0])
    assert not run(cuda, "is_finite", x)[-1] and run(cuda, "is_finite", x[:4])[-1]


@pytest.mark.parametrize("shape", [(1,), (3, 5), (70_001,), (40, 3, 3, 24)], ids=str)
def test_square_sum(random, shape):
    x, total = normal(random, shape) * SINGLE(1e25), np.array([2.0])
    _, found, _ = on_the_card("square_sum", x, total)
    np.testing.assert_allclose(found, total + (x.astype(np.float64) ** 2).sum(), rtol=1e-12)


RATES = {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam(random, decoupled, decay):
    value, gradient, mean, square = normal(random, (4, 9, 70))
    arrays = (value, gradient, mean, np.abs(square))
    compare("adam_update", *arrays, decay=decay, count=3, decoupled=decoupled, **RATES)


@pytest.mark.parametrize("stored", STORED)
def test_what_the_reference_computes_on_a_card(random, stored):
    """Nothing new on the stand-in; under CuPy it shows that the array code runs there."""
    x, y, out = *normal(random, (2, 6, 5, 4, 8), stored), np.zeros((6, 5, 4, 8), stored)
    loose = {"dtype": stored}
    for name in ("gelu", "silu"):
        compare(name, x, out, **loose)
        compare(f"{name}_backward", x, y, out, **loose)
    compare("add", x, y, **loose)
    compare("copy", x, out.astype(SINGLE), **loose)
    compare("fill", out, 1.5, **loose)
    compare("scale", y, 0.3, **loose)
    assert run(cuda, "read", x)[-1].tobytes() == x.tobytes()
    compare("average_pool", x, np.zeros((6, 2, 2, 8), stored), size=2, **loose)
    compare("average_pool_backward", normal(random, (6, 2, 2, 8), stored), np.ones_like(x), size=2, **loose)
    compare("summarise", x, np.zeros((6, 8), stored), **loose)
    compare("global_average_backward", normal(random, (6, 8), stored), out, **loose)
    gamma, beta, gamma_grad, beta_grad = normal(random, (4, 8))
    rows, grad = normal(random, (30, 8), stored), normal(random, (30, 8), stored)
    statistics = np.zeros((2, 30), SINGLE)
    compare("layer_norm", rows, gamma, beta, *statistics, np.zeros_like(rows), epsilon=1e-5, **loose)
    arrays = (rows, *np.abs(normal(random, (2, 30))), gamma, grad, gamma_grad, beta_grad, np.zeros_like(rows))
    compare("layer_norm_backward", *arrays, **loose)
    compare("inverse_deviation", np.abs(gamma), np.zeros_like(gamma), epsilon=1e-5)
    factors = {"momentum": 0.1, "unbias": 1.25, "epsilon": 1e-5}
    compare("enter_statistics", gamma, np.abs(beta), gamma_grad.copy(), beta_grad.copy(), **factors)
    targets, totals = normal(random, (30, 8)), np.zeros(5)
    for name in ("mean_squared_error", "huber"):
        compare(name, rows, targets, np.zeros_like(rows), totals, factor=0.5, **loose)
    compare("regression_sums", rows, targets, totals, **loose)
    step = {"lr": 0.1, "momentum": 0.9, "decay": 0.01}
    compare("sgd_update", gamma, beta, None, nesterov=False, **step)
    compare("sgd_update", gamma, beta, gamma_grad, nesterov=True, **step)


def test_every_operation_is_there():
    names = [name for name, value in vars(reference).items() if isinstance(value, Operation)]
    assert names and all(isinstance(getattr(cuda, name), Operation) for name in names)
    assert kernels_named("cuda") is cuda


def test_pieces_are_larger_on_a_card():
    """Each costs launches there; the forecast knows, and nothing is left of it elsewhere."""
    x = ArraySpec((64, 32, 32, 64), np.dtype(SINGLE))
    (here, *_), (there, *_) = (kernels.gelu.workspace(x, x) for kernels in (reference, cuda))
    assert there.nbytes == min(32 * here.nbytes, x.nbytes)
    assert reference.gelu.workspace(x, x)[0].nbytes == here.nbytes
