"""The compiled operations against the reference, on shapes that do not divide evenly, with guards around each array."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from engine.memory import ArraySpec
from engine.ops import cpu, reference
from engine.ops.cpu import channels, elementwise, threads
from engine.ops.operation import Operation
from engine.ops.packing import packed_mask, packed_positions

GUARD = 256  # bytes on either side of an array that no kernel may touch
STORED = [np.float32, np.float16]


@pytest.fixture(autouse=True)
def small_arrays_have_two_threads(monkeypatch):
    monkeypatch.setattr(channels, "LEAST", 1 << 10)
    monkeypatch.setattr(elementwise, "LEAST", 1 << 10)


def guarded(shape, dtype, values=None):
    """An array between two guards, and the memory that holds all three."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    held = np.full(size + 2 * GUARD, 0xAB, np.uint8)
    array = held[GUARD : GUARD + size].view(dtype).reshape(shape)
    if values is None:
        array.view(np.uint8)[...] = 0xFF  # NaN: scratch must not be read before it is written
    else:
        array[...] = values
    return array, held


def run(operation, *arguments, **options):
    """Calls an operation on copies of its arrays; returns the copies, after checking every guard."""
    memory = []

    def copied(value):
        if not isinstance(value, np.ndarray):
            return value
        array, held = guarded(value.shape, value.dtype, value)
        memory.append(held)
        return array

    arguments = [copied(argument) for argument in arguments]
    options = {name: copied(option) for name, option in options.items()}
    work = []
    specs = [ArraySpec(a.shape, a.dtype) if isinstance(a, np.ndarray) else a for a in arguments]
    shaped = {n: ArraySpec(o.shape, o.dtype) if isinstance(o, np.ndarray) else o for n, o in options.items()}
    operation = operation.fitting(*specs, **shaped)
    for spec in operation.workspace(*specs, **shaped):
        array, held = guarded(spec.shape, spec.dtype)
        memory.append(held)
        work.append(array)
    operation.compute(*arguments, work=work, **options)
    for held in memory:
        assert (held[:GUARD] == 0xAB).all() and (held[-GUARD:] == 0xAB).all(), "written outside of an array"
    return arguments, options


def tolerance(dtype):
    return {"rtol": 2e-3, "atol": 2e-3} if dtype == np.float16 else {"rtol": 2e-5, "atol": 2e-5}


def compare(name, *arguments, changed, dtype=np.float32, **options):
    """Both ways of an operation agree on the arguments numbered in `changed`, the fast one twice to the bit."""
    slow, _ = run(getattr(reference, name), *arguments, **options)
    fast, _ = run(getattr(cpu, name), *arguments, **options)
    again, _ = run(getattr(cpu, name), *arguments, **options)
    for number in changed:
        scale = max(1.0, float(np.abs(slow[number].astype(np.float64)).max(initial=0.0)))
        np.testing.assert_allclose(
            fast[number].astype(np.float64) / scale, slow[number].astype(np.float64) / scale, **tolerance(dtype)
        )
        assert fast[number].tobytes() == again[number].tobytes()
    return fast, slow


def normal(random, shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


@pytest.fixture
def random():
    return np.random.default_rng(5)


CONVOLUTIONS = [
    # batch, height, width, inputs, outputs, kernel, stride, padding
    (2, 7, 9, 17, 19, 3, 1, 1),
    (1, 5, 5, 16, 16, 3, 1, 0),
    (3, 6, 8, 33, 20, 3, 1, 2),
    (40, 10, 10, 16, 24, 3, 1, 1),
    (2, 9, 7, 3, 16, 3, 1, 1),
    (2, 9, 8, 5, 7, 3, 2, 1),
    (1, 1, 1, 4, 3, 1, 1, 0),
    (2, 8, 9, 6, 10, 1, 2, 0),
    (2, 11, 6, 3, 18, 5, 3, 2),
    (3, 6, 6, 2, 1, 4, 1, 3),
    (2, 20, 13, 1, 17, 7, 2, 3),
]


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", CONVOLUTIONS, ids=str)
def test_convolution(random, shape, stored):
    batch, height, width, inputs, outputs, kernel, stride, padding = shape
    x = normal(random, (batch, height, width, inputs), stored)
    weight = normal(random, (outputs, kernel, kernel, inputs)) / np.float32(np.sqrt(kernel * kernel * inputs))
    bias = normal(random, outputs)
    size = [(extent + 2 * padding - kernel) // stride + 1 for extent in (height, width)]
    out = np.empty((batch, *size, outputs), stored)
    geometry = {"stride": stride, "padding": padding}
    compare("convolve", x, weight, bias, out, changed=[3], dtype=stored, **geometry)
    compare("convolve", x, weight, None, out, changed=[3], dtype=stored, **geometry)
    grad = normal(random, out.shape, stored)
    compare("convolve_input_gradient", grad, weight, np.empty_like(x), changed=[2], dtype=stored, **geometry)
    before = normal(random, weight.shape)
    compare("convolve_weight_gradient", x, grad, before, bias, changed=[2, 3], **geometry)
    compare("convolve_weight_gradient", x, grad, before, None, changed=[2], **geometry)


@pytest.mark.parametrize("precisions", [(np.float16, np.float32), (np.float32, np.float16)], ids=str)
def test_convolution_between_precisions(random, precisions):
    stored, made = precisions
    x, weight = normal(random, (2, 6, 6, 16), stored), normal(random, (16, 3, 3, 16)) / np.float32(12)
    out = np.empty((2, 6, 6, 16), made)
    compare("convolve", x, weight, None, out, changed=[3], dtype=np.float16, stride=1, padding=1)
    grad = normal(random, out.shape, made)
    compare("convolve_weight_gradient", x, grad, weight, None, changed=[2], stride=1, padding=1)


@pytest.mark.parametrize("shape", [(2, 7, 9, 17, 19, 3, 1, 1), (2, 9, 8, 5, 7, 3, 2, 1)], ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_convolution_keeps_what_is_not_finite(random, shape, bad):
    batch, height, width, inputs, outputs, kernel, stride, padding = shape
    x = normal(random, (batch, height, width, inputs))
    x[1, 3, 4, 2] = bad
    weight = normal(random, (outputs, kernel, kernel, inputs))
    size = [(extent + 2 * padding - kernel) // stride + 1 for extent in (height, width)]
    out = np.empty((batch, *size, outputs), np.float32)
    slow, _ = run(reference.convolve, x, weight, None, out, stride=stride, padding=padding)
    fast, _ = run(cpu.convolve, x, weight, None, out, stride=stride, padding=padding)
    assert not np.isfinite(fast[3][~np.isfinite(slow[3])]).any()
    assert np.isfinite(fast[3][0]).all()


ROWS = [(3, 5, 7, 3), (1, 1, 1, 8), (7, 13), (5, 9, 11, 32), (90, 9, 10, 20), (513, 101)]


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_channel_statistics(random, shape, stored):
    x = (normal(random, shape) * 3 + np.arange(shape[-1])).astype(stored)
    fast, _ = run(cpu.channel_statistics, x, np.empty(shape[-1], np.float32), np.empty(shape[-1], np.float32))
    again, _ = run(cpu.channel_statistics, x, np.empty(shape[-1], np.float32), np.empty(shape[-1], np.float32))
    rows = x.reshape(-1, shape[-1]).astype(np.float64)
    np.testing.assert_allclose(fast[1], rows.mean(axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fast[2], rows.var(axis=0), rtol=1e-5, atol=1e-5)
    assert fast[1].tobytes() == again[1].tobytes() and fast[2].tobytes() == again[2].tobytes()


def test_channel_statistics_far_from_zero(random):
    x = normal(random, (40, 30, 30, 4)) * np.float32(0.01) + np.float32(100)
    fast, _ = run(cpu.channel_statistics, x, np.empty(4, np.float32), np.empty(4, np.float32))
    np.testing.assert_allclose(fast[2], x.reshape(-1, 4).astype(np.float64).var(axis=0), rtol=1e-3)


def norm_arguments(random, shape, stored):
    channels = shape[-1]
    x = normal(random, shape, stored)
    mean, inv_std = normal(random, channels) * np.float32(0.1), np.abs(normal(random, channels)) + np.float32(0.5)
    gamma, beta = normal(random, channels) + np.float32(1), normal(random, channels)
    return x, mean, inv_std, gamma, beta


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("with_skip", [False, True])
@pytest.mark.parametrize("with_relu", [False, True])
def test_batch_norm(random, shape, stored, with_skip, with_relu):
    arguments = norm_arguments(random, shape, stored)
    skip = normal(random, shape, stored) if with_skip else None
    mask = np.zeros(packed_mask(shape).shape, np.uint8) if with_relu else None
    out = np.empty(shape, stored)
    options = {"skip": skip, "relu": with_relu, "mask": mask}
    slow, slow_options = run(reference.batch_norm, *arguments, out, **options)
    fast, fast_options = run(cpu.batch_norm, *arguments, out, **options)
    np.testing.assert_allclose(fast[5], slow[5], **tolerance(stored))
    if with_relu:
        bits = (np.unpackbits(o["mask"])[: out.size] for o in (slow_options, fast_options))
        np.testing.assert_array_equal(*bits)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("relu", ["none", "found again", "mask"])
def test_batch_norm_backward(random, shape, stored, relu):
    x, mean, inv_std, gamma, beta = norm_arguments(random, shape, stored)
    grad = normal(random, shape, stored)
    mask = random.integers(0, 256, packed_mask(shape).shape).astype(np.uint8) if relu == "mask" else None
    gamma_grad, beta_grad = normal(random, shape[-1]), normal(random, shape[-1])
    compare(
        "batch_norm_backward", x, mean, inv_std, gamma, beta, grad, gamma_grad, beta_grad, np.empty_like(x),
        changed=[5, 6, 7, 8], dtype=stored, relu=relu != "none", mask=mask,
    )  # fmt: skip


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_batch_norm_keeps_what_is_not_finite(random, bad):
    x, mean, inv_std, gamma, beta = norm_arguments(random, (4, 6, 5), np.float32)
    x[2, 3, 1] = bad
    grad = np.ones_like(x)
    out, _ = run(cpu.batch_norm, x, mean, inv_std, gamma, beta, np.empty_like(x), skip=None, relu=True, mask=None)
    assert not np.isfinite(out[5][2, 3, 1]) and np.isfinite(out[5]).sum() == x.size - 1
    backward, _ = run(
        cpu.batch_norm_backward, x, mean, inv_std, gamma, beta, grad, np.zeros(5, np.float32), np.zeros(5, np.float32),
        np.empty_like(x), relu=False, mask=None,
    )  # fmt: skip
    assert not np.isfinite(backward[6][1])
    moments, _ = run(cpu.channel_statistics, x, np.empty(5, np.float32), np.empty(5, np.float32))
    assert not np.isfinite(moments[1][1]) and np.isfinite(moments[1][[0, 2, 3, 4]]).all()


SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1.0,
        1 + 2**-11,
        1 + 3 * 2**-11,
        65504,
        65519.9,
        65520,
        1e9,
        -1e9,
        np.inf,
        -np.inf,
        np.nan,
        2**-24,
        2**-25,
        1e-7,
        6e-8,
    ]
)


def test_copy_rounds_as_numpy_does(random):
    values = np.concatenate([SPECIAL, random.standard_normal(1003) * 10.0 ** random.integers(-9, 6, 1003)])
    with np.errstate(over="ignore"):
        x = values.astype(np.float32)
        halves = x.astype(np.float16)
    with np.errstate(over="ignore"):
        fast, _ = run(cpu.copy, x, np.empty(x.shape, np.float16))
    np.testing.assert_array_equal(fast[1], halves)
    wide, _ = run(cpu.copy, halves, np.empty(x.shape, np.float32))
    np.testing.assert_array_equal(wide[1], halves.astype(np.float32))


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5, 7), (7, 10_001)], ids=str)
def test_elementwise(random, shape, stored):
    x, y = normal(random, shape, stored), normal(random, shape, stored)
    x.reshape(-1)[0] = np.nan
    compare("add", x, y, changed=[1], dtype=stored)
    compare("copy", x, y.reshape(-1), changed=[1], dtype=stored)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5, 7), (7, 10_001)], ids=str)
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.999])
def test_dropout_draws_what_numpy_draws(random, shape, stored, rate):
    x = normal(random, shape, stored)
    x.reshape(-1)[0] = np.nan
    place, options = np.array([5, 123_456]), {"rate": rate, "seed": 2**40 + 7, "layer": 17}
    fast, slow = compare("dropout", x, place, np.empty_like(x), changed=[2], dtype=stored, **options)
    np.testing.assert_array_equal(fast[2], slow[2])


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("shape", [(1,), (3, 5, 7), (300, 301)], ids=str)
def test_adam(random, shape, decoupled):
    value, gradient, mean = (normal(random, shape) for _ in range(3))
    options = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "count": 3, "decay": 0.1}
    square = normal(random, shape) ** 2
    compare("adam_update", value, gradient, mean, square, changed=[0, 2, 3], **options, decoupled=decoupled)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", [(1, 2), (300, 10), (7, 33)], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("soft", [False, True])
def test_cross_entropy(random, shape, smoothing, soft, stored):
    logits, totals = normal(random, shape, stored) * 3, random.standard_normal(5)
    targets = random.integers(0, shape[1], shape[0]).astype(np.int32)
    if soft:
        targets = random.dirichlet(np.ones(shape[1]), shape[0]).astype(np.float32)
    options = {"smoothing": smoothing, "factor": 0.25, "dtype": stored}
    compare("cross_entropy", logits, targets, np.empty_like(logits), totals, changed=[2, 3], **options)
    compare("cross_entropy", logits, targets, None, totals, changed=[3], **options)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_stays_so(random, bad):
    logits = normal(random, (5, 4), np.float32)
    logits[2, 3] = bad
    totals = np.zeros(5)
    run(cpu.cross_entropy, logits, np.zeros(5, np.int32), None, totals, smoothing=0.0, factor=1.0)
    found, _ = run(cpu.cross_entropy, logits, np.zeros(5, np.int32), None, totals, smoothing=0.0, factor=1.0)
    assert not np.isfinite(found[3][0])


@pytest.mark.parametrize("shape", [(1,), (3, 5), (400_001,)], ids=str)
def test_square_sum(random, shape):
    x = normal(random, shape, np.float32) * np.float32(1e25)
    found, _ = run(cpu.square_sum, x, np.array([2.0]))
    np.testing.assert_allclose(found[1], 2.0 + (x.astype(np.float64) ** 2).sum(), rtol=1e-12)
    for bad in (np.nan, np.inf, -np.inf):
        x.reshape(-1)[-1] = bad
        found, _ = run(cpu.square_sum, x, np.zeros(1))
        assert not np.isfinite(found[1][0])


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("shape", [(1, 4, 6, 8), (5, 7, 9, 24), (3, 9, 6, 3)], ids=str)
def test_max_pool(random, shape, size, stored):
    x = np.round(normal(random, shape, stored) * 2)  # with equal values in a window
    x[0, 0, 1, 2] = np.nan
    out = np.empty((shape[0], shape[1] // size, shape[2] // size, shape[3]), stored)
    positions = np.zeros(packed_positions(out.shape, size).shape, np.uint8)
    compare("max_pool", x, out, None, changed=[1], size=size)
    _, slow = compare("max_pool", x, out, positions, changed=[1, 2], size=size)
    grad = normal(random, out.shape, stored)
    compare("max_pool_backward", slow[2], grad, np.empty_like(x), changed=[2], size=size)


def test_double_precision_goes_to_the_reference(random):
    x, weight = random.standard_normal((2, 6, 6, 16)), random.standard_normal((16, 3, 3, 16))
    out = np.empty_like(x)
    fast, slow = compare("convolve", x, weight, None, out, changed=[3], stride=1, padding=1)
    np.testing.assert_array_equal(fast[3], slow[3])
    fast, slow = compare("add", x, out, changed=[1])
    np.testing.assert_array_equal(fast[1], slow[1])


def test_every_operation_is_there():
    names = [name for name, value in vars(reference).items() if isinstance(value, Operation)]
    assert names and all(isinstance(getattr(cpu, name), Operation) for name in names)


@pytest.mark.skipif(threads.THREADS < 2, reason="one core")
def test_each_range_is_computed_once_whatever_happens_in_another():
    """Also after a pause in which the threads went to sleep, and again after a failure."""
    computed: list[tuple[int, int]] = []

    def compute(first, last, total):
        total[...] = last
        computed.append((first, last))

    def fail(first, last):
        raise ValueError(f"from {first}")

    ranges, totals = [(0, 3), (3, 5)], np.zeros((2, 1))
    for pause in (0.0, 0.0, 0.05, 0.0):
        time.sleep(pause)
        computed.clear()
        threads.in_parallel(compute, ranges, own=[totals])
        assert sorted(computed) == ranges
        np.testing.assert_array_equal(totals, [[3], [5]])
        with pytest.raises(ValueError, match="from"):
            threads.in_parallel(fail, ranges)


@pytest.mark.skipif(threads.THREADS < 2, reason="one core")
def test_two_callers_do_not_get_into_each_others_way():
    wrong: list[tuple[int, float]] = []

    def caller(number: int) -> None:
        def compute(first, last, total):
            time.sleep(0.001 * (first > 0))
            total[...] = number + first

        for _ in range(100):
            totals = np.zeros((2, 1))
            threads.in_parallel(compute, [(0, 3), (3, 5)], own=[totals])
            if totals.tolist() != [[number], [number + 3]]:
                wrong.append((number, totals.sum()))

    callers = [threading.Thread(target=caller, args=(number,)) for number in (0, 1000)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert not wrong


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("shape", [(2, 9, 8, 16, 24), (3, 16, 16, 32, 17), (1, 1, 1, 16, 16)], ids=str)
def test_statistics_come_along_with_a_convolution(random, shape, stored):
    """They are those of its output, are taken once, and are missing where another way computes it."""
    batch, height, width, inputs, outputs = shape
    x, weight, bias = (normal(random, each) for each in (shape[:4], (outputs, 3, 3, inputs), outputs))
    out, x = np.empty((batch, height, width, outputs), stored), x.astype(stored)
    nothing = np.full((2, outputs), np.nan, np.float32)
    (*_, out, gathered), _ = run(cpu.convolve, x, weight, bias, out, nothing, stride=1, padding=1)
    rows = out.reshape(-1, outputs).astype(np.float64)
    np.testing.assert_allclose(gathered, [rows.mean(axis=0), rows.var(axis=0)], **tolerance(stored) | {"atol": 0.02})
    mean, variance = np.zeros((2, outputs), np.float32)
    (_, mean, variance, after), _ = run(cpu.channel_statistics, np.zeros_like(out), mean, variance, gathered)
    np.testing.assert_array_equal([mean, variance], gathered)
    (_, mean, variance, after), _ = run(cpu.channel_statistics, np.zeros_like(out), mean, variance, after)
    assert not mean.any() and not variance.any() and np.isnan(after[0, 0])
    strided = np.empty((batch, -(-height // 2), -(-width // 2), outputs), stored)
    (*_, gathered), _ = run(cpu.convolve, x, weight, bias, strided, nothing, stride=2, padding=1)
    assert np.isnan(gathered).all()
