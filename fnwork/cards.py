"""NVIDIA cards as their driver lists them: without CuPy, which takes a while to import and memory of a card to use."""

import os
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from engine.device import Card, Device, cpu, wanted


@dataclass(frozen=True)
class Listed:
    """One card; sizes in bytes, 0 where the driver does not tell."""

    uuid: str
    name: str
    total: int
    free: int
    capability: tuple[int, int]


@dataclass(frozen=True)
class Driver:
    """`version` is empty without a driver, `cuda` the newest CUDA it runs; `problem`: why it does not answer."""

    version: str = ""
    cuda: tuple[int, int] = (0, 0)
    cards: tuple[Listed, ...] = ()
    problem: str = ""


def driver() -> Driver:
    """What the driver tells through its own library (NVML)."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
        number = pynvml.nvmlSystemGetCudaDriverVersion()
        cards = tuple(_listed(pynvml, handle) for handle in handles)
        return Driver(pynvml.nvmlSystemGetDriverVersion(), (number // 1000, number % 1000 // 10), cards)
    except pynvml.NVMLError_LibraryNotFound:
        return Driver()
    except pynvml.NVMLError as error:
        return Driver(problem=str(error))


def _listed(nvml: Any, handle: Any) -> Listed:
    total = free = 0
    with suppress(nvml.NVMLError):  # a card that shares the system's memory has none of its own
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        total, free = memory.total, memory.free
    capability = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Listed(nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle), total, free, capability)


@dataclass(frozen=True)
class Expected(Card):
    """A card as the driver lists it, for a forecast; one that is not here has no memory."""

    def budget(self, asked: int) -> int:
        room = self.free * 9 // 10
        return min(asked or room, room) if room else asked


def expect(use: str) -> Device:
    """What `engine.device.choose` will most likely take, told at once and without a trace. Raises InputError."""
    asked, why = wanted(use)
    if asked == "cpu":
        return cpu(why)
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
    cards = () if hidden or not find_spec("cupy") else driver().cards
    if asked == "auto" and not cards:
        return cpu("no card that CuPy can use was found")
    named = [card for card in cards if card.uuid.lower().startswith(asked.lower())] or list(cards)
    if asked.startswith("cuda:") and len(cards) > 1:
        named = []  # CUDA's numbers are not known here
    best = max(named, key=lambda card: card.free, default=Listed("", f"device {asked}", 0, 0, (0, 0)))
    return Expected(best.name, best.total, why, "cuda", best.uuid, best.free)
