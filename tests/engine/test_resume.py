"""Exact resume: n + m updates equal n, save to a file, load, m, bit for bit; and files that are no checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from laboratory import images, of_kind, table

from engine.errors import InputError
from engine.progress import Progress
from engine.state import State
from engine.trainer import Settings, Trainer
from fnwork import state_file
from fnwork.datasets.augment import NOTHING, Augmentation

IMAGE_LAYERS = [
    {"type": "conv", "out": 4},
    {"type": "batch_norm"},
    {"type": "relu"},
    {"type": "dropout", "rate": 0.2},
    {"type": "max_pool"},
    {"type": "residual", "out": 5, "stride": 2},
    {"type": "global_average"},
    {"type": "linear"},
]
ROW_LAYERS = [{"type": "linear", "out": 9}, {"type": "gelu"}, {"type": "dropout", "rate": 0.3}, {"type": "linear"}]

RUNS = {
    "dropout in a table's network": (
        ROW_LAYERS,
        table(22),
        NOTHING,
        {"micro_batch": 4, "accumulate": 1, "schedule": "cosine", "warmup_epochs": 1},
    ),
    "regression with momentum": (
        ROW_LAYERS,
        table(22, task="regression"),
        NOTHING,
        {"micro_batch": 4, "accumulate": 3, "loss": "huber", "optimizer": "nesterov", "schedule": "step"},
    ),
    "images, augmented, in mixed precision": (
        IMAGE_LAYERS,
        images(22, (8, 8, 1)),
        Augmentation(crop=2, flip="alternating", jitter=0.2, cutout=3, mixup=0.4),
        {
            "micro_batch": 4,
            "accumulate": 2,
            "mode": "mixed",
            "loss_scale": 2.0**20,
            "growth_interval": 5,
            "recompute": "every:2",
            "label_smoothing": 0.1,
            "clip_norm": 1.0,
        },
    ),
}


def trainer(name: str, **changes: Any) -> Trainer:
    layers, data, augment, settings = RUNS[name]
    return Trainer(layers, data, Settings(**{"epochs": 4, "seed": 2, **settings, **changes}), "cpu", augment)


TIMES = ("seconds", "data_wait", "samples_per_s", "recompute")


def results(events: list) -> list[tuple]:
    """What does not depend on the clock of the events that tell results."""
    return [
        (event.kind, {name: value for name, value in event.values.items() if name not in TIMES})
        for event in events
        if event.kind in ("step", "epoch", "end", "scale", "nonfinite")
    ]


def bits(run: Trainer) -> tuple[dict[str, bytes], dict]:
    """Everything a resume needs, as it would be saved; times apart."""
    saved = run.state()
    values = {name: value for name, value in saved.values.items() if name not in ("seconds", "waited")}
    return {name: array.tobytes() for name, array in saved.arrays.items()}, values


def through_a_file(source: Trainer, target: Trainer, path: Path) -> None:
    state_file.save(path, source.state())
    target.load_state(state_file.load(path))


@pytest.mark.parametrize("name", RUNS)
def test_resume_is_exact(name: str, tmp_path: Path) -> None:
    """Cut after each event that tells a result: in the middle of an epoch, before its validation, and after it."""
    whole = trainer(name)
    events = list(whole.run())
    expected, last = results(events), bits(whole)
    if "mixed" in name:
        scales = [values["to"] > values["from"] for values in of_kind(events, "scale")]
        assert True in scales and False in scales
    cuts = 0
    for kind in ("step", "epoch"):
        for number in range(len(of_kind(events, kind))):
            if number not in {"step": (1, 4, 6), "epoch": (0, 2)}[kind]:
                continue
            first, seen = trainer(name), []
            running = first.run()
            for event in running:
                seen.append(event)
                if event.kind == kind and len(of_kind(seen, kind)) == number + 1:
                    break
            second = trainer(name)
            through_a_file(first, second, tmp_path / "last.safetensors")
            running.close()
            assert results(seen) + results(list(second.run())) == expected
            assert bits(second) == last
            cuts += 1
    assert cuts == 5


@pytest.mark.parametrize("name", RUNS)
def test_a_stop_gives_up_the_window_it_meets(name: str, tmp_path: Path) -> None:
    """Nothing of the broken window remains; going on equals a run that was never stopped."""
    whole = trainer(name)
    expected = results(list(whole.run()))
    first, seen = trainer(name), []
    for event in first.run():
        seen.append(event)
        if len(of_kind(seen, "step")) == 2 and event.kind == "step":
            before = bits(first)
            first.stop()
    assert seen[-1].kind == "end" and seen[-1].values["reason"] == "stopped"
    assert len(of_kind(seen, "step")) == 2
    assert bits(first) == before
    second = trainer(name)
    through_a_file(first, second, tmp_path / "last.safetensors")
    assert results(seen)[:-1] + results(list(second.run())) == expected
    assert bits(second) == bits(whole)


def test_a_stop_at_the_end_of_an_epoch_leaves_its_validation_to_the_resume(tmp_path: Path) -> None:
    name = "dropout in a table's network"
    whole = trainer(name)
    expected = results(list(whole.run()))
    first, seen = trainer(name), []
    for event in first.run():
        seen.append(event)
        if event.kind == "step" and event.values["step"] == 6:
            first.stop()
    assert not of_kind(seen, "epoch")
    second = trainer(name)
    through_a_file(first, second, tmp_path / "last.safetensors")
    assert results(seen)[:-1] + results(list(second.run())) == expected


def test_the_growth_of_the_scale_is_counted_across_a_resume(tmp_path: Path) -> None:
    """Growth interval 5, saved after 3 clean windows: it grows after 2 more."""
    name, changes = "images, augmented, in mixed precision", {"loss_scale": 64.0, "accumulate": 1}
    first = trainer(name, **changes)
    for event in first.run():
        if event.kind == "step" and event.values["step"] == 3:
            break
    second = trainer(name, **changes)
    through_a_file(first, second, tmp_path / "last.safetensors")
    grown = []
    for event in second.run():
        if event.kind == "scale":
            grown.append((second.step, event.values["from"], event.values["to"]))
    assert grown[:2] == [(5, 64.0, 128.0), (10, 128.0, 256.0)]


def test_a_finished_run_only_tells_its_end_again(tmp_path: Path) -> None:
    first = trainer("regression with momentum")
    events = list(first.run())
    second = trainer("regression with momentum")
    through_a_file(first, second, tmp_path / "last.safetensors")
    again = list(second.run())
    assert not of_kind(again, "step") and not of_kind(again, "epoch")
    assert of_kind(again, "end")[0]["reason"] == "finished"
    assert of_kind(again, "end")[0]["best"] == of_kind(events, "end")[0]["best"]


def test_the_best_result_survives_a_resume() -> None:
    """Validation loss 1.0, 0.5, resume, 0.8: the second stays the best; then 0.4 is better."""
    first = Progress(validated=True)
    assert first.enter_epoch({"epoch": 1, "step": 4, "train_loss": 0.0, "val_loss": 1.0, "val_r2": 0.1})
    assert first.enter_epoch({"epoch": 2, "step": 8, "train_loss": 9.0, "val_loss": 0.5, "val_r2": 0.4})
    second = Progress(validated=True)
    second.load_state(first.state())
    assert not second.enter_epoch({"epoch": 3, "step": 12, "train_loss": 0.0, "val_loss": 0.8, "val_r2": 0.2})
    assert second.best == {"epoch": 2, "step": 8, "train_loss": 9.0, "val_loss": 0.5, "val_r2": 0.4}
    assert second.epochs_without_better == 1
    assert second.enter_epoch({"epoch": 4, "step": 16, "train_loss": 0.0, "val_loss": 0.4, "val_r2": 0.5})
    assert second.best["epoch"] == 4 and second.epochs_without_better == 0


def test_better_is_higher_accuracy_then_lower_loss_and_never_nan() -> None:
    progress = Progress(validated=True)
    seen = []
    for loss, accuracy in (
        (float("nan"), 0.9),
        (1.0, 0.5),
        (2.0, 0.6),
        (0.5, 0.5),
        (1.5, 0.6),
        (1.5, 0.6),
        (np.inf, 1),
    ):
        seen.append(progress.enter_epoch({"val_loss": loss, "val_accuracy": accuracy, "train_loss": 0.0}))
    assert seen == [False, True, True, False, True, False, False]
    unvalidated = Progress(validated=False)
    assert unvalidated.enter_epoch({"train_loss": 1.0})
    assert not unvalidated.enter_epoch({"train_loss": 1.5})


def test_values_and_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    arrays = {
        "single": np.array([[np.nan, -0.0, 1e-45]], np.float32),
        "half": np.array([65504, 6e-8], np.float16),
        "strided": np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2],
        "empty": np.zeros((0, 3), np.float64),
        "number": np.array(3.5),
    }
    values = {"name": 'ä"\n', "loss": 0.1 + 0.2, "missing": None, "nested": {"a": [1, 2.5, True]}}
    state_file.save(tmp_path / "x.safetensors", State(arrays, values))
    loaded = state_file.load(tmp_path / "x.safetensors")
    assert loaded.values == values
    assert set(loaded.arrays) == set(arrays)
    for name, array in arrays.items():
        assert loaded.arrays[name].dtype == array.dtype and loaded.arrays[name].shape == array.shape
        assert loaded.arrays[name].tobytes() == array.tobytes()
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.safetensors"
    state_file.save(path, State({"a": np.zeros(3)}, {"epoch": 1}))

    def no_space(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        state_file.save(path, State({"a": np.ones(3)}, {"epoch": 2}))
    assert state_file.load(path).values == {"epoch": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    state_file.save(path, trainer("dropout in a table's network").state())
    whole = path.read_bytes()
    for length in {0, 1, 7, 8, 9, 100, *range(0, len(whole), 997), len(whole) - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"last\.safetensors"):
            state_file.load(path)
    for content in (b"not a checkpoint at all", whole[8:], whole.replace(b"fnwork-1", b"fnwork-9"), whole + b"more"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"last\.safetensors"):
            state_file.load(path)
    safetensors.numpy.save_file({"a": np.zeros(2)}, path)
    with pytest.raises(InputError, match="not a checkpoint"):
        state_file.load(path)
    with pytest.raises(InputError, match="there is no checkpoint"):
        state_file.load(tmp_path / "missing.safetensors")
    with pytest.raises(InputError):
        state_file.load(tmp_path)


@pytest.mark.parametrize(
    "other",
    [
        [{"type": "linear", "out": 8}, {"type": "gelu"}, {"type": "linear"}],
        [{"type": "linear", "out": 9, "name": "first"}, {"type": "gelu"}, {"type": "linear"}],
        [{"type": "linear", "out": 9}, {"type": "gelu"}, {"type": "linear", "bias": False}],
        [{"type": "linear", "out": 9}, {"type": "layer_norm"}, {"type": "linear"}],
    ],
)
def test_a_checkpoint_of_another_network_is_refused(other: list) -> None:
    """Larger, smaller, or with other names: every array must be there, and none be left over."""
    checkpoint = Trainer(other, table(22), Settings(), "cpu").state()
    run = trainer("dropout in a table's network")
    before = bits(run)
    with pytest.raises(InputError, match="another network"):
        run.load_state(checkpoint)
    with pytest.raises(InputError, match="another network"):
        run.load_weights(checkpoint.arrays)
    assert bits(run) == before


def test_a_checkpoint_of_another_optimizer_is_refused() -> None:
    checkpoint = trainer("regression with momentum", optimizer="sgd").state()
    with pytest.raises(InputError, match="optimizer"):
        trainer("regression with momentum").load_state(checkpoint)


def test_a_checkpoint_without_its_values_is_refused() -> None:
    run = trainer("regression with momentum")
    with pytest.raises(InputError, match="checkpoint"):
        run.load_state(State(run.state().arrays, {}))


def test_weights_alone_can_be_loaded() -> None:
    source = trainer("images, augmented, in mixed precision")
    for event in source.run():
        if event.kind == "epoch":
            break
    target = trainer("images, augmented, in mixed precision", seed=9)
    target.load_weights(source.state().arrays)
    assert target.evaluate("test") == source.evaluate("test")
    assert target.step == 0
