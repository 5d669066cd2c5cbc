"""Networks: built from tables, refused with reasons, and right as a whole whatever layer comes first."""

import numpy as np
import pytest
from laboratory import check_gradient, learner, window

from engine.errors import InputError
from engine.layers import LAYERS, BatchNorm, Pass, ReLU
from engine.layers.conv import Conv
from engine.model import InvalidLayer

IMAGE, ROW = (5, 6, 2), (7,)
END = [{"type": "global_average"}, {"type": "linear"}]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def classes(samples: int) -> np.ndarray:
    return np.arange(samples, dtype=np.int32) % 3


FIRST = {
    "linear": (ROW, [{"type": "linear"}]),
    "flatten": (IMAGE, [{"type": "flatten"}, {"type": "linear"}]),
    "conv": (IMAGE, [{"type": "conv", "out": 3}, *END]),
    "batch_norm": (IMAGE, [{"type": "batch_norm"}, *END]),
    "batch_norm of rows, then relu": (ROW, [{"type": "batch_norm"}, {"type": "relu"}, {"type": "linear"}]),
    "layer_norm": (IMAGE, [{"type": "layer_norm"}, *END]),
    "relu": (ROW, [{"type": "relu"}, {"type": "linear"}]),
    "gelu": (IMAGE, [{"type": "gelu"}, *END]),
    "silu": (ROW, [{"type": "silu"}, {"type": "linear", "out": 4}, {"type": "silu"}, {"type": "linear"}]),
    "dropout": (ROW, [{"type": "dropout", "rate": 0.3}, {"type": "linear"}]),
    "max_pool": (IMAGE, [{"type": "max_pool"}, {"type": "conv", "out": 2}, *END]),
    "average_pool": (IMAGE, [{"type": "average_pool"}, *END]),
    "global_average": (IMAGE, END),
    "residual": (IMAGE, [{"type": "residual", "out": 2}, {"type": "residual", "out": 3, "stride": 2}, *END]),
    "residual with stride": (IMAGE, [{"type": "residual", "out": 3, "stride": 2}, *END]),
    "se": (IMAGE, [{"type": "se"}, *END]),
    "eca": (IMAGE, [{"type": "eca"}, {"type": "relu"}, {"type": "eca"}, *END]),
    "cbam": (IMAGE, [{"type": "cbam_channels"}, {"type": "cbam_positions"}, {"type": "conv", "out": 2}, *END]),
    "whiten": (IMAGE, [{"type": "whiten"}, {"type": "gelu"}, {"type": "conv", "out": 3}, {"type": "relu"}, *END]),
    "linear with its output scaled": (ROW, [{"type": "linear", "scale": 0.25}]),
    "two activations before the first weights": (ROW, [{"type": "gelu"}, {"type": "relu"}, {"type": "linear"}]),
    "no weights behind the first": (ROW, [{"type": "linear"}, {"type": "layer_norm"}, {"type": "gelu"}]),
}


@pytest.mark.parametrize(
    ("name", "loss"),
    [*((name, "cross-entropy") for name in FIRST), ("linear", "mse"), ("linear", "huber"), ("conv", "huber")],
)
def test_gradients_of_whole_networks(name: str, loss: str) -> None:
    """Every parameter's gradient through chain, loss and a window of two micro-batches of 3 and 2 samples."""
    shape, tables = FIRST[name]
    trained = learner(tables, shape, dtype=np.float64, loss=loss, label_smoothing=0.1)
    base = dict(trained.memory.bytes)
    targets = classes(5) if loss == "cross-entropy" else numbers(5, 3).astype(np.float32)
    inputs = numbers(5, *shape)
    batches = [(inputs[:3], targets[:3]), (inputs[3:], targets[3:])]
    for name, array in trained.model.arrays.items():
        if "running" not in name:
            array[...] += 0.3 * numbers(*array.shape)

    def mean_loss() -> float:
        totals, _ = window(trained, batches)
        trained.abandon()
        return totals[0] / 5

    _, gradients = window(trained, batches)
    trained.abandon()
    for parameter in trained.model.parameters:
        check_gradient(mean_loss, parameter.value, gradients[parameter.name], most=6)
    assert trained.memory.bytes == base


def test_a_relu_behind_a_batch_norm_becomes_part_of_it() -> None:
    tables = [{"type": "conv", "out": 2}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "relu"}, *END]
    layers = learner(tables, IMAGE).model.layers
    assert [type(layer) for layer in layers[:3]] == [Conv, BatchNorm, ReLU]
    assert layers[1].relu


def test_names_count_by_type_or_are_given() -> None:
    tables = [
        {"type": "linear", "out": 4},
        {"type": "relu"},
        {"type": "linear", "out": 4, "name": "middle"},
        {"type": "linear"},
    ]
    trained = learner(tables, ROW)
    assert [layer.name for layer in trained.model.layers] == ["linear1", "relu1", "middle", "linear3"]
    assert [parameter.name for parameter in trained.model.parameters][2:4] == ["middle.weight", "middle.bias"]


def test_initial_weights_are_uniform_in_the_fan_in_and_depend_on_the_seed() -> None:
    tables = [{"type": "conv", "out": 40, "kernel": 3}, {"type": "batch_norm"}, *END]
    arrays = learner(tables, (8, 8, 4), seed=1).model.arrays
    bound = 1 / 6
    weight = arrays["conv1.weight"]
    assert np.abs(weight).max() <= bound
    assert np.abs(weight).max() > 0.99 * bound
    assert weight.std() == pytest.approx(bound / np.sqrt(3), rel=0.05)
    assert (arrays["batch_norm1.gamma"] == 1).all() and (arrays["batch_norm1.beta"] == 0).all()
    assert (arrays["batch_norm1.running_mean"] == 0).all() and (arrays["batch_norm1.running_variance"] == 1).all()
    np.testing.assert_array_equal(learner(tables, (8, 8, 4), seed=1).model.arrays["conv1.weight"], weight)
    assert (learner(tables, (8, 8, 4), seed=2).model.arrays["conv1.weight"] != weight).any()


def test_running_statistics_follow_the_batches_of_accepted_windows() -> None:
    """Two micro-batches move them twice, by a tenth each, with the unbiased variance."""
    tables = [{"type": "batch_norm", "momentum": 0.1}, {"type": "linear"}]
    trained = learner(tables, ROW, lr=0.0)
    first, second = numbers(8, 7).astype(np.float32), 2 * numbers(7, 7).astype(np.float32)
    window(trained, [(first, classes(8)), (second, classes(7))])
    trained.update(0.0, trained.inputs[0])
    mean, variance = np.zeros(7), np.ones(7)
    for batch in (first, second):
        mean = 0.9 * mean + 0.1 * batch.mean(axis=0)
        variance = 0.9 * variance + 0.1 * batch.var(axis=0, ddof=1)
    np.testing.assert_allclose(trained.model.arrays["batch_norm1.running_mean"], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trained.model.arrays["batch_norm1.running_variance"], variance, rtol=1e-5)


def test_evaluation_uses_the_running_statistics_and_no_dropout() -> None:
    """A sample's output depends neither on the batch around it nor on any draw."""
    tables = [
        {"type": "conv", "out": 3},
        {"type": "batch_norm"},
        {"type": "dropout"},
        {"type": "residual", "out": 3},
        *END,
    ]
    trained = learner(tables, IMAGE)
    inputs = numbers(6, *IMAGE).astype(np.float32)
    window(trained, [(inputs, classes(6))])
    trained.update(0.1, trained.inputs[0][:6])
    together = trained.evaluate(inputs, classes(6))
    one_by_one = sum(trained.evaluate(inputs[n : n + 1], classes(6)[n : n + 1]) for n in range(6))
    np.testing.assert_allclose(together, one_by_one, rtol=1e-5)


@pytest.mark.parametrize(("out", "kernel"), [(3, 3), (5, 3), (2, 3), (4, 1), (3, 5)])
def test_a_convolution_may_begin_as_the_identity(out: int, kernel: int) -> None:
    """As many of its outputs as there are inputs; the others begin as they would without."""
    table = {"type": "conv", "out": out, "kernel": kernel, "bias": False}
    inputs = numbers(2, 6, 7, 3).astype(np.float32)
    made = [learner([{**table, **extra}, *END], (6, 7, 3)) for extra in ({}, {"identity": True})]
    plain, identity = (one.model.arrays["conv1.weight"] for one in made)
    convolution = made[1].model.layers[0]
    y = convolution.forward(inputs, Pass(made[1].operations, training=False), None)
    same = min(out, 3)
    np.testing.assert_array_equal(y[..., :same], inputs[..., :same])
    np.testing.assert_array_equal(identity[same:], plain[same:])
    assert (plain[:same] != identity[:same]).any()


@pytest.mark.parametrize(
    ("tables", "index", "words"),
    [
        ([], 0, ["no layers"]),
        ([{"type": "convolution"}], 0, ["convolution", "conv"]),
        ([{"type": "flatten"}, {"type": "linear", "size": 3}], 1, ["linear", "size"]),
        ([{"type": "linear"}], 0, ["linear", "(5, 6, 2)", "flatten"]),
        ([{"type": "conv"}], 0, ["conv", "out"]),
        ([{"type": "conv", "out": 0}], 0, ["out", "at least 1", "0"]),
        ([{"type": "conv", "out": 2, "kernel": 9, "padding": 0}], 0, ["9x9", "5x6"]),
        ([{"type": "conv", "out": 2, "padding": 3}], 0, ["padding", "kernel"]),
        ([{"type": "max_pool", "size": 6}], 0, ["6x6", "5x6"]),
        ([{"type": "global_average"}, {"type": "max_pool"}], 1, ["max_pool", "images", "(2,)"]),
        ([{"type": "dropout", "rate": 1.0}], 0, ["rate", "1.0"]),
        ([{"type": "batch_norm", "momentum": 0}], 0, ["momentum", "0"]),
        ([{"type": "layer_norm", "epsilon": 0}], 0, ["epsilon", "0"]),
        ([{"type": "residual", "out": 2, "stride": 0}], 0, ["stride", "0"]),
        ([{"type": "flatten"}, {"type": "linear", "out": 5}], 1, ["(5,)", "(3,)"]),
        ([{"type": "relu", "name": "a"}, {"type": "relu", "name": "a"}], 1, ["'a'"]),
        ([{"type": "whiten", "kernel": 6}], 0, ["whiten", "6x6", "5x6"]),
        ([{"type": "relu"}, {"type": "whiten"}], 1, ["whiten", "first layer"]),
        ([{"type": "average_pool", "size": 0}], 0, ["average_pool", "size", "0"]),
    ],
)
def test_impossible_layers_are_named(tables: list, index: int, words: list[str]) -> None:
    with pytest.raises(InvalidLayer) as caught:
        learner(tables, IMAGE)
    assert caught.value.index == index
    for word in words:
        assert word in str(caught.value)


ANY_SHAPE = {"flatten", "batch_norm", "layer_norm", "relu", "gelu", "silu", "dropout"}
NEEDED = {kind: {"out": 2} for kind in ("conv", "residual")}


@pytest.mark.parametrize("kind", LAYERS)
def test_every_layer_says_what_came_in_and_what_it_needs(kind: str) -> None:
    """Rows where images are needed and the other way round; the message names the layer by its place and its type."""
    before, shape = [{"type": "relu"}], IMAGE if kind == "linear" else ROW
    tables = [*([] if kind == "whiten" else before), {"type": kind, **NEEDED.get(kind, {})}]
    if kind in ANY_SHAPE:
        for any_shape in (IMAGE, ROW, (3, 4)):
            learner([{"type": kind}, {"type": "flatten"}, {"type": "linear"}], any_shape)
        return
    with pytest.raises(InvalidLayer) as caught:
        learner(tables, shape)
    assert caught.value.index == len(tables) - 1
    needed = "one row of numbers a sample" if kind == "linear" else "images (height, width, channels)"
    message = str(caught.value)
    assert message.startswith(f"layer {len(tables)}: {kind} needs {needed}, got {shape}")


def test_a_network_without_anything_to_train_is_refused() -> None:
    with pytest.raises(InvalidLayer, match="nothing to train"):
        learner([{"type": "relu"}], (3,))


def test_keep_fp32_takes_the_names_of_layers() -> None:
    tables = [{"type": "linear", "out": 4}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "linear"}]
    trained = learner(tables, ROW, mode="mixed", keep_fp32=("linear1",))
    assert [layer.dtype.name for layer in trained.model.layers] == ["float32", "float16", "float16"]
    with pytest.raises(InputError, match="linear1"):
        learner(tables, ROW, keep_fp32=("linaer1",))
