"""Moving averages of the weights: what they are, where they count, and that a resume brings all of them back."""

from dataclasses import replace

import numpy as np
import pytest

from engine.data import DataSet, Part, Preprocessing
from engine.errors import InputError
from engine.losses import TOTALS
from engine.trainer import Settings, Trainer
from fnwork import state_file
from fnwork.model import predict

SHAPE = (6, 6, 1)
LAYERS = [
    {"type": "conv", "out": 4},
    {"type": "batch_norm"},
    {"type": "relu"},
    {"type": "global_average"},
    {"type": "dropout", "rate": 0.2},
    {"type": "linear"},
]
SETTINGS = Settings(micro_batch=4, epochs=3, lr=0.05, average_decay=0.9)


def trainer(settings: Settings = SETTINGS) -> Trainer:
    draws = np.random.default_rng(0)
    part = Part(draws.integers(0, 256, (24, *SHAPE), np.uint8), draws.integers(0, 3, 24).astype(np.int32))
    classes = ("a", "b", "c")
    preprocessing = Preprocessing("classification", SHAPE, classes, channel_mean=(127.0,), channel_std=(64.0,))
    data = DataSet("made-up", "classification", part, part, None, SHAPE, classes, preprocessing, "")
    return Trainer(LAYERS, data, settings, "cpu")


def weights(training: Trainer, prefix: str) -> dict[str, np.ndarray]:
    arrays = training.state().arrays
    return {name.removeprefix(prefix): np.array(array) for name, array in arrays.items() if name.startswith(prefix)}


def test_the_averages_follow_their_formula():
    training = trainer()
    expected = weights(training, "average.")
    count = 0
    for event in training.run():
        if event.kind == "step":
            count += 1
            decay = min(0.9, (1 + count) / (10 + count))
            raw = weights(training, "model.")
            expected = {name: decay * value + (1 - decay) * raw[name] for name, value in expected.items()}
    for name, value in weights(training, "average.").items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6)
        assert not np.array_equal(value, raw[name])


def test_raw_weights_averages_and_their_count_come_back_and_the_rest_is_the_same(tmp_path):
    def losses(training: Trainer, updates: int = 100) -> list[float]:
        found = []
        for event in training.run():
            if event.kind == "step":
                found.append(event.values["loss"])
                if len(found) == updates:
                    state_file.save(tmp_path / "last.safetensors", training.state())
                    break
        return found

    whole, first, second = trainer(), trainer(), trainer()
    expected = losses(whole)
    begun = losses(first, updates=8)
    second.load_state(state_file.load(tmp_path / "last.safetensors"))
    assert begun + losses(second) == expected
    for prefix in ("model.", "average.", "optimizer."):
        for name, value in weights(whole, prefix).items():
            np.testing.assert_array_equal(value, weights(second, prefix)[name])
    assert second.state().values["averaged"] == whole.state().values["averaged"] == 18


def test_averages_are_what_is_evaluated_and_what_a_checkpoint_brings():
    training = trainer()
    events = list(training.run())
    outputs = predict(training, training.data.train.inputs)
    plain = trainer(replace(SETTINGS, average_decay=0.0))
    plain.load_weights(training.state().arrays)
    np.testing.assert_array_equal(predict(plain, plain.data.train.inputs), outputs)
    assert plain.evaluate("validation")["val_loss"] == events[-3].values["val_loss"]


def test_a_skipped_window_leaves_them_alone(monkeypatch):
    training = trainer()
    before = weights(training, "average.")
    monkeypatch.setattr(training._learner, "_read_sums", lambda: np.full(TOTALS + 1, np.inf))
    for event in training.run():
        if event.kind == "step":
            break
    assert training.state().values["averaged"] == 0
    for name, value in weights(training, "average.").items():
        np.testing.assert_array_equal(value, before[name])


def test_they_are_in_the_forecast():
    training = trainer()
    list(training.run())
    assert training.memory.peak == training.forecast.peak
    without = trainer(replace(SETTINGS, average_decay=0.0))
    assert training.forecast.peak["weights"] > without.forecast.peak["weights"]


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_a_checkpoint_with_other_averages_is_refused(decay):
    other = trainer(replace(SETTINGS, average_decay=0.5 - decay))
    with pytest.raises(InputError, match="average"):
        trainer(replace(SETTINGS, average_decay=decay)).load_state(other.state())
