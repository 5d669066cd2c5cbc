"""The specs that come with the project are right, and their networks fit their data."""

from pathlib import Path

import pytest

from engine.forecast import forecast
from fnwork import datasets, prepare, spec

SPECS = Path(__file__).parents[2] / "experiments" / "specs"


def test_the_starter_specs_are_there():
    assert {path.stem for path in SPECS.glob("*.toml")} >= {"fashion-mlp", "fashion-cnn", "table-regression"}


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.toml")), ids=lambda path: path.stem)
def test_a_starter_spec_is_right_and_its_network_fits_its_data(path):
    read, text = spec.read(path)
    assert read.name == path.stem
    assert text.startswith("# ")
    info = datasets.info(prepare.data_settings(read, path.parent))
    result = forecast(prepare.layers(read), info.input_shape, info.outputs, prepare.trainer_settings(read))
    assert 1000 < result.parameters < 1_000_000
