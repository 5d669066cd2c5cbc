"""The presets have the size that is written of them, and say what is wrong with what they are given."""

import pytest

from engine import zoo
from engine.errors import InputError
from engine.forecast import forecast
from engine.settings import Settings
from fnwork.layer_forecast import layer_forecasts


def parameters(preset: str, shape: tuple[int, ...], **options: object) -> int:
    return forecast(zoo.layers(preset, options), shape, 10, Settings(micro_batch=4)).parameters


def test_parameter_counts() -> None:
    assert parameters("res3", (128, 128, 3)) == 1_850_954
    assert parameters("cnn8", (32, 32, 3)) == 2_477_066
    assert parameters("mlp", (28, 28, 1)) == (784 * 256 + 256) + (256 * 256 + 256) + (256 * 10 + 10)
    convolutions = 9 * (24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256)
    assert parameters("air", (32, 32, 3)) == convolutions + 2 * (2 * 64 + 4 * 256) + 2560
    assert parameters("mlp", (9,), hidden=5, depth=1, dropout=0.5) == (9 * 5 + 5) + (5 * 10 + 10)


def test_options_scale_the_presets() -> None:
    assert parameters("cnn8", (32, 32, 3), width=0.25) < 2_477_066 / 15
    assert parameters("res3", (32, 32, 3), blocks=1) < parameters("res3", (32, 32, 3), blocks=2)
    assert sum(layer["type"] == "dropout" for layer in zoo.layers("mlp", {"depth": 3, "dropout": 0.1})) == 3


def test_stages_of_res3_are_given_by_their_widths() -> None:
    tables = zoo.layers("res3", {"widths": (8, 12), "blocks": 2, "width": 0.5})
    residual = [(table["out"], table["stride"]) for table in tables if table["type"] == "residual"]
    assert residual == [(4, 2), (4, 1), (6, 2), (6, 1)]
    assert zoo.layers("res3", {"widths": (32, 64, 128)}) == zoo.layers("res3")


@pytest.mark.parametrize(
    ("kind", "of_128", "of_256"),
    [
        # of 128 and of 256 channels 8 and 16 in between; kernels of 5; 7x7 kernels over two maps, and a bias
        ("se", 2 * 128 * 8 + 8 + 128, 2 * 256 * 16 + 16 + 256),
        ("eca", 5, 5),
        ("cbam", 2 * 128 * 8 + 8 + 128 + 99, 2 * 256 * 16 + 16 + 256 + 99),
    ],
)
def test_attention_adds_little(kind: str, of_128: int, of_256: int) -> None:
    assert parameters("cnn8", (32, 32, 3), attention=kind) == 2_477_066 + of_128 + 2 * of_256
    wide = {"widths": (128, 128), "blocks": 3}
    more = parameters("res3", (16, 16, 3), **wide, attention=kind) - parameters("res3", (16, 16, 3), **wide)
    assert more == 6 * of_128
    assert zoo.layers("cnn8", {"attention": "none"}) == zoo.layers("cnn8")


def test_shapes_of_air() -> None:
    made = forecast(zoo.layers("air"), (32, 32, 3), 10, Settings(micro_batch=2))
    shapes = {layer.name: layer.output_shape for layer in layer_forecasts(made)}
    wanted = {"whiten1": (31, 31, 24), "conv2": (15, 15, 64), "conv4": (7, 7, 256), "conv6": (3, 3, 256)}
    assert {name: shapes[name] for name in wanted} == wanted
    assert (shapes["max_pool4"], shapes["linear1"]) == ((1, 1, 256), (10,))


def test_shapes_of_the_reference_networks() -> None:
    made = forecast(zoo.layers("res3"), (128, 128, 3), 10, Settings(micro_batch=2))
    shapes = {layer.name: layer.output_shape for layer in layer_forecasts(made)}
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
        ("transformer", {}, ["transformer", "mlp, cnn8, res3, air"]),
        ("cnn8", {"attention": "sea"}, ["'sea'", "none, se, eca, cbam", "did you mean 'se'"]),
        ("air", {"attention": "se"}, ["air", "attention"]),
        ("mlp", {"hiden": 3}, ["mlp", "hiden"]),
    ],
)
def test_wrong_presets_are_named(preset: str, options: dict, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        zoo.layers(preset, options)
    assert all(word in str(caught.value) for word in words)
