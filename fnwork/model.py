"""A trained model, from a run's best weights: predicting without the data set, testing with it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.data import DataSet, Part, Preprocessing
from engine.errors import InputError
from engine.trainer import Settings, Trainer
from fnwork import checkpoint, datasets, prepare
from fnwork.run_folder import BEST, LAST, RunReader
from fnwork.text import harmless


def weights_file(folder: Path) -> Path:
    """The best weights; the last ones of a run that was stopped before its first epoch's end."""
    for name in (BEST, LAST):
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{harmless(folder.name)} has no weights yet: it ended before its first checkpoint")


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
    return TrainedModel(preprocessing, trainer.predict)


def _stand_in(preprocessing: Preprocessing) -> DataSet:
    """A data set of the model's shapes: a trainer needs one, but predicting does not look at it."""
    shape = tuple(preprocessing.input_shape)
    inputs = np.zeros((1, *shape), np.float32 if preprocessing.columns else np.uint8)
    targets = np.zeros(1, np.int32) if preprocessing.task == "classification" else np.zeros((1, 1), np.float32)
    part = Part(inputs, targets)
    return DataSet("none", preprocessing.task, part, part, None, shape, preprocessing.classes, preprocessing, "")


def test(folder: Path) -> dict[str, float]:
    """Loss and metrics of the best weights on the test part of the run's data."""
    spec = prepare.spec_of(RunReader(folder).resolved(), str(folder / "resolved.toml"))
    data_set = datasets.load(prepare.data_settings(spec, folder), spec.seed)
    if data_set.test is None:
        used = spec.data.validation == "test"
        why = "it served as the validation part" if used else f"{spec.data.dataset} has none"
        raise InputError(f"{harmless(folder.name)} has no test part: {why}")
    state, context = checkpoint.load(weights_file(folder))
    trainer = Trainer(context.layers, data_set, prepare.trainer_settings(spec), spec.device.use)
    trainer.load_weights(state.arrays)
    return trainer.evaluate("test")
