"""Settings that name no data set this version reads, or ask of one what it cannot give."""

import pytest

from engine.errors import InputError
from fnwork.datasets import DataSettings, info, load


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (DataSettings("cifar10"), "`fnwork data get cifar10` downloads it"),
        (DataSettings("mnist"), "`fnwork data get mnist` downloads it"),
        (DataSettings("image-folder"), "needs path"),
        (DataSettings("npz"), "needs path"),
        (DataSettings("text", task="regression"), "has classes"),
        (DataSettings("text", validation="test"), "no test part"),
        (DataSettings("fashon-mini"), 'is it "fashion-mini"'),
        (DataSettings("fashion-mini", task="regression"), "data.task"),
        (DataSettings("fashion-mini", task="clustering"), 'expected "classification" or "regression"'),
        (DataSettings("fashion-mini", augment=("rotate:3",)), 'got "rotate:3"'),
        (DataSettings("fashion-mini", augment=("crop:0",)), 'got "crop:0"'),
        (DataSettings("csv", path="x.csv", target="y", augment=("flip",)), "changes pictures"),
        (DataSettings("csv", target="y"), "needs path"),
        (DataSettings("csv", path="x.csv", target="y", validation="test"), "no test part"),
    ],
)
def test_refuses_settings_with_the_key_at_fault(settings, said):
    for read in (info, lambda settings: load(settings, 0)):
        with pytest.raises(InputError) as error:
            read(settings)
        assert said in str(error.value)
        assert "data." in str(error.value)
