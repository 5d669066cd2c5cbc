"""The cheapest settings that keep to a memory budget: micro-batch and accumulation, precision, recomputation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from engine.forecast import CPU_ALIGNMENT, Forecast, forecast
from engine.layers import Tables
from engine.memory import Shape
from engine.settings import Settings
from engine.trainer import Trainer

# time of mixed precision over float32: on a CPU it saves memory alone, on a card (0.2 to 0.35 on an H200) time as well
MIXED_TIME, CARD_MIXED_TIME = 1.1, 0.5
CALL_WORK = 2e6  # work that costs as much as calling one operation: what small micro-batches lose
INTERVALS = (1, 2, 4)

NOISY_BATCH = 32  # samples below which the statistics of batch norm become noisy


@dataclass(frozen=True)
class Candidate:
    """One combination: its forecast peak in bytes, and the time of an update over that of the settings given.

    `noisy`: batch norm would see fewer samples at a time than its statistics need.
    """

    micro_batch: int
    accumulate: int
    mode: str
    recompute: str
    peak: int
    time: float
    noisy: bool

    def settings(self) -> str:
        """The combination as a person would write it."""
        return (
            f"micro_batch = {self.micro_batch}, accumulate = {self.accumulate}, "
            f'mode = "{self.mode}", recompute = "{self.recompute}"'
        )


@dataclass(frozen=True)
class Fit:
    """`chosen`: the fastest candidate within the budget, a noisy one only where no other fits; None where nothing fits.

    `frontier`: those that no other one beats in memory, time and noise, leanest first. `obstacle`: the operation and
    layer at the peak of the leanest.
    """

    budget: int
    chosen: Candidate | None
    frontier: tuple[Candidate, ...]
    obstacle: str

    @property
    def leanest(self) -> Candidate:
        return self.frontier[0]


def fit(tables: Tables, input_shape: Shape, outputs: int, settings: Settings, budget: int, **layout: int | None) -> Fit:
    """Tries every split of the effective batch, which stays as it is, with each precision and recomputation.

    `layout`: `alignment`, `data_bytes` and `samples` as for `forecast`.
    """

    run = partial(forecast, tables, input_shape, outputs, **layout)

    mixed_time = CARD_MIXED_TIME if layout.get("alignment", CPU_ALIGNMENT) != CPU_ALIGNMENT else MIXED_TIME

    def time_of(made: Forecast, tried: Settings) -> float:
        work = made.work + CALL_WORK * made.calls
        return tried.accumulate * work * (mixed_time if tried.mode == "mixed" else 1.0)

    given = replace(settings, budget=0, recompute="none")
    usual = time_of(run(given), given)
    effective = settings.micro_batch * settings.accumulate
    candidates: list[tuple[Candidate, Forecast]] = []
    splits = [size for size in range(1, effective + 1) if effective % size == 0]
    plans = ("none", "auto", *(f"every:{interval}" for interval in INTERVALS))
    for micro_batch, mode, recompute in product(splits, dict.fromkeys((settings.mode, "mixed")), plans):
        accumulate, most = effective // micro_batch, budget if recompute == "auto" else 0
        batch = {"micro_batch": micro_batch, "accumulate": accumulate}
        tried = replace(settings, **batch, mode=mode, recompute=recompute, budget=most)
        made = run(tried)
        noisy = made.learner.model.batch_norm and micro_batch < min(NOISY_BATCH, settings.micro_batch)
        time = time_of(made, tried) / usual
        candidate = Candidate(micro_batch, accumulate, mode, recompute, made.peak["total"], time, noisy)
        candidates.append((candidate, made))
    candidates.sort(key=lambda pair: (pair[0].peak, pair[0].time))
    frontier = _pareto([candidate for candidate, _ in candidates])
    leanest = candidates[0][1]
    fitting = [candidate for candidate in frontier if candidate.peak <= budget]
    highest = max(leanest.timeline, key=lambda point: point.total)
    chosen = min(fitting, key=lambda candidate: (candidate.noisy, candidate.time), default=None)
    return Fit(budget, chosen, tuple(frontier), f"{highest.operation} of {highest.layer}".removesuffix(" of "))


def _pareto(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Of candidates sorted by peak, those that are faster than every leaner one, or less noisy than the leaner faster
    ones.
    """
    kept: list[Candidate] = []
    for candidate in candidates:
        if not any(other.time <= candidate.time and other.noisy <= candidate.noisy for other in kept):
            kept.append(candidate)
    return kept


def advice(found: Fit) -> str:
    """One sentence: the settings that would fit, or what stands in the way."""
    if found.chosen:
        noise = f"; batch norm gets noisy below {NOISY_BATCH} samples" if found.chosen.noisy else ""
        return (
            f"These settings would fit: {found.chosen.settings()} (forecast {found.chosen.peak / 2**20:.1f} MiB{noise})"
        )
    return (
        f"Nothing fits: the leanest settings ({found.leanest.settings()}) still need "
        f"{found.leanest.peak / 2**20:.1f} MiB, because of {found.obstacle}"
    )


def advise(trainer: Trainer, budget: int) -> str:
    """`advice` for a run as it is."""
    return advice(fit(*trainer.network, trainer.settings, budget, **trainer.layout))
