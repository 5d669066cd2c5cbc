"""Loss scaling: when it moves, what a skipped window leaves alone, and how a run that cannot go on ends."""

import numpy as np
import pytest
from laboratory import images, learner, of_kind, table, window

from engine.learner import Learner
from engine.precision import LossScale
from engine.trainer import Settings, Trainer

ROW = (4,)
NORMED = [
    {"type": "linear", "out": 6},
    {"type": "batch_norm"},
    {"type": "relu"},
    {"type": "dropout", "rate": 0.25},
    {"type": "linear"},
]


def test_the_scale_halves_doubles_and_counts() -> None:
    scale = LossScale(8.0, growth_interval=3, dynamic=True)
    seen = []
    for finite in (True, True, False, True, True, True, True, True, True, False, False):
        scale.update(finite)
        seen.append((scale.scale, scale.clean, scale.skips))
    assert seen[:3] == [(8, 1, 0), (8, 2, 0), (4, 0, 1)]
    assert seen[3:6] == [(4, 1, 0), (4, 2, 0), (8, 0, 0)]
    assert seen[6:] == [(8, 1, 0), (8, 2, 0), (16, 0, 0), (8, 0, 1), (4, 0, 2)]


def test_the_scale_never_falls_below_one_and_never_reaches_infinity() -> None:
    scale = LossScale(3.0, growth_interval=1, dynamic=True)
    reasons = [scale.update(False) for _ in range(4)]
    assert scale.scale == 1.0 and scale.skips == 4
    assert [bool(reason) for reason in reasons] == [True, True, False, False]
    scale.scale = float(np.finfo(np.float64).max)
    assert scale.update(True) == ""
    assert np.isfinite(scale.scale)


def test_without_scaling_only_the_skips_count() -> None:
    scale = LossScale(1.0, growth_interval=1, dynamic=False)
    for finite in (True, False, False):
        assert scale.update(finite) == ""
    assert (scale.scale, scale.skips) == (1.0, 2)


def clipped(clip_norm: float, scale: float = 65536.0) -> tuple[Learner, float]:
    """The learner after one update from the gradient (3, 4), and the norm that was reported."""
    trained = learner(
        [{"type": "linear", "bias": False}], (2,), outputs=1, loss="mse", optimizer="sgd", weight_decay=0.0,
        mode="mixed", loss_scale=scale, clip_norm=clip_norm,
    )  # fmt: skip
    (parameter,) = trained.model.parameters
    parameter.value[...] = 0
    parameter.gradient[...] = np.array([[3.0, 4.0]]) * scale
    update = trained.update(1.0, trained.inputs[0])
    return trained, update.grad_norm


@pytest.mark.parametrize("scale", [1.0, 65536.0, 2.0**80])
def test_gradients_are_unscaled_then_clipped(scale: float) -> None:
    trained, norm = clipped(1.0, scale)
    assert norm == 5.0
    weight = trained.model.parameters[0].value
    np.testing.assert_allclose(weight, [[-0.6, -0.8]], rtol=1e-6)
    assert np.linalg.norm(weight) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("clip_norm", [0.0, 5.0, 100.0])
def test_gradients_within_the_norm_are_left_alone(clip_norm: float) -> None:
    trained, norm = clipped(clip_norm)
    assert norm == 5.0
    np.testing.assert_array_equal(trained.model.parameters[0].value, [[-3.0, -4.0]])


def batch(samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(samples, *ROW)).astype(np.float32), random.integers(0, 3, samples).astype(np.int32)


def everything(trained: Learner) -> dict[str, bytes]:
    arrays, values = trained.state()
    assert values["updates"] == trained.optimizer.count
    return {name: array.tobytes() for name, array in arrays.items()} | {"updates": bytes([values["updates"]])}


def test_a_skipped_window_leaves_only_a_smaller_scale_behind() -> None:
    """Then a normal one: the same, bit for bit, as if the skipped one had never been."""
    skipping, plain = (learner(NORMED, ROW, mode="mixed", loss_scale=scale) for scale in (2048.0, 1024.0))
    untouched = everything(plain)
    window(skipping, [batch(8, seed=1), batch(4, seed=2)])
    skipping.model.parameters[1].gradient[2] = np.inf
    update = skipping.update(0.1, skipping.inputs[0])
    assert not update.finite and np.isnan(update.grad_norm)
    assert (update.scale_before, skipping.scale.scale) == (2048.0, 1024.0)
    assert (update.where, update.layer) == ("gradient", "linear1")
    assert everything(skipping) == untouched
    for trained in (skipping, plain):
        window(trained, [batch(8, seed=3)])
        assert trained.update(0.1, trained.inputs[0]).finite
    assert everything(skipping) == everything(plain)
    assert skipping.scale.state() == {**plain.scale.state(), "clean": 1, "skips": 0}


@pytest.mark.parametrize("mode", ["fp32", "mixed"])
def test_statistics_of_a_skipped_window_are_not_taken_over(mode: str) -> None:
    """One micro-batch times 1e5 (which half precision does not hold), between sane ones of its window."""
    tables = [{"type": "conv", "out": 3}, {"type": "batch_norm"}, {"type": "residual", "out": 4}]
    tables += [{"type": "global_average"}, {"type": "linear"}]
    trained = learner(tables, (4, 4, 2), mode=mode)
    random = np.random.default_rng(0)
    inputs, targets = random.normal(size=(8, 4, 4, 2)), np.arange(8, dtype=np.int32) % 3
    before = trained.evaluate(inputs.astype(trained.inputs[0].dtype), targets).tolist(), everything(trained)
    huge = inputs * (1e5 if mode == "mixed" else np.inf)
    with np.errstate(over="ignore"):
        window(trained, [(inputs, targets), (huge, targets), (inputs, targets)])
    assert not trained.update(0.1, trained.inputs[0]).finite
    assert everything(trained) == before[1]
    assert trained.evaluate(inputs.astype(trained.inputs[0].dtype), targets).tolist() == before[0]


@pytest.mark.parametrize(
    ("broken", "where", "layer"),
    [("linear1", "activation", "linear1"), ("linear2", "activation", "linear2"), (None, "loss", "linear2")],
)
def test_the_layer_where_values_stop_being_finite_is_named(broken: str | None, where: str, layer: str) -> None:
    tables = [{"type": "linear", "out": 6}, {"type": "gelu"}, {"type": "linear"}]
    trained = learner(tables, ROW, loss="mse")
    inputs, _ = batch(8)
    targets = np.full((8, 3), 1e25 if broken is None else 0.0, np.float32)
    if broken:
        trained.model.arrays[f"{broken}.weight"][...] = np.inf
    window(trained, [(inputs, targets)])
    update = trained.update(0.1, trained.inputs[0])
    assert (update.finite, update.where, update.layer) == (False, where, layer)
    assert trained.memory.bytes["workspace"] == 2 * 64  # the sums, and the place of the draws


def broken_trainer(mode: str, **settings: object) -> Trainer:
    """A network whose second linear layer can only overflow."""
    layers = [{"type": "linear", "out": 8}, {"type": "relu"}, {"type": "linear", "name": "the end"}]
    trainer = Trainer(layers, table(400), Settings(epochs=4, micro_batch=4, mode=mode, **settings), device="cpu")
    arrays = dict(trainer.state().arrays)
    arrays["model.the end.weight"] = np.full((3, 8), 1e6 if mode == "mixed" else 1e38, np.float32)
    arrays["model.linear1.bias"] = np.full(8, 100, np.float32)
    trainer.load_weights(arrays)
    return trainer


def test_the_scale_falls_to_one_and_then_the_run_stops_with_the_layer_s_name() -> None:
    trainer = broken_trainer("mixed")
    events = list(trainer.run())
    scales = of_kind(events, "scale")
    assert [event["to"] for event in scales] == [2.0**power for power in range(15, -1, -1)]
    assert all(event["from"] == 2 * event["to"] and event["why"] for event in scales)
    assert {event["layer"] for event in of_kind(events, "nonfinite")} == {"the end"}
    (end,) = of_kind(events, "end")
    assert end["reason"] == "failed"
    assert "the end" in end["message"] and "activation" in end["message"]
    assert trainer.step == 0 and not of_kind(events, "epoch")


def test_single_precision_stops_after_a_few_skips_in_a_row() -> None:
    events = list(broken_trainer("fp32").run())
    assert not of_kind(events, "scale")
    assert len(of_kind(events, "nonfinite")) == len(of_kind(events, "step")) == 5
    assert of_kind(events, "end")[0]["reason"] == "failed"


def test_skipped_windows_move_neither_updates_nor_rate_nor_metrics() -> None:
    """A scale far too large at first: the first update's rate waits, and the epoch's loss is that of the others."""
    layers = [{"type": "conv", "out": 3}, {"type": "batch_norm"}, {"type": "relu"}]
    layers += [{"type": "global_average"}, {"type": "linear"}]
    settings = Settings(
        epochs=1, micro_batch=4, accumulate=2, mode="mixed", loss_scale=2.0**23, schedule="linear", warmup_epochs=0.5
    )
    trainer = Trainer(layers, images(96), settings, device="cpu")
    events = list(trainer.run())
    steps, skipped = of_kind(events, "step"), len(of_kind(events, "nonfinite"))
    assert 2 <= skipped <= 8
    assert [step["step"] for step in steps] == [0] * skipped + list(range(1, 13 - skipped))
    rates = [step["lr"] for step in steps]
    assert rates[: skipped + 1] == [rates[0]] * (skipped + 1) and rates[skipped + 1] > rates[0]
    assert all(np.isnan(step["grad_norm"]) for step in steps[:skipped])
    (epoch,) = of_kind(events, "epoch")
    assert epoch["train_loss"] == pytest.approx(np.mean([step["loss"] for step in steps[skipped:]]), rel=1e-12)
    assert steps[-1]["scale"] == 2.0 ** (23 - skipped)


def test_mixed_precision_learns_what_single_precision_learns() -> None:
    results = []
    for mode in ("fp32", "mixed"):
        layers = [{"type": "conv", "out": 6}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "max_pool"}]
        layers += [{"type": "residual", "out": 6}, {"type": "global_average"}, {"type": "linear"}]
        settings = Settings(epochs=4, micro_batch=16, mode=mode, lr=0.01, seed=1)
        trainer = Trainer(layers, images(96), settings, device="cpu")
        results.append([epoch["train_loss"] for epoch in of_kind(trainer.run(), "epoch")])
    assert results[0][-1] < 0.5 * results[0][0]
    np.testing.assert_allclose(results[1], results[0], rtol=0.1)
