"""The names in data.augment."""

import pytest

from engine.errors import InputError
from fnwork import prepare, spec
from fnwork.augmentation import parse
from fnwork.datasets.augment import Augmentation


def test_reads_the_names() -> None:
    names = ("crop:2", "flip", "jitter:0.4", "cutout:3", "mixup:0.5")
    assert parse(names) == Augmentation(crop=2, flip="random", jitter=0.4, cutout=3, mixup=0.5)
    assert parse(("flip:alternating", "mixup:1", "jitter:.05")) == Augmentation(0, "alternating", 0.05, 0, 1.0)
    assert not parse(())
    assert parse(("flip",))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "crop",
            "crop:0",
            "crop:-1",
            "crop:4.5",
            "crop:4 ",
            "flip:",
            "flip:random",
            "flip:alternatin",
            "rotate:3",
        ),
        *("cutout:x", "jitter:0", "jitter:1.1", "jitter:", "jitter:.", "mixup:0", "mixup:11", "mixup:1e1", "mixup:nan"),
    ],
)
def test_refuses_other_names(name: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(("crop:1", name))
    assert f'got "{name}"' in str(caught.value)
    assert '"crop:N"' in str(caught.value)


def test_refuses_the_same_twice() -> None:
    with pytest.raises(InputError, match="flip is given twice"):
        parse(("flip", "crop:1", "flip:alternating"))


@pytest.mark.parametrize("names", [(), ("flip", "cutout:4"), ("mixup:0.2",)])
def test_mixed_images_have_targets_of_their_own_in_the_forecast_too(names: tuple[str, ...]) -> None:
    read = spec.parse(f'[data]\ndataset = "fashion-mini"\naugment = {list(names)}\n[model]\npreset = "mlp"\n')
    assert prepare.trainer_settings(read).soft_targets == ("mixup:0.2" in names)
