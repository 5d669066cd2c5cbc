"""From a spec to what the engine takes: layer tables, settings, data; and the complete account of both."""

import platform
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

import fnwork
from engine import resident, zoo
from engine.data import DataSet
from engine.device import Device, choose
from engine.errors import InputError, RunError
from engine.forecast import Forecast
from engine.forecast import forecast as engine_forecast
from engine.model import InvalidLayer
from engine.trainer import Settings, Trainer
from fnwork import augmentation, datasets
from fnwork import fit as fitting
from fnwork import spec as specs
from fnwork.cards import expect
from fnwork.compiling import Compilation
from fnwork.datasets import DataSettings, Progress, silent
from fnwork.datasets.data_info import DataInfo
from fnwork.run_folder import without_none
from fnwork.spec import Spec
from fnwork.spec_errors import KeyPath, Problem, SpecError, dotted
from fnwork.spec_text import parse_text
from fnwork.text import first_few, size

USED, VERSIONS = "used", "versions"  # the tables of resolved.toml that are not of the spec

FEW_SAMPLES = 8  # of which batch norm makes statistics that are noise, whoever asked for them
MOST_NAMED = 5  # classes in a message
MANY_CLASSES = 50  # of which a small part is bound to lack some


def data_settings(spec: Spec, base_folder: Path) -> DataSettings:
    """The `[data]` table for the engine; a relative path starts at `base_folder`, the spec file's folder."""
    values = {field.name: getattr(spec.data, field.name) for field in fields(DataSettings)}
    if spec.data.path:
        values["path"] = str((base_folder / Path(spec.data.path).expanduser()).resolve())
    return DataSettings(**values)


def trainer_settings(spec: Spec) -> Settings:
    """What the trainer is told: `[train]`, `[precision]`, `[memory]` and the seed."""
    given = {
        **spec.train.model_dump(),
        **spec.precision.model_dump(),
        "seed": spec.seed,
        "soft_targets": augmentation.parse(spec.data.augment).mixup > 0,
        "budget": spec.memory.budget_bytes,
        "recompute": spec.memory.recompute,
    }
    return Settings(**given)


def layers(spec: Spec) -> list[dict[str, Any]]:
    """The network as layer tables, a preset written out."""
    if spec.model.preset is None:
        return [dict(layer) for layer in spec.model.layers]
    return zoo.layers(spec.model.preset, dict(spec.model.options))


def cautions(trainer: Trainer) -> Iterator[str]:
    """What the person should know before the run goes on."""
    settings, data = trainer.settings, trainer.data
    seen, effective = settings.micro_batch, settings.micro_batch * settings.accumulate
    if trainer.forecast.learner.model.batch_norm and (
        seen < FEW_SAMPLES or (seen < fitting.NOISY_BATCH and settings.accumulate > 1)
    ):
        beside = f", although an update sees {effective:,}" if settings.accumulate > 1 else ""
        yield (
            f"batch norm sees {seen} sample{'s' * (seen > 1)} at a time{beside}: below {fitting.NOISY_BATCH} its "
            "statistics are noisy. Use a larger train.micro_batch with less train.accumulate, or layer_norm"
        )
    if effective > len(data.train):
        yield f"an update is to see {effective:,} samples, but there are {len(data.train):,}: each epoch is one update"
    parts = {"train": data.train}
    if len(data.classes) <= MANY_CLASSES:
        parts |= {"validation": data.validation, "test": data.test}
    for name, part in parts.items() if data.classes else ():
        counts = np.bincount(part.targets, minlength=len(data.classes)) if part else np.ones(len(data.classes))
        if missing := [repr(label) for label, count in zip(data.classes, counts, strict=True) if not count]:
            yield f"the {name} part has no sample of {first_few(missing, MOST_NAMED)}"


def trainer(spec: Spec, text: str, file: str, data_set: DataSet) -> Trainer:
    """The trainer of a spec; a layer or a budget that does not fit is refused at its line of the spec's text."""
    with placing(spec, text, file):
        how = augmentation.parse(spec.data.augment)
        return Trainer(
            layers(spec), data_set, trainer_settings(spec), spec.device.use, how, fitting.advise, Compilation
        )


def load(spec: Spec, text: str, file: str, base_folder: Path, progress: Progress = silent) -> DataSet:
    """The spec's data set; what is wrong with it is said at its key in the spec's text."""
    with placing(spec, text, file, _data_key(spec)):
        return datasets.load(data_settings(spec, base_folder), spec.seed, progress)


def info(spec: Spec, text: str, file: str, base_folder: Path) -> DataInfo:
    """Shapes and sizes of the spec's data set, without loading it where that can be avoided; errors as in `load`."""
    with placing(spec, text, file, _data_key(spec)):
        return datasets.info(data_settings(spec, base_folder), spec.seed)


def _data_key(spec: Spec) -> KeyPath:
    return ("data", "path") if spec.data.path else ("data", "dataset")


@contextmanager
def placing(spec: Spec, text: str, file: str, otherwise: KeyPath | None = None) -> Iterator[None]:
    """What the engine refuses becomes a problem at its place in the spec's text.

    An error that begins with the key at fault is placed there, another one at the key `otherwise`.
    """
    try:
        yield
    except InvalidLayer as error:
        place: KeyPath = ("model", "preset") if spec.model.preset else ("model", "layers", error.index)
        message = str(error) if spec.model.preset else str(error).removeprefix(f"layer {error.index + 1}: ")
        raise _at(place, message, text, file) from error
    except RunError as error:
        raise _at(("memory", "budget"), str(error), text, file) from error
    except SpecError:
        raise
    except InputError as error:
        begins = re.match(r"(data|train|precision|memory|device)\.(\w+)(?:: | = )", str(error))
        if not begins and not otherwise:
            raise
        place = (begins[1], begins[2]) if begins else otherwise
        raise _at(place, str(error)[begins.end() if begins else 0 :], text, file) from error


def _at(place: KeyPath, message: str, text: str, file: str) -> SpecError:
    line, column = parse_text(text).places.key(place)
    return SpecError(file, (Problem(line, column, dotted(place), message),))


@dataclass(frozen=True)
class Premises:
    """What a forecast starts from: the network, its data and how this machine lays out memory."""

    tables: list[dict[str, Any]]
    input_shape: tuple[int, ...]
    outputs: int
    settings: Settings
    layout: dict[str, Any]  # keyword arguments: alignment, data_bytes, samples


def premises(spec: Spec, found: DataInfo, device: Device | None = None) -> Premises:
    """The premises of a spec and its data on a device, by default the one that a run would choose."""
    try:
        device = device or choose(spec.device.use)
    except InputError:  # a card that this machine lacks
        device = expect(spec.device.use)
    parts = (found.train_samples, found.validation_samples, found.test_samples)
    augment = augmentation.parse(spec.data.augment)
    taken = resident.data_bytes(device, found.input_shape, parts, found.nbytes, augment)
    layout = {"alignment": device.alignment, "data_bytes": taken}
    settings = replace(trainer_settings(spec), budget=device.budget(spec.memory.budget_bytes))
    return Premises(
        layers(spec), found.input_shape, found.outputs, settings, {**layout, "samples": found.train_samples}
    )


def forecast(
    spec: Spec,
    text: str,
    file: str,
    base_folder: Path,
    found: DataInfo | None = None,
    device: Device | None = None,
) -> Forecast:
    """The memory of one window, as the run on this machine will take it; errors have their place in the spec's text.

    `found` is what is known of the data, where it was looked at before, `device` where it would be trained.
    """
    at = premises(spec, found or info(spec, text, file, base_folder), device)
    with placing(spec, text, file):
        return engine_forecast(at.tables, at.input_shape, at.outputs, at.settings, **at.layout)


def fixed(spec: Spec, found: Forecast) -> int | None:
    """What the process takes beside the ledger on this machine, None where its device is not here."""
    from fnwork.fixed import fixed_bytes

    try:
        return fixed_bytes(choose(spec.device.use), found.kernels)
    except InputError:
        return None


def check(spec: Spec, text: str, file: str, base_folder: Path, found: DataInfo | None = None) -> None:
    """Raise what would keep a run of the spec from starting: its data, device, augmentation, a layer, its memory.

    `found` as for `forecast`.
    """
    found = found or info(spec, text, file, base_folder)
    with placing(spec, text, file):
        device = choose(spec.device.use)
        if len(found.input_shape) == 3:
            augmentation.parse(spec.data.augment).check(found.input_shape)
    peak = forecast(spec, text, file, base_folder, found, device).peak["total"]
    budget, there = spec.memory.budget_bytes, device.budget(0) or device.total
    if peak > min(budget or there, there):
        room = f"{size(budget)} are allowed" if 0 < budget <= there else f"{size(there)} are there"
        message = f"the peak will be {size(peak)}, but only {room}; fnwork fit finds settings that need less"
        raise _at(("memory", "budget") if budget else ("model",), message, text, file)


def fit(spec: Spec, text: str, file: str, base_folder: Path, budget: int) -> fitting.Fit:
    """The settings of the spec that keep to a budget in bytes."""
    at = premises(spec, info(spec, text, file, base_folder))
    with placing(spec, text, file):
        return fitting.fit(at.tables, at.input_shape, at.outputs, at.settings, budget, **at.layout)


def account(spec: Spec, settings: DataSettings, data_set: DataSet, device: Device) -> dict[str, Any]:
    """Every value a run uses, for `resolved.toml`: the spec's, and what it was run with."""
    return {
        **specs.resolved(spec),
        USED: {
            "device": device.name,
            "device_use": device.use,
            "device_uuid": device.uuid,
            "device_why": device.why,
            "data_path": settings.path,
            "data_fingerprint": data_set.fingerprint,
        },
        VERSIONS: {
            "fnwork": fnwork.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            **({"cupy": device.cupy.__version__} if device.is_cuda else {}),
            "system": sys.platform,
        },
    }


def spec_of(resolved: Mapping[str, Any], where: str) -> Spec:
    """The spec that `resolved.toml` holds, with the data's path made absolute."""
    tables = {key: value for key, value in resolved.items() if key not in (USED, VERSIONS)}
    model, used = tables.get("model"), resolved.get(USED)
    if isinstance(model, dict) and not model.get("layers"):
        tables["model"] = {key: value for key, value in model.items() if key != "layers"}  # a preset has no tables
    if isinstance(used, dict) and used.get("data_path") and isinstance(tables.get("data"), dict):
        tables["data"] = {**tables["data"], "path": used["data_path"]}
    if not tables:
        raise InputError(f"{where}: missing or damaged, so what the run was trained with is not known")
    return specs.parse(tomli_w.dumps(without_none(tables)), where)
