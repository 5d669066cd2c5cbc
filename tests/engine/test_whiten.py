"""The whitening first layer: computed from the train images, frozen, and part of the model."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from laboratory import images

from engine.data import DataSet, Part
from engine.trainer import Settings, Trainer
from fnwork.layer_forecast import layer_forecasts
from fnwork.model import predict

LAYERS = [
    {"type": "whiten"},
    {"type": "relu"},
    {"type": "conv", "out": 4},
    {"type": "batch_norm"},
    {"type": "global_average"},
    {"type": "linear"},
]


def smooth(samples: int, seed: int = 0) -> DataSet:
    """Images whose neighbouring pixels and channels go together, unlike noise."""
    data = images(samples, (9, 8, 3), seed=seed)
    random = np.random.default_rng(seed)

    def part(like: Part) -> Part:
        coarse = random.integers(0, 200, (len(like), 5, 4, 1)).repeat(2, axis=1).repeat(2, axis=2)[:, :9]
        return Part((coarse + random.integers(0, 56, (len(like), 9, 8, 3))).astype(np.uint8), like.targets)

    return replace(data, **{name: part(getattr(data, name)) for name in ("train", "validation", "test")})


def trainer(data: DataSet, layers: list[dict] = LAYERS, **settings: Any) -> Trainer:
    return Trainer(layers, data, Settings(**{"epochs": 2, "micro_batch": 8, "lr": 0.05, **settings}), "cpu")


def weight_of(made: Trainer) -> np.ndarray:
    return made.state().arrays["model.whiten1.weight"].copy()


@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_patches_become_uncorrelated_with_variance_one(kernel: int) -> None:
    """Over the train images, patch by patch; the second half of the outputs is the first one negated."""
    data = smooth(300)
    made = trainer(data, [{"type": "whiten", "kernel": kernel}, *LAYERS[1:]])
    weight = weight_of(made).astype(np.float64)
    size = kernel**2 * 3
    assert weight.shape == (2 * size, kernel, kernel, 3)
    np.testing.assert_array_equal(weight[size:], -weight[:size])
    pixels = (data.train.inputs - np.array(data.preprocessing.channel_mean)) / data.preprocessing.channel_std
    patches = [
        image[row : row + kernel, column : column + kernel].reshape(-1)
        for image in pixels
        for row in range(10 - kernel)
        for column in range(9 - kernel)
    ]
    outputs = np.array(patches) @ weight[:size].reshape(size, -1).T
    moments = outputs.T @ outputs / len(outputs)
    np.testing.assert_allclose(moments, np.eye(size), atol=0.02)
    # the patches themselves are far from it, and the first output is the direction in which they vary most
    assert np.abs(np.corrcoef(np.array(patches).T) - np.eye(size)).max() > 0.5
    spread = np.linalg.norm(weight[:size].reshape(size, -1), axis=1)
    assert (np.diff(spread) >= 0).all()


def test_the_filters_are_of_some_of_many_images(monkeypatch: pytest.MonkeyPatch) -> None:
    data = smooth(60)
    third = replace(data, train=Part(data.train.inputs[::3], data.train.targets[::3]))
    monkeypatch.setattr("engine.layers.whiten.SAMPLES", 25)
    assert weight_of(trainer(data)).tobytes() == weight_of(trainer(third)).tobytes()


def test_images_of_one_colour_give_finite_filters() -> None:
    data = smooth(4)
    data = replace(data, train=Part(np.full_like(data.train.inputs, 90), data.train.targets))
    assert np.isfinite(weight_of(trainer(data))).all()


@pytest.mark.parametrize("mode", ["fp32", "mixed"])
def test_training_leaves_the_filters_alone(mode: str) -> None:
    made = trainer(smooth(24), mode=mode, loss_scale=64.0, optimizer="momentum", average_decay=0.9)
    before, arrays = weight_of(made), {name: array.copy() for name, array in made.state().arrays.items()}
    assert [event.values["reason"] for event in made.run() if event.kind == "end"] == ["finished"]
    assert weight_of(made).tobytes() == before.tobytes()
    after = made.state().arrays
    assert (after["model.conv1.weight"] != arrays["model.conv1.weight"]).any()
    assert not [name for name in after if "whiten" in name and not name.startswith("model.")]
    assert made.forecast.parameters == sum(layer.parameters for layer in layer_forecasts(made.forecast))
    assert layer_forecasts(made.forecast)[0].parameters == 0


def test_the_filters_are_stored_and_come_back() -> None:
    """Whatever data the trainer that loads them was made with."""
    source, other = trainer(smooth(24)), trainer(smooth(24, seed=5))
    assert weight_of(source).tobytes() != weight_of(other).tobytes()
    list(source.run())
    inputs = smooth(6, seed=8).train.inputs
    expected = predict(source, inputs)
    assert predict(other, inputs).tobytes() != expected.tobytes()
    other.load_state(source.state())
    assert predict(other, inputs).tobytes() == expected.tobytes()
    third = trainer(smooth(24, seed=6))
    third.load_weights(source.state().arrays)
    assert weight_of(third).tobytes() == weight_of(source).tobytes()
