"""The presets have the size that is written of them, and say what is wrong with what they are given."""

import pytest

from engine import zoo
from engine.errors import InputError
from engine.forecast import forecast
from engine.settings import Settings


def parameters(preset: str, shape: tuple[int, ...], **options: object) -> int:
    return forecast(zoo.layers(preset, options), shape, 10, Settings(micro_batch=4)).parameters


def test_parameter_counts() -> None:
    assert parameters("res3", (128, 128, 3)) == 1_850_954
    assert parameters("cnn8", (32, 32, 3)) == 2_477_066
    assert parameters("mlp", (28, 28, 1)) == (784 * 256 + 256) + (256 * 256 + 256) + (256 * 10 + 10)
    assert parameters("mlp", (9,), hidden=5, depth=1, dropout=0.5) == (9 * 5 + 5) + (5 * 10 + 10)


def test_options_scale_the_presets() -> None:
    assert parameters("cnn8", (32, 32, 3), width=0.25) < 2_477_066 / 15
    assert parameters("res3", (32, 32, 3), blocks=1) < parameters("res3", (32, 32, 3), blocks=2)
    assert sum(layer["type"] == "dropout" for layer in zoo.layers("mlp", {"depth": 3, "dropout": 0.1})) == 3


def test_shapes_of_the_reference_networks() -> None:
    made = forecast(zoo.layers("res3"), (128, 128, 3), 10, Settings(micro_batch=2))
    shapes = {layer.name: layer.output_shape for layer in made.layers}
    assert (shapes["residual1"], shapes["residual6"], shapes["residual15"]) == (
        (64, 64, 32),
        (32, 32, 64),
        (16, 16, 128),
    )
    assert (shapes["global_average1"], shapes["linear1"]) == ((128,), (10,))


@pytest.mark.parametrize(
    ("preset", "options", "words"),
    [
        ("res5", {}, ["res5", "did you mean 'res3'"]),
        ("transformer", {}, ["transformer", "mlp, cnn8, res3"]),
        ("mlp", {"hiden": 3}, ["mlp", "hiden"]),
    ],
)
def test_wrong_presets_are_named(preset: str, options: dict, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        zoo.layers(preset, options)
    assert all(word in str(caught.value) for word in words)
