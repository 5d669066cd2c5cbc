"""A trained model, from a run's best weights: predicting without the data set, testing with it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from engine.data import DataSet, Part, Preprocessing
from engine.errors import InputError
from engine.trainer import Settings, Trainer
from fnwork import checkpoint, datasets, prepare, scores
from fnwork.datasets import Progress, silent
from fnwork.inputs import piece_size
from fnwork.run_folder import BEST, LAST, RunReader
from fnwork.text import harmless


def weights_file(folder: Path) -> Path:
    """The best weights; the last ones of a run that was stopped before its first epoch's end."""
    for name in (BEST, LAST):
        if (folder / name).is_file():
            return folder / name
    why = "it ended before its first checkpoint, or its record alone was kept"
    raise InputError(f"{harmless(folder.name)} has no weights: {why}")


@dataclass(frozen=True)
class TrainedModel:
    """`predict` takes inputs as a data set's part holds them, and `preprocessing` makes such inputs."""

    preprocessing: Preprocessing
    predict: Callable[[np.ndarray], np.ndarray]


def load(folder: Path) -> TrainedModel:
    """The run's model; InputError where there is none or its file is broken."""
    state, context = checkpoint.load(weights_file(folder))
    preprocessing = checkpoint.preprocessing(state)
    settings = Settings(loss="cross-entropy" if preprocessing.task == "classification" else "mse")
    trainer = Trainer(context.layers, _stand_in(preprocessing), settings)
    trainer.load_weights(state.arrays)
    return TrainedModel(preprocessing, partial(predict, trainer))


def _stand_in(preprocessing: Preprocessing) -> DataSet:
    """A data set of the model's shapes: a trainer needs one, but predicting does not look at it."""
    shape = tuple(preprocessing.input_shape)
    inputs = np.zeros((1, *shape), np.float32 if preprocessing.columns else np.uint8)
    targets = np.zeros(1, np.int32) if preprocessing.task == "classification" else np.zeros((1, 1), np.float32)
    part = Part(inputs, targets)
    return DataSet("none", preprocessing.task, part, part, None, shape, preprocessing.classes, preprocessing, "")


def predict(trainer: Trainer, inputs: np.ndarray) -> np.ndarray:
    """Probabilities (N, classes), or values in the target's units (N, 1), for raw inputs as in a part."""
    outputs = trainer.outputs(inputs)
    if trainer.data.task == "regression":
        return trainer.data.preprocessing.in_units(outputs)
    shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Tested:
    """`results` are loss and metrics of the test part. `confusion` counts its samples by their class (rows) and by the
    class they were taken for (columns); it is None for a regression, which has a `target` instead."""

    results: dict[str, float]
    classes: tuple[str, ...]
    confusion: np.ndarray | None
    target: str
    notes: tuple[str, ...]


def test(folder: Path, progress: Progress = silent) -> Tested:
    """The best weights on the test part of the run's data; InputError where it has none, or is another data set now.

    `progress` is told how far the data are read.
    """
    resolved = RunReader(folder).resolved()
    spec = prepare.spec_of(resolved, str(folder / "resolved.toml"))
    data_set = datasets.load(prepare.data_settings(spec, folder), spec.seed, progress)
    if data_set.test is None:
        used = spec.data.validation == "test"
        why = "it served as the validation part" if used else f"{spec.data.dataset} has none"
        raise InputError(f"{harmless(folder.name)} has no test part: {why}")
    state, context = checkpoint.load(weights_file(folder))
    stored, notes = checkpoint.preprocessing(state), ()
    if data_set.fingerprint != resolved.get(prepare.USED, {}).get("data_fingerprint"):
        if (data_set.classes, data_set.input_shape) != (stored.classes, stored.input_shape):
            raise InputError(f"{harmless(folder.name)}: the data has other classes or shapes than it was trained with")
        notes = ("the data changed since the run began; these are the results on the data as they are now",)
    trainer = Trainer(
        context.layers, replace(data_set, preprocessing=stored), prepare.trainer_settings(spec), spec.device.use
    )
    trainer.load_weights(state.arrays)
    results = trainer.evaluate("test")
    if data_set.task == "regression":
        return Tested(results, (), None, stored.target, notes)
    predicted = [trainer.outputs(inputs).argmax(axis=1) for inputs in _pieces(data_set.test.inputs)]
    confusion = scores.confusion(data_set.test.targets, np.concatenate(predicted), len(stored.classes))
    return Tested(results, stored.classes, confusion, "", notes)


def _pieces(inputs: np.ndarray) -> Iterator[np.ndarray]:
    size = piece_size(inputs.shape[1:])
    for begin in range(0, len(inputs), size):
        yield inputs[begin : begin + size]
