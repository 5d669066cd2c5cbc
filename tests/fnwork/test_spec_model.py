"""[model] against the layers and presets of the engine."""

from typing import Literal

import pytest

from fnwork import spec
from fnwork.spec_model import arguments_of


def found(model: str) -> list[tuple[int, int, str, str]]:
    return [(p.line, p.column, p.key, p.message) for p in spec.problems('data.dataset = "fashion-mini"\n' + model)]


@pytest.mark.parametrize(
    ("model", "place", "key", "words"),
    [
        (
            '[[model.layers]]\ntype = "cnov"',
            (3, 8),
            "model.layers.0.type",
            ["one of", '"conv"', 'did you mean "conv"?'],
        ),
        ('[[model.layers]]\ntype = "dense"', (3, 8), "model.layers.0.type", ['did you mean "linear"?']),
        ('[[model.layers]]\ntype = "maxpool"', (3, 8), "model.layers.0.type", ['did you mean "max_pool"?']),
        ("[[model.layers]]\ntype = 3", (3, 8), "model.layers.0.type", ["one of", "got 3"]),
        ("[[model.layers]]\nout = 3", (2, 1), "model.layers.0", ["no type"]),
        ('[[model.layers]]\ntype = "conv"', (2, 1), "model.layers.0", ["a conv layer needs out"]),
        ('[[model.layers]]\ntype = "conv"\nout = 3.5', (4, 7), "model.layers.0.out", ["a whole number", "got 3.5"]),
        ('[[model.layers]]\ntype = "conv"\nout = true', (4, 7), "model.layers.0.out", ["a whole number", "got true"]),
        ('[[model.layers]]\ntype = "conv"\nout = "3"', (4, 7), "model.layers.0.out", ["a whole number", 'got "3"']),
        ('[[model.layers]]\ntype = "conv"\nout = 99999999', (4, 7), "model.layers.0.out", ["at most 100,000"]),
        ('[model]\npreset = "mlp"\noptions = { depth = -1 }', (4, 21), "model.options.depth", ["from 0, got -1"]),
        ('[[model.layers]]\ntype = "linear"\nbias = 1', (4, 8), "model.layers.0.bias", ["true or false", "got 1"]),
        ('[[model.layers]]\ntype = "dropout"\nrate = nan', (4, 8), "model.layers.0.rate", ["a number", "got nan"]),
        (
            '[[model.layers]]\ntype = "conv"\nout = 3\nkernl = 3',
            (5, 1),
            "model.layers.0.kernl",
            ["no such option", "it has: out, kernel", 'did you mean "kernel"?'],
        ),
        ("[model]\nlayers = []", (3, 10), "model.layers", ["at least one layer"]),
        ("[model]\nlayers = [3]", (3, 11), "model.layers.0", ["a layer table", "got 3"]),
        ('[model]\nlayers = "conv"', (3, 10), "model.layers", ["[[model.layers]] tables", 'got "conv"']),
        ('[model]\npreset = "cnn9"', (3, 10), "model.preset", ["one of", 'did you mean "cnn8"?']),
        ("[model]\npreset = 3", (3, 10), "model.preset", ["the name of a preset", "got 3"]),
        ('[model]\npreset = "mlp"\noptions = 3', (4, 11), "model.options", ["a table", "got 3"]),
        (
            '[model]\npreset = "res3"\noptions = { widths = [8, 0] }',
            (4, 22),
            "model.options.widths",
            ["an array of whole numbers from 1 to 100,000, such as [32, 64, 128]", "got an array"],
        ),
        ('[model]\npreset = "res3"\noptions = { widths = [] }', (4, 22), "model.options.widths", ["an array"]),
        ('[model]\npreset = "res3"\noptions = { widths = [true] }', (4, 22), "model.options.widths", ["an array"]),
        ('[model]\npreset = "res3"\noptions = { widths = 3 }', (4, 22), "model.options.widths", ["an array", "got 3"]),
        ('[model]\npreset = "res3"\noptions = { blocks = [3] }', (4, 22), "model.options.blocks", ["a whole number"]),
        (
            '[model]\npreset = "cnn8"\noptions = { attention = "sbam" }',
            (4, 25),
            "model.options.attention",
            ['one of "none", "se", "eca", "cbam"', 'did you mean "cbam"?'],
        ),
        ('[model]\npreset = "mlp"\noptions = { xyz = 3 }', (4, 13), "model.options.xyz", ["mlp has no such option"]),
        ('[[model.layers]]\ntype = "relu"\nname = "\\u001b"', (4, 8), "model.layers.0.name", ["a name of letters"]),
        (
            '[[model.layers]]\ntype = "relu"\nname = "a"\n[[model.layers]]\ntype = "relu"\nname = "a"',
            (7, 8),
            "model.layers.1.name",
            ["earlier layer"],
        ),
        ('[[model.layers]]\ntype = "conv"\nout = 0', (2, 1), "model.layers.0", ["out must be at least 1, got 0"]),
        ("[model]\nlayers = [" + "{}," * 1001 + "]", (3, 1), "model.layers", ["at most 1,000 layers"]),
        ('[model]\npreset = "mlp"\noptions = { hidden = 0 }', (4, 22), "model.options.hidden", ["above 0, got 0"]),
        ('[model]\npreset = "cnn8"\noptions = { width = 0 }', (4, 21), "model.options.width", ["above 0, got 0"]),
        ('[model]\npreset = "mlp"\noptions = { depth = -1 }', (4, 21), "model.options.depth", ["from 0, got -1"]),
        ('[model]\npreset = "mlp"\noptions = { depth = 90000 }', (4, 11), "model.options", ["at most 1,000 layers"]),
        ("[model]", (2, 2), "model", ["preset = one of", "got neither"]),
    ],
)
def test_faults(model, place, key, words):
    (problem,) = found(model)
    assert problem[:3] == (*place, key)
    for word in words:
        assert word in problem[3]


def test_a_preset_and_layers_exclude_each_other():
    (problem,) = found('[model]\npreset = "mlp"\n[[model.layers]]\ntype = "linear"')
    assert problem[:3] == (3, 1, "model.preset")
    assert "got both" in problem[3]


def test_options_belong_to_a_preset():
    (problem,) = found('[model]\noptions = { width = 1.0 }\n[[model.layers]]\ntype = "linear"')
    assert problem[:3] == (3, 1, "model.options")


def test_every_layer_is_looked_at():
    assert [p[0] for p in found("[model]\nlayers = [\n3,\n{ type = 'cnov' },\n{},\n]")] == [4, 5, 6]


def test_layers_are_read():
    read = spec.parse(
        'data.dataset = "fashion-mini"\n[[model.layers]]\ntype = "flatten"\n[[model.layers]]\ntype = "linear"\nout = 3'
    )
    assert read.model.layers == ({"type": "flatten"}, {"type": "linear", "out": 3})


def test_options_that_are_arrays_are_read():
    read = spec.parse('data.dataset = "fashion-mini"\n[model]\npreset = "res3"\noptions = { widths = [8, 16] }')
    assert read.model.options == {"widths": [8, 16]}


def test_arguments_are_read_from_annotations():
    class Layer:
        def __init__(
            self, out: int, rate: float = 0.5, *, mode: Literal["a", "b"] = "a", bias: bool | None = True
        ) -> None: ...

    arguments = arguments_of(Layer)
    assert list(arguments) == ["out", "rate", "mode", "bias"]
    assert [argument.required for argument in arguments.values()] == [True, False, False, False]
    assert arguments["rate"].accepts(1)
    assert not arguments["out"].accepts(1.0)
    assert arguments["mode"].accepts("a")
    assert not arguments["mode"].accepts("c")
    assert arguments["mode"].expectation() == 'one of "a", "b"'
    assert arguments["bias"].accepts(False)
    assert not arguments["bias"].accepts(None)
