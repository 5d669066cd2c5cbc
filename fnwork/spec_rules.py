"""What is wrong with values that are right each by itself: combinations that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from fnwork.spec_errors import Finding, one_of, shown
from fnwork.spec_model import check_layers, check_preset


class Values(Protocol):
    """A spec's values by dotted key; None for one that is at fault already; `in`: it was given."""

    def __getitem__(self, key: str) -> Any: ...

    def __contains__(self, key: str) -> bool: ...

    def meant(self, key: str) -> bool: ...


def readable_datasets() -> tuple[str, ...]:
    """The data sets this version can read."""
    from fnwork.datasets import DATASETS

    return tuple(DATASETS)


def check_model(values: Values) -> Iterator[Finding]:
    """Layer tables, the preset and its options."""
    if "model.layers" in values and (layers := values["model.layers"]) is not None:
        yield from check_layers(list(layers))
    if (preset := values["model.preset"]) is not None:
        yield from check_preset(preset, values["model.options"] or {})


def check_combinations(values: Values) -> Iterator[Finding]:
    """What needs two keys to be wrong."""
    yield from _network(values)
    yield from _data(values)
    yield from _training(values)


def _network(values: Values) -> Iterator[Finding]:
    preset, layers = "model.preset" in values, "model.layers" in values
    if preset and layers:
        yield ("model", "preset"), True, "expected model.preset or [[model.layers]], got both; remove one of them"
    if not any((preset, layers, values.meant("model.preset"), values.meant("model.layers"))):
        from engine.zoo import PRESETS

        yield ("model",), True, f"expected preset = {one_of(sorted(PRESETS))}, or [[model.layers]] tables; got neither"
    if layers and not preset and values["model.options"]:
        yield ("model", "options"), True, "options are a preset's; with [[model.layers]] write them into the layers"


def _data(values: Values) -> Iterator[Finding]:
    from fnwork.datasets.kinds import faults

    if values["data.dataset"] is not None:
        for key, is_key, message in faults(lambda name: values[f"data.{name}"]):
            yield ("data", *key), is_key, message


def _training(values: Values) -> Iterator[Finding]:
    task, loss = values["data.task"], values["train.loss"]
    if task == "regression" and loss == "cross-entropy":
        yield (
            ("train", "loss"),
            False,
            'cross-entropy compares classes; task "regression" needs "mse" or "huber"',
        )
    if task == "classification" and loss in ("mse", "huber"):
        place = ("train", "loss")
        yield place, False, f'{loss} compares numbers; task "classification" needs "cross-entropy"'
    if values["train.label_smoothing"] and loss in ("mse", "huber"):
        yield ("train", "label_smoothing"), False, f"there are no labels to smooth with loss {shown(loss)}; expected 0"
    kinds = [name.split(":")[0] for name in values["data.augment"] or ()]
    for index, kind in enumerate(kinds):
        if kind in kinds[:index]:
            yield ("data", "augment", index), False, f"{kind} is given twice; keep one of them"
    epochs, warmup, lr = values["train.epochs"], values["train.warmup_epochs"], values["train.lr"]
    if epochs is not None and warmup is not None and warmup > epochs:
        yield ("train", "warmup_epochs"), False, f"expected at most train.epochs = {epochs}, got {warmup:g}"
    for key, why in (("warmup_from", "the warm-up rises to it"), ("min_lr", "the schedule falls from it")):
        value = values[f"train.{key}"]
        if value is not None and lr is not None and value > lr:
            yield ("train", key), False, f"expected at most train.lr = {lr:g} ({why}), got {value:g}"
