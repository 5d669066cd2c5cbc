"""The forecast against the ledger of the real run, to the byte; the ledger flat from window to window."""

from dataclasses import replace

import numpy as np
import pytest
from laboratory import images, of_kind, table

from engine import zoo
from engine.data import DataSet
from engine.forecast import forecast
from engine.memory import CATEGORIES, BudgetExceeded
from engine.ops import operation as pieces
from engine.ops.reference import convolution
from engine.trainer import Settings, Trainer
from fnwork.datasets.augment import Augmentation
from fnwork.fit import advise
from fnwork.layer_forecast import layer_forecasts

PRESETS = {
    "mlp on a table": ("mlp", {"hidden": 24, "dropout": 0.1}, table(22)),
    "mlp on images": ("mlp", {"hidden": 16, "depth": 3}, images(22)),
    "cnn8": ("cnn8", {"width": 0.05}, images(22, (8, 9, 2))),
    "cnn8 with cbam": ("cnn8", {"width": 0.05, "attention": "cbam"}, images(22, (8, 9, 2))),
    "res3": ("res3", {"width": 0.125, "blocks": 2}, images(22, (8, 9, 1))),
    "res3 with se": ("res3", {"widths": (4, 9), "blocks": 2, "attention": "se"}, images(22, (8, 9, 1))),
    "res3 with eca": ("res3", {"widths": (8,), "blocks": 3, "attention": "eca"}, images(22, (8, 9, 1))),
    "air": ("air", {"width": 0.05}, images(22, (25, 26, 2))),
}
WINDOWS = ((1, "none"), (1, "auto"), (3, "every:2"), (3, "auto"))  # micro-batches in a window, recomputation


def test_every_preset_is_among_them() -> None:
    assert {preset for preset, _, _ in PRESETS.values()} == set(zoo.PRESETS)


@pytest.fixture
def small_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks as large ones are: what is kept outweighs the scratch of an operation."""
    monkeypatch.setattr(convolution, "COLUMN_BYTES", 4096)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 1024)


def tight(layers: list[dict], data: DataSet, settings: Settings) -> Settings:
    """A budget halfway between what the leanest regular interval takes and what keeping everything takes."""

    def peak(recompute: str) -> int:
        made = forecast(
            layers, data.input_shape, data.outputs, replace(settings, recompute=recompute), data_bytes=data.nbytes
        )
        return made.peak["total"]

    most, least = peak("none"), min(peak(f"every:{interval}") for interval in (1, 2, 3))
    return replace(settings, budget=(most + least) // 2 if least < most else most)


@pytest.mark.parametrize(("accumulate", "recompute"), WINDOWS)
@pytest.mark.parametrize(("mode", "kernels"), [("fp32", "reference"), ("fp32", "cpu"), ("mixed", "cpu")])
@pytest.mark.parametrize("name", PRESETS)
def test_forecast_is_the_ledger_s_peak(
    small_scratch: None,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    mode: str,
    kernels: str,
    accumulate: int,
    recompute: str,
) -> None:
    """22 samples by 4, so that the last micro-batch holds 2; an epoch with its validation, then once more."""
    monkeypatch.setattr("engine.forecast.COMPILE_WORTH", 0 if kernels == "cpu" else 1e18)
    preset, options, data = PRESETS[name]
    layers = zoo.layers(preset, options)
    settings = Settings(epochs=1, micro_batch=4, accumulate=accumulate, mode=mode, loss_scale=256, recompute=recompute)
    if recompute == "auto":
        settings = tight(layers, data, settings)
    trainer = Trainer(layers, data, settings, device="cpu")
    assert trainer.forecast.kernels == kernels
    live = []
    for event in trainer.run():
        if event.kind == "step":
            live.append(dict(trainer.memory.bytes))
        assert event.kind != "nonfinite"
    assert trainer.memory.peak == trainer.forecast.peak
    trainer.evaluate("test")
    assert trainer.memory.peak == trainer.forecast.peak
    assert set(trainer.forecast.peak) == {"total", *CATEGORIES}
    assert trainer.forecast.peak["total"] == sum(trainer.forecast.peak[category] for category in CATEGORIES)
    assert all(here == live[0] for here in live)
    assert len(trainer.memory._segments) == 1
    assert trainer.memory.reserved + data.nbytes == trainer.forecast.reserved
    if recompute == "auto":
        assert trainer.forecast.peak["total"] <= settings.budget


@pytest.mark.parametrize("loss", ["mse", "huber"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_forecast_of_regression_with_every_optimizer(loss: str, optimizer: str) -> None:
    data = table(19, task="regression")
    settings = Settings(epochs=1, micro_batch=8, loss=loss, optimizer=optimizer, clip_norm=1.0)
    trainer = Trainer(zoo.layers("mlp", {"hidden": 8}), data, settings, device="cpu")
    list(trainer.run())
    assert trainer.memory.peak == trainer.forecast.peak
    assert (trainer.forecast.peak["optimizer"] == 0) == (optimizer == "sgd")


@pytest.mark.parametrize("mode", ["fp32", "mixed"])
def test_forecast_of_mixed_images(mode: str) -> None:
    """Their targets are rows of probabilities, in which accuracy is against the larger share."""
    data, layers = images(22), zoo.layers("mlp", {"hidden": 16})
    settings = Settings(epochs=2, micro_batch=16, mode=mode, loss_scale=256.0)
    trainer = Trainer(layers, data, settings, "cpu", Augmentation(flip="random", mixup=0.5))
    epochs = of_kind(trainer.run(), "epoch")
    assert trainer.memory.peak == trainer.forecast.peak
    assert len(trainer.memory._segments) == 1
    numbered = forecast(layers, data.input_shape, data.outputs, settings, data_bytes=data.nbytes, samples=22)
    shares = forecast(layers, data.input_shape, data.outputs, trainer.settings, data_bytes=data.nbytes, samples=22)
    assert shares.peak == trainer.forecast.peak
    # in two slots 16 rows of 3 shares instead of 16 class numbers
    assert shares.peak["data"] - numbered.peak["data"] == 2 * 16 * (3 - 1) * 4
    for epoch in epochs:
        right = epoch["train_accuracy"] * 22
        assert right == pytest.approx(round(right)) and 0 <= right <= 22
        assert epoch["val_accuracy"] * 12 == pytest.approx(round(epoch["val_accuracy"] * 12))
    assert trainer.evaluate("test").keys() == {"test_loss", "test_accuracy"}


def test_forecast_of_fewer_samples_than_a_micro_batch() -> None:
    """The window is as large as the data; so is the validation part's batch, which may be larger."""
    data = table(5, validation=40)
    trainer = Trainer(zoo.layers("mlp", {"hidden": 64}), data, Settings(epochs=1, micro_batch=32), device="cpu")
    list(trainer.run())
    assert trainer.memory.peak == trainer.forecast.peak
    assert len(trainer.memory._segments) == 1


def test_forecast_with_layers_of_both_precisions(small_scratch: None) -> None:
    layers = zoo.layers("cnn8", {"width": 0.05})
    data = images(6, (8, 8, 1))
    for names in (("conv1",), ("batch_norm3", "max_pool1"), ("linear1", "global_average1")):
        settings = Settings(epochs=1, micro_batch=4, mode="mixed", keep_fp32=names, recompute="every:2", loss_scale=64)
        trainer = Trainer(layers, data, settings, device="cpu")
        assert not of_kind(trainer.run(), "nonfinite")
        assert trainer.memory.peak == trainer.forecast.peak


def test_timeline_and_layers_tell_the_same_story(small_scratch: None) -> None:
    layers = zoo.layers("res3", {"width": 0.125, "blocks": 1})
    data = images(8)
    settings = Settings(micro_batch=4)
    made = forecast(layers, data.input_shape, data.outputs, settings)
    trainer = Trainer(layers, data, settings, device="cpu")
    assert trainer.forecast.parameters == sum(layer.parameters for layer in layer_forecasts(made))
    assert [layer.name for layer in layer_forecasts(made)][:3] == ["residual1", "residual2", "residual3"]
    assert layer_forecasts(made)[-1].output_shape == (3,)
    assert max(point.total for point in made.timeline) <= made.peak["total"]
    assert all(point.total == sum(point.by_category.values()) for point in made.timeline)
    operations = [(point.operation, point.layer) for point in made.timeline]
    assert operations.index(("forward", "linear1")) < operations.index(("backward", "linear1"))
    kept = sum(layer.saved_bytes for layer in layer_forecasts(made))
    base = made.timeline[-1].by_category["activations"]
    held = max(point.by_category["activations"] for point in made.timeline) - base
    assert abs(held - kept) < 64 * 4 * len(layer_forecasts(made))


def test_automatic_plans_fit_wherever_a_regular_one_does(small_scratch: None) -> None:
    """And cost no more arithmetic; with room for everything nothing is computed twice."""
    layers, data = zoo.layers("res3", {"width": 0.125, "blocks": 3}), images(8, (16, 16, 2))
    settings = Settings(micro_batch=8)

    def run(recompute: str, budget: int = 0) -> object:
        chosen = replace(settings, recompute=recompute, budget=budget)
        return forecast(layers, data.input_shape, data.outputs, chosen)

    plain = run("none")
    assert run("auto", plain.peak["total"]).plan == plain.plan
    assert plain.recomputed_work == 0
    regular = [run(f"every:{interval}") for interval in range(1, 6)]
    assert min(made.peak["total"] for made in regular) < 0.85 * plain.peak["total"]
    for made in regular:
        auto = run("auto", made.peak["total"])
        assert auto.peak["total"] <= made.peak["total"]
        assert auto.recomputed_work <= made.recomputed_work


def test_a_budget_that_nothing_meets_is_refused_with_what_would_fit() -> None:
    layers, data = zoo.layers("mlp", {"hidden": 64}), table(64)
    with pytest.raises(BudgetExceeded) as caught:
        Trainer(layers, data, Settings(micro_batch=64, budget=80_000, recompute="none"), device="cpu", advise=advise)
    assert "micro_batch" in str(caught.value)
    assert sum(caught.value.by_category.values()) == caught.value.needed > caught.value.budget == 80_000


def test_the_data_set_counts_where_it_shares_the_device_s_memory() -> None:
    layers, data = zoo.layers("mlp", {"hidden": 8}), table(64)
    with_data, without = (
        forecast(layers, data.input_shape, data.outputs, Settings(micro_batch=8), data_bytes=size)
        for size in (data.nbytes, 0)
    )
    assert with_data.peak["data"] - without.peak["data"] == data.nbytes
    np.testing.assert_equal(with_data.reserved - without.reserved, data.nbytes)


def test_work_and_calls_are_those_of_a_micro_batch() -> None:
    layers, data = zoo.layers("mlp", {"hidden": 8}), table(64)
    made = [
        forecast(layers, data.input_shape, data.outputs, Settings(micro_batch=8, accumulate=accumulate, lr=0.1))
        for accumulate in (2, 3, 9)
    ]
    assert len({(one.work, one.calls) for one in made}) == 1
    single = forecast(layers, data.input_shape, data.outputs, Settings(micro_batch=8))
    assert made[0].work < single.work < 2 * made[0].work
