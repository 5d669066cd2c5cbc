"""The specs that come with the project are right, can be read at 80 columns, and their networks fit their data."""

from pathlib import Path

import pytest

from engine.errors import InputError
from engine.forecast import forecast
from fnwork import datasets, prepare, spec

SPECS = Path(__file__).parents[2] / "experiments" / "specs"
BUNDLED = {"fashion-mlp", "fashion-cnn", "table-regression"}
GREY, COLOURED = ((28, 28, 1), 10), ((32, 32, 3), 10)
FETCHED = {  # shape of an input, and outputs
    "mnist-mlp": GREY,
    "mnist-cnn": GREY,
    "fashion-mnist-cnn": GREY,
    "diamonds": ((26,), 1),
    "cifar10-cnn8": COLOURED,
    "cifar10-air": COLOURED,
    "cnn8-attention": COLOURED,
}
COLUMNS = 40  # beside the list of specs, in a terminal of 80


def test_every_starter_spec_is_known_here():
    assert {path.stem for path in SPECS.glob("*.toml")} == BUNDLED | set(FETCHED)


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.toml")), ids=lambda path: path.stem)
def test_a_starter_spec_is_right_and_its_network_fits_its_data(path):
    read, text = spec.read(path)
    assert read.name == path.stem
    assert text.startswith("# ")
    assert max(len(line) for line in text.splitlines() if line.startswith("#")) <= COLUMNS
    if path.stem in BUNDLED:
        info = datasets.info(prepare.data_settings(read, path.parent))
        shape, outputs = info.input_shape, info.outputs
    else:
        shape, outputs = FETCHED[path.stem]
    result = forecast(prepare.layers(read), shape, outputs, prepare.trainer_settings(read))
    assert 1000 < result.parameters < 5_000_000


@pytest.mark.parametrize("name", FETCHED)
def test_a_spec_whose_data_are_not_there_tells_how_to_fetch_them(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FNWORK_CACHE", str(tmp_path))
    monkeypatch.setattr("fnwork.datasets.image_set.DEBIAN_FASHION_MNIST", tmp_path / "none")
    read, text = spec.read(SPECS / f"{name}.toml")
    first_comment = text.partition("\n\n")[0]
    assert "fetched once" in first_comment
    path = tmp_path / f"{name}.toml"
    with pytest.raises(InputError) as raised:
        prepare.check(read, text, str(path), tmp_path)
    [problem] = raised.value.problems
    if read.data.path:
        line = text.splitlines()[problem.line - 1]
        assert line.startswith("path = ")
    else:
        assert f"fnwork data get {read.data.dataset}" in problem.message
