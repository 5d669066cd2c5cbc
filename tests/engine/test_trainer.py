"""Training as an iterator of events: their order and values, its ends, and what can be asked of it afterwards."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from laboratory import images, of_kind, table

from engine import zoo
from engine.data import Part
from engine.errors import InputError
from engine.schedule import learning_rate
from engine.trainer import Settings, Trainer
from fnwork.model import predict

ROW_LAYERS = [{"type": "linear", "out": 8}, {"type": "relu"}, {"type": "linear"}]


def rates(**values: object) -> list[float]:
    """The rate of each update of 4 epochs of 5."""
    settings = Settings(**{"epochs": 4, "lr": 1.0, **values})
    return [learning_rate(settings, update, 5) for update in range(settings.epochs * 5)]


def test_constant_rate() -> None:
    assert rates() == [1.0] * 20


def test_linear_rate_falls_to_the_lowest() -> None:
    expected = [0.2 + 0.8 * (1 - update / 20) for update in range(20)]
    assert rates(schedule="linear", min_lr=0.2) == pytest.approx(expected)


def test_cosine_rate() -> None:
    expected = [0.2 + 0.4 * (1 + np.cos(np.pi * update / 20)) for update in range(20)]
    assert rates(schedule="cosine", min_lr=0.2) == pytest.approx(expected)


def test_step_rate() -> None:
    assert rates(schedule="step") == pytest.approx([1.0] * 10 + [0.1] * 5 + [0.01] * 5)
    assert rates(schedule="step", min_lr=0.05)[-1] == 0.05


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "step"])
def test_warm_up_rises_to_the_rate_and_the_schedule_has_what_is_left(schedule: str) -> None:
    warm = rates(schedule=schedule, warmup_epochs=1, warmup_from=0.4)
    assert warm[:5] == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9])
    assert warm[5:] == pytest.approx(rates(schedule=schedule, epochs=3))
    assert rates(schedule=schedule, warmup_epochs=0.5)[:3] == pytest.approx([1 / 3, 2 / 3, 1.0])


def test_warm_up_may_last_for_the_whole_run() -> None:
    assert rates(warmup_epochs=4, schedule="cosine") == pytest.approx([(n + 1) / 21 for n in range(20)])


def test_the_rate_moves_once_an_update() -> None:
    """22 samples by 2 make 11 micro-batches; by windows of 4, 3 updates an epoch; the warm-up is the first 3."""
    settings = Settings(
        epochs=3, micro_batch=2, accumulate=4, schedule="linear", warmup_epochs=1, warmup_from=0.1, lr=0.5
    )
    trainer = Trainer(ROW_LAYERS, table(22), settings, "cpu")
    events = list(trainer.run())
    steps = of_kind(events, "step")
    assert of_kind(events, "start")[0]["windows_per_epoch"] == trainer.windows_per_epoch == 3
    assert [step["step"] for step in steps] == list(range(1, 10))
    assert [step["epoch"] for step in steps] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [step["lr"] for step in steps] == [learning_rate(settings, update, 3) for update in range(9)]
    assert [step["lr"] for step in steps[:4]] == pytest.approx([0.2, 0.3, 0.4, 0.5])


def test_the_order_of_events() -> None:
    events = list(Trainer(ROW_LAYERS, table(22), Settings(epochs=2, micro_batch=8), "cpu").run())
    told = [event.kind for event in events if event.kind != "memory"]
    assert told == ["start", *["step"] * 3, "epoch", *["step"] * 3, "epoch", "end"]
    assert all(later.t >= earlier.t >= 0 for earlier, later in pairwise(events))
    start, end = events[0].values, events[-1].values
    assert (start["train_samples"], start["validation_samples"], start["test_samples"]) == (22, 12, 6)
    assert end["reason"] == "finished"
    epochs = of_kind(events, "epoch")
    assert end["best"]["val_accuracy"] == max(epoch["val_accuracy"] for epoch in epochs)
    for epoch in epochs:
        assert {"train_loss", "train_accuracy", "val_loss", "val_accuracy", "seconds", "best"} <= set(epoch)
    memory = of_kind(events, "memory")
    assert len(memory) >= 3
    assert memory[0]["peak"]["total"] == sum(size for name, size in memory[0]["peak"].items() if name != "total")


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_train_results_are_means_over_samples(task: str, accumulate: int) -> None:
    """With a rate of 0 the network stands still: the epoch's results, from 8, 8 and 6 samples, are the part's."""
    settings = Settings(
        epochs=1,
        micro_batch=8,
        accumulate=accumulate,
        lr=0.0,
        optimizer="sgd",
        loss="mse" if task == "regression" else "cross-entropy",
    )
    trainer = Trainer(ROW_LAYERS, table(22, task=task), settings, "cpu")
    (epoch,) = of_kind(trainer.run(), "epoch")
    whole = trainer.evaluate("train")
    assert {name for name in whole} == {name for name in epoch if name.startswith("train_")}
    for name, value in whole.items():
        assert epoch[name] == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("mode", ["fp32", "mixed"])
def test_predictions_of_classes_are_probabilities_and_agree_with_evaluate(mode: str) -> None:
    data = images(40)
    settings = Settings(epochs=2, micro_batch=8, mode=mode, lr=0.01, loss_scale=256)
    trainer = Trainer(zoo.layers("cnn8", {"width": 0.05}), data, settings, "cpu")
    list(trainer.run())
    result = trainer.evaluate("test")
    probabilities = predict(trainer, data.test.inputs)
    assert probabilities.dtype == np.float32 and probabilities.shape == (6, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert (probabilities.argmax(axis=1) == data.test.targets).mean() == result["test_accuracy"]
    picked = probabilities[np.arange(6), data.test.targets]
    assert -np.log(picked).mean() == pytest.approx(result["test_loss"], rel=1e-3)
    one_by_one = np.concatenate([predict(trainer, data.test.inputs[n : n + 1]) for n in range(6)])
    np.testing.assert_allclose(one_by_one, probabilities, rtol=1e-4 if mode == "fp32" else 2e-2, atol=1e-6)
    assert predict(trainer, data.test.inputs[:0]).shape == (0, 3)


def test_predictions_of_numbers_are_in_their_units() -> None:
    data = table(64, task="regression")
    settings = Settings(epochs=3, micro_batch=8, loss="mse", lr=0.03)
    trainer = Trainer(ROW_LAYERS, data, settings, "cpu")
    (*_, last) = of_kind(trainer.run(), "epoch")
    predicted = predict(trainer, data.validation.inputs)
    wanted = data.preprocessing.in_units(data.validation.targets)
    assert predicted.shape == wanted.shape == (12, 1)
    error = (predicted - wanted).astype(np.float64)
    assert np.abs(error).mean() == pytest.approx(last["val_mae"], rel=1e-4)
    spread = wanted - wanted.mean(dtype=np.float64)
    assert 1 - (error**2).sum() / (spread**2).sum() == pytest.approx(last["val_r2"], rel=1e-3)


def test_early_stopping_counts_epochs_without_a_better_result() -> None:
    settings = Settings(epochs=20, micro_batch=8, lr=0.0, optimizer="sgd", early_stop=3)
    events = list(Trainer(ROW_LAYERS, table(22), settings, "cpu").run())
    assert [epoch["best"] for epoch in of_kind(events, "epoch")] == [True, False, False, False]
    (end,) = of_kind(events, "end")
    assert end["reason"] == "early-stopped" and "3 epochs" in end["message"]
    assert end["best"]["epoch"] == 1


def test_a_limit_of_updates() -> None:
    events = list(Trainer(ROW_LAYERS, table(22), Settings(epochs=9, micro_batch=8, limit_windows=5), "cpu").run())
    assert [step["step"] for step in of_kind(events, "step")] == [1, 2, 3, 4, 5]
    assert [epoch["epoch"] for epoch in of_kind(events, "epoch")] == [1, 2]
    (end,) = of_kind(events, "end")
    assert end["reason"] == "finished" and "5" in end["message"]


def test_a_stop_is_met_within_one_micro_batch() -> None:
    trainer = Trainer(ROW_LAYERS, table(64), Settings(epochs=9, micro_batch=2, accumulate=32), "cpu")
    trainer.stop()
    events = list(trainer.run())
    assert [event.kind for event in events] == ["start", "end"]
    assert events[-1].values["reason"] == "stopped"
    assert trainer._feed._train.waited >= 0 and trainer.step == 0


def test_a_run_that_is_left_alone_keeps_no_thread() -> None:
    import threading

    before = threading.active_count()
    running = Trainer(ROW_LAYERS, table(64), Settings(epochs=9, micro_batch=2), "cpu").run()
    for event in running:
        if event.kind == "step":
            break
    running.close()
    assert threading.active_count() == before


def test_training_without_a_validation_part() -> None:
    data = table(32)
    empty = Part(data.validation.inputs[:0], data.validation.targets[:0])
    trainer = Trainer(ROW_LAYERS, replace(data, validation=empty), Settings(epochs=3, micro_batch=8, lr=0.01), "cpu")
    epochs = of_kind(trainer.run(), "epoch")
    assert not any(name.startswith("val_") for epoch in epochs for name in epoch)
    assert epochs[0]["best"]


def test_a_test_part_that_is_not_there_is_named() -> None:
    trainer = Trainer(ROW_LAYERS, replace(table(32), test=None), Settings(micro_batch=8), "cpu")
    with pytest.raises(InputError, match="no test part"):
        trainer.evaluate("test")


@pytest.mark.parametrize(
    ("changes", "settings", "words"),
    [
        ({}, {"loss": "mse"}, "mse"),
        ({"train": Part(np.zeros((0, 5), np.float32), np.zeros(0, np.int32))}, {}, "no samples"),
        ({}, {"recompute": "sometimes"}, "every:N"),
        ({}, {"keep_fp32": ("linear9",)}, "linear9"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(changes: dict, settings: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Trainer(ROW_LAYERS, replace(table(16), **changes), Settings(**settings), "cpu")


def test_equal_seeds_give_equal_runs_and_others_do_not() -> None:
    losses = []
    for seed in (1, 1, 2):
        settings = Settings(epochs=2, micro_batch=8, seed=seed)
        trainer = Trainer(zoo.layers("mlp", {"hidden": 8, "dropout": 0.2}), table(40), settings, "cpu")
        losses.append([step["loss"] for step in of_kind(trainer.run(), "step")])
    assert losses[0] == losses[1] != losses[2]


def test_draws_are_keyed_by_seed_epoch_and_place_in_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(ROW_LAYERS, table(22), Settings(epochs=2, micro_batch=8, accumulate=2, seed=9), "cpu")
    accumulate, seen = trainer._learner.accumulate, []

    def record(*arguments: object) -> None:
        seen.append(arguments[-1])
        accumulate(*arguments)

    monkeypatch.setattr(trainer._learner, "accumulate", record)
    list(trainer.run())
    assert seen == [(9, epoch, micro) for epoch in (1, 2) for micro in range(3)]


def test_the_ledger_is_flat_from_epoch_to_epoch_and_takes_no_new_memory() -> None:
    data = images(20)
    trainer = Trainer(zoo.layers("res3", {"width": 0.1, "blocks": 1}), data, Settings(epochs=4, micro_batch=8), "cpu")
    taken = [
        (dict(trainer.memory.bytes), trainer.memory.reserved, len(trainer.memory._segments))
        for event in trainer.run()
        if event.kind in ("step", "epoch")
    ]
    assert all(here == taken[0] for here in taken)
