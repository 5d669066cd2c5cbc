"""Kernels are compiled by a process of their own, once, and said so."""

import subprocess

import numpy as np
import pytest

from engine.data import DataSet, Part, Preprocessing
from engine.trainer import Settings, Trainer

LAYERS = [{"type": "flatten"}, {"type": "linear"}]


def trainer(**settings) -> Trainer:
    shape = (4, 4, 1)
    part = Part(np.zeros((4, *shape), np.uint8), np.zeros(4, np.int32))
    preprocessing = Preprocessing("classification", shape, ("a", "b"), channel_mean=(0.0,), channel_std=(1.0,))
    data = DataSet("made-up", "classification", part, part, None, shape, ("a", "b"), preprocessing, "")
    return Trainer(LAYERS, data, Settings(micro_batch=2, epochs=1, **settings), "cpu")


@pytest.fixture
def started(monkeypatch):
    """The commands of processes that were started, each of which ends at once."""
    commands = []
    start = subprocess.Popen

    def popen(command, **options):
        if "engine.warm_up" not in command:  # the name of the processor is asked for in this way
            return start(command, **options)
        commands.append(command[1:])
        return start([command[0], "-c", ""], **options)

    monkeypatch.setattr("engine.trainer.subprocess.Popen", popen)
    monkeypatch.setattr("engine.trainer.compiled_before", lambda: False)
    return commands


def test_a_first_run_says_that_it_compiles(started):
    events = list(trainer(mode="mixed").run())
    assert started == [["-m", "engine.warm_up", "cpu", "cpu"]]
    assert next(event.values["message"] for event in events if event.kind == "warning").startswith("compiling")
    assert events[-1].values["reason"] == "finished"


@pytest.mark.parametrize("settings", [{}, {"mode": "mixed", "kernels": "cpu"}], ids=["reference", "asked for"])
def test_nothing_is_compiled_where_nothing_has_to_be(started, settings):
    list(trainer(**settings).run())
    assert not started


def test_compiling_ends_with_a_request_to_stop(monkeypatch):
    start = subprocess.Popen
    sleep = ["-c", "import time; time.sleep(60)"]
    monkeypatch.setattr("engine.trainer.compiled_before", lambda: False)
    monkeypatch.setattr("engine.trainer.subprocess.Popen", lambda command, **rest: start([command[0], *sleep], **rest))
    monkeypatch.setattr("engine.device.platform.processor", lambda: "a processor")
    training = trainer(mode="mixed")
    training.stop()
    assert list(training.run())[-1].values["reason"] == "stopped"
