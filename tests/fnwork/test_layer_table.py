"""`fnwork show --model`: the layers of a spec's network."""

import json

import pytest

from engine import zoo
from engine.forecast import forecast
from engine.settings import Settings
from fnwork import layer_table
from fnwork.cli import main
from fnwork.prepare import Premises

SPEC = 'name = "x"\n[data]\ndataset = "fashion-mini"\n[train]\nmicro_batch = 4\n'


def rows_of(preset: str, shape: tuple[int, ...], **options: object) -> dict[str, layer_table.LayerRow]:
    tables, settings = zoo.layers(preset, options), Settings(micro_batch=4)
    made = forecast(tables, shape, 10, settings)
    return {row.name: row for row in layer_table.rows(Premises(tables, shape, 10, settings, {}), made)}


def test_multiply_adds_are_those_of_one_sample_forward():
    rows = rows_of("cnn8", (32, 32, 3))
    assert rows["conv1"].multiply_adds == 32 * 32 * 64 * 9 * 3
    assert rows["conv8"].multiply_adds == 8 * 8 * 256 * 9 * 288
    assert rows["linear1"].multiply_adds == 256 * 10
    assert rows["max_pool1"].multiply_adds == rows["batch_norm1"].multiply_adds == 0
    assert (rows["conv1"].type, rows["batch_norm8"].type, rows["conv4"].output_shape) == (
        "conv",
        "batch_norm",
        (16, 16, 128),
    )


def test_layers_within_a_layer_count():
    rows = rows_of("res3", (16, 16, 3), widths=[8, 12], blocks=1, attention="se")
    first = 8 * 8 * (9 * 3 * 8 + 9 * 8 * 8 + 3 * 8)
    assert rows["residual1"].multiply_adds == first
    assert rows["se2"].multiply_adds == 2 * 12
    assert rows["se2"].parameters == 12 + 1 + 12 + 12


def test_of_the_whole_reference_network():
    total = sum(row.multiply_adds for row in rows_of("res3", (128, 128, 3)).values())
    expected, inputs, side = 128 * 10, 3, 64
    for channels in (32, 64, 128):
        expected += side**2 * channels * (9 * inputs + 9 * channels + inputs + 4 * 2 * 9 * channels)
        inputs, side = channels, side // 2
    assert total == expected


@pytest.mark.parametrize(
    ("model", "layers", "parameters"),
    [
        (
            '[model]\npreset = "mlp"\noptions = { hidden = 8, depth = 1 }\n',
            ["flatten1", "linear1", "relu1", "linear2"],
            6370,
        ),
        (
            '[[model.layers]]\ntype = "flatten"\n[[model.layers]]\ntype = "linear"\nname = "only"\n',
            ["flatten1", "only"],
            7850,
        ),
    ],
)
def test_the_command(tmp_path, capsys, model, layers, parameters):
    path = tmp_path / "x.toml"
    path.write_text(SPEC + model)
    assert main(["show", "--model", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [layer["name"] for layer in document["layers"]] == layers
    assert (document["input_shape"], document["micro_batch"]) == ([28, 28, 1], 4)
    for key in ("parameters", "multiply_adds", "saved_bytes"):
        assert document[key] == sum(layer[key] for layer in document["layers"])
    assert document["parameters"] == parameters
    assert set(document["layers"][0]) == {
        *("name", "type", "output_shape", "parameters", "multiply_adds", "saved_bytes"),
    }
    assert main(["show", "--model", str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["layer", "type", "output", "parameters", "multiply-adds", "kept", "for", "backward"]
    assert shown[1].split() == ["input", "28x28x1"]
    assert [line.split()[0] for line in shown[2 : 2 + len(layers)]] == layers
    assert shown[2 + len(layers)].split()[:2] == ["total", f"{parameters:,}"]


def test_a_network_that_cannot_be_is_told_at_its_layer(tmp_path, capsys):
    path = tmp_path / "x.toml"
    path.write_text(SPEC + '[[model.layers]]\ntype = "linear"\n')
    assert main(["show", "--model", str(path)]) == 2
    error = capsys.readouterr().err
    assert "x.toml:6" in error
    assert "linear needs one row of numbers a sample, got (28, 28, 1)" in error


@pytest.mark.parametrize("arguments", [["show"], ["show", "last", "--model", "x.toml"]])
def test_a_run_or_a_model(capsys, arguments):
    assert main(arguments) == 2
    assert "expected a RUN, or --model SPEC" in capsys.readouterr().err
