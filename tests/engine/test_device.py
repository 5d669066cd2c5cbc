"""Which device is chosen and why, and how a card keeps memory; on a stand-in for CuPy's runtime."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
from fake_cuda_runtime import GIB, FakeCard, FakeRuntime
from laboratory import images, of_kind, table

from engine import zoo
from engine.device import LEAST_POOL, OVERRIDE, Card, choose
from engine.errors import InputError
from engine.forecast import CARD_KERNELS, forecast
from engine.memory import CATEGORIES, BudgetExceeded, Memory
from engine.ops.operation import operation
from engine.trainer import Settings, Trainer
from fnwork.datasets.augment import Augmentation
from fnwork.fit import advise

SMALL = FakeCard("GPU-aaaa1111-0000", "NVIDIA GeForce GTX 1060", 6 * GIB, 5 * GIB, "0000:01:00.0")
LARGE = FakeCard("GPU-aaaa2222-0000", "NVIDIA GeForce RTX 3090", 24 * GIB, 20 * GIB, "0000:41:00.0")


@pytest.fixture(autouse=True)
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OVERRIDE, raising=False)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeRuntime]:
    """A machine with these cards (copies of them), in CUDA's order."""

    def make(*cards: FakeCard, **options: object) -> FakeRuntime:
        return FakeRuntime([FakeCard(**vars(card)) for card in cards], **options).install(monkeypatch)

    return make


# --- the choice ---


def test_the_card_with_the_most_free_memory_is_chosen(machine) -> None:
    machine(SMALL, LARGE)
    chosen = choose()
    assert (chosen.name, chosen.use, chosen.uuid) == ("NVIDIA GeForce RTX 3090", "cuda:1", LARGE.uuid)
    assert (chosen.is_cuda, chosen.alignment, chosen.total) == (True, 512, 24 * GIB)
    assert chosen.why == 'device.use = "auto", the most free memory among 2'


def test_free_memory_counts_and_not_its_size(machine) -> None:
    machine(SMALL, FakeCard(**{**vars(LARGE), "free": 1 * GIB}))
    assert choose("cuda").use == "cuda:0"


def test_a_card_that_fails_the_test_is_passed_over_and_named(machine) -> None:
    machine(SMALL, FakeCard(**{**vars(LARGE), "fault": RuntimeError("no kernel image is available")}))
    chosen = choose()
    assert chosen.use == "cuda:0"
    assert "RTX 3090" in chosen.why and "no kernel image is available" in chosen.why


def test_a_card_that_computes_wrongly_is_passed_over(machine, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = machine(SMALL).module
    right = cupy.asarray
    monkeypatch.setattr(cupy, "asarray", lambda values: right(values) + 1)
    chosen = choose()
    assert chosen.use == "cpu" and "it computes wrongly" in chosen.why


def test_without_a_card_that_works_the_cpu_is_chosen_and_says_why(machine) -> None:
    machine(FakeCard(**{**vars(SMALL), "fault": RuntimeError("Failure finding libnvrtc.so.12")}))
    chosen = choose()
    assert (chosen.use, chosen.is_cuda, chosen.alignment) == ("cpu", False, 64)
    assert "libnvrtc.so.12" in chosen.why and "fnwork doctor" in chosen.why
    with pytest.raises(InputError, match=r'device.use = "cuda": .*libnvrtc.*fnwork doctor'):
        choose("cuda")


def test_without_cupy_the_cpu_is_chosen_unless_a_card_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr("engine.device.find_spec", lambda name: None)
    assert choose().why == "CuPy is not installed, so no card can be used"
    with pytest.raises(InputError, match=r'device.use = "cuda:0": .*fnwork doctor'):
        choose("cuda:0")


def test_the_cpu_is_chosen_without_a_look_at_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert choose("cpu").why == 'device.use = "cpu"'


def test_devices_of_other_vendors_are_never_chosen(machine) -> None:
    machine(SMALL).module.cuda.runtime.is_hip = True
    assert choose().use == "cpu"
    with pytest.raises(InputError, match="none of them is meant: there is none"):
        choose("cuda")


@pytest.mark.parametrize("use", ["cuda:0", SMALL.uuid, "GPU-aaaa1", "gpu-AAAA1111"])
def test_a_card_is_asked_for_by_number_by_uuid_or_by_its_beginning(machine, use: str) -> None:
    machine(SMALL, LARGE)
    chosen = choose(use)
    assert (chosen.uuid, chosen.why) == (SMALL.uuid, f'device.use = "{use}"')


def test_the_environment_overrides(machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(SMALL, LARGE)
    monkeypatch.setenv(OVERRIDE, " GPU-aaaa1 ")
    assert (choose("cpu").uuid, choose("cpu").why) == (SMALL.uuid, "FNWORK_DEVICE=GPU-aaaa1")
    monkeypatch.setenv(OVERRIDE, "cpu")
    assert (choose("cuda").use, choose("cuda").why) == ("cpu", "FNWORK_DEVICE=cpu")


@pytest.mark.parametrize("use", ["cuda:7", "GPU-ffff", "GPU-aaaa"], ids=["number", "uuid", "ambiguous"])
def test_what_is_not_there_or_not_clear_is_refused_with_what_there_is(machine, use: str) -> None:
    machine(SMALL, LARGE)
    with pytest.raises(InputError) as caught:
        choose(use)
    message = str(caught.value)
    assert message.startswith(f'device.use = "{use}": ')
    assert ("2 of them" if use == "GPU-aaaa" else "none of them") in message
    assert "cuda:0 NVIDIA GeForce GTX 1060 (GPU-aaaa1111-0000, 5.0 of 6.0 GiB free)" in message
    assert "cuda:1 NVIDIA GeForce RTX 3090" in message


@pytest.mark.parametrize("use", ["gpu", "cuda:x", "CUDA", "cuda:", "", "GPU-", "cuda:0 "])
def test_what_is_no_device_is_refused(use: str) -> None:
    with pytest.raises(InputError, match=r"expected auto, cpu, cuda, cuda:N, or a device's UUID"):
        choose(use)


def test_cards_are_joined_by_their_place_on_the_bus(machine) -> None:
    """The driver lists them in another order than CUDA, and one that CUDA may not use."""
    runtime = machine(SMALL, LARGE)
    runtime.listed = [FakeCard("GPU-cccc3333", bus="0000:61:00.0"), runtime.cards[1], runtime.cards[0]]
    assert [choose(f"cuda:{number}").uuid for number in (0, 1)] == [SMALL.uuid, LARGE.uuid]


def test_a_card_that_the_driver_does_not_list_is_used_all_the_same(machine) -> None:
    machine(SMALL, listed=())
    assert (choose().use, choose().uuid) == ("cuda:0", "")


# --- memory ---


def small_run(**settings: object) -> tuple[list[dict], object, Settings]:
    return zoo.layers("mlp", {"hidden": 16}), table(40), Settings(**{"epochs": 2, "micro_batch": 8, **settings})


def on_card(runtime: FakeRuntime, **settings: object) -> Trainer:
    layers, data, chosen = small_run(kernels="reference", **settings)
    return Trainer(layers, data, chosen, device="cuda")


def test_a_run_on_a_card_is_the_run_on_the_cpu(machine) -> None:
    """The same numbers, whenever copies are made; the forecast is the ledger's peak to the byte."""
    layers, data = zoo.layers("cnn8", {"width": 0.05}), images(22)
    settings = Settings(epochs=2, micro_batch=4, accumulate=2, kernels="reference")
    expected = Trainer(layers, data, settings, device="cpu", augment=Augmentation(flip="random"))
    losses = [values["loss"] for values in of_kind(expected.run(), "step")]
    for seed in range(3):
        machine(LARGE, SMALL, seed=seed)
        trainer = Trainer(layers, data, settings, device="cuda:1", augment=Augmentation(flip="random"))
        assert [values["loss"] for values in of_kind(trainer.run(), "step")] == losses
        assert trainer.memory.peak == trainer.forecast.peak
        assert trainer.forecast.peak["total"] == sum(trainer.forecast.peak[name] for name in CATEGORIES)
        assert len(trainer.memory._segments) == 1
        for name, array in expected.state().arrays.items():
            np.testing.assert_array_equal(array, trainer.state().arrays[name])


def test_a_run_works_on_its_card_alone_and_gives_it_back(machine) -> None:
    runtime = machine(SMALL, LARGE)
    free = [card.free for card in runtime.cards]
    trainer = Trainer(*small_run(kernels="reference"), device="cuda:1")
    assert runtime.cards[0].free == free[0]
    assert runtime.cards[1].free == free[1] - trainer.memory.reserved
    assert of_kind(trainer.run(), "end")[0]["reason"] == "finished"
    assert runtime.current == 0 and not runtime._hooks()
    trainer.memory = trainer._learner = trainer._feed = None
    import gc

    gc.collect()
    assert [card.free for card in runtime.cards] == free


def test_the_choice_and_its_reason_are_in_the_start_event(machine) -> None:
    start = next(on_card(machine(SMALL, LARGE)).run()).values
    assert start["device"] == "NVIDIA GeForce RTX 3090"
    assert "the most free memory among 2" in start["device_why"]


def test_without_a_budget_a_card_has_what_is_free(machine) -> None:
    for asked, got in ((0, 900_000), (500_000, 500_000), (2_000_000, 900_000)):
        trainer = on_card(machine(FakeCard(**{**vars(SMALL), "free": 1_000_000})), budget=asked)
        assert trainer.settings.budget == trainer.memory.budget == got


def test_what_a_card_lacks_is_refused_before_anything_starts(machine) -> None:
    machine(FakeCard(**{**vars(SMALL), "free": 40_000}))
    layers = zoo.layers("mlp", {"hidden": 64})
    with pytest.raises(BudgetExceeded, match=r"memory budget exceeded: .*micro_batch = "):
        Trainer(layers, table(40), Settings(micro_batch=32, kernels="reference"), device="cuda", advise=advise)


def test_the_pool_has_what_the_arena_leaves_of_the_budget(machine) -> None:
    runtime = machine(SMALL, LARGE)
    trainer = on_card(runtime, budget=1 * GIB)
    assert runtime.limits == {1: 1 * GIB - trainer.memory.reserved}
    trainer = on_card(runtime, budget=trainer.forecast.peak["total"])
    assert runtime.limits == {1: LEAST_POOL}


def test_what_cupy_takes_for_itself_is_workspace_in_the_ledger(machine) -> None:
    runtime = machine(SMALL)
    device = choose("cuda")
    memory = Memory(device.allocate, 4096, budget=1 << 20, alignment=512)
    guard = device.guard(memory)
    before = dict(memory.bytes)
    with guard():
        held = runtime.take(700)
        assert memory.bytes["workspace"] == before["workspace"] + 1024 and memory.total == 1024
        runtime.give(held)
        assert memory.bytes == before and memory.total == 0 and memory.peak["workspace"] == 1024
    outside = runtime.take(512)
    with guard():
        runtime.give(outside)
    assert memory.bytes == before and memory.outside == 0


def test_what_cupy_takes_keeps_to_the_budget(machine) -> None:
    runtime = machine(SMALL)
    device = choose("cuda")
    memory = Memory(device.allocate, 4096, budget=8192, alignment=512)
    held = memory.take((4096,), np.uint8, "weights")
    guard = device.guard(memory)
    with pytest.raises(BudgetExceeded, match="memory budget exceeded"), guard():
        runtime.take(8192)
    memory.give(held)
    assert memory.total == 0


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Out of memory allocating 1,024 bytes (allocated so far: 512 bytes)."),
        RuntimeError("cudaErrorMemoryAllocation: out of memory"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"),
    ],
    ids=["pool", "cuda", "cublas"],
)
def test_a_full_card_ends_the_run_with_the_ledger_and_with_what_would_fit(
    machine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    machine(SMALL)
    settings = Settings(micro_batch=8, kernels="reference")
    trainer = Trainer(zoo.layers("cnn8", {"width": 0.05}), images(22), settings, device="cuda", advise=advise)
    with_fault(monkeypatch, error)
    end = of_kind(trainer.run(), "end")[0]
    assert end["reason"] == "failed"
    assert str(error).rstrip(".") in end["message"]
    assert "MiB by category: weights" in end["message"]
    advice = end["message"].partition("These settings would fit: ")[2]
    assert advice and 'micro_batch = 8, accumulate = 1, mode = "fp32", recompute = "none"' not in advice


def with_fault(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The next product fails."""

    @operation()
    def fail(*arguments: object, work: object) -> None:
        raise error

    monkeypatch.setattr("engine.ops.reference.linear", fail)


def test_another_fault_of_a_card_is_not_called_a_lack_of_memory(machine, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = on_card(machine(SMALL))
    with_fault(monkeypatch, RuntimeError("cudaErrorLaunchFailure: unspecified launch failure"))
    with pytest.raises(RuntimeError, match="unspecified launch failure"):
        list(trainer.run())


def test_memory_that_somebody_took_meanwhile_is_refused_with_what_would_fit(
    machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = machine(SMALL)
    budget = Card.budget

    def taken_after(card: Card, asked: int) -> int:
        room = budget(card, asked)
        runtime.cards[0].free = 8_000
        return room

    monkeypatch.setattr(Card, "budget", taken_after)
    with pytest.raises(BudgetExceeded, match=r"cudaErrorMemoryAllocation: out of memory: .*MiB by category: weights"):
        on_card(runtime)


# --- the forecast ---


def test_sizes_round_up_to_those_of_a_card() -> None:
    layers, data, settings = small_run(kernels="reference")
    sizes = [
        forecast(layers, data.input_shape, data.outputs, settings, alignment=alignment).peak for alignment in (64, 512)
    ]
    assert sizes[0]["total"] < sizes[1]["total"]
    assert all(size % 512 == 0 for size in sizes[1].values())


def test_a_card_has_operations_of_its_own() -> None:
    layers, data, settings = small_run()
    assert forecast(layers, data.input_shape, data.outputs, settings, alignment=512).kernels == CARD_KERNELS
