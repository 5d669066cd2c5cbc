"""The device a run computes on: where its arrays lie and how much memory there is."""

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from engine.errors import InputError
from engine.memory import Array

OVERRIDE = "FNWORK_DEVICE"


@dataclass(frozen=True)
class Device:
    """`allocate(bytes)` makes uint8 storage, sizes round up to `alignment`, `total` is the device's memory in bytes."""

    name: str
    use: str
    allocate: Callable[[int], Array]
    alignment: int
    total: int
    why: str

    @property
    def is_cuda(self) -> bool:
        return self.use != "cpu"


def choose(use: str = "auto") -> Device:
    """The device for `use`: auto, cpu, cuda, cuda:N. FNWORK_DEVICE in the environment overrides it. Raises
    InputError.
    """
    override = os.environ.get(OVERRIDE, "")
    wanted, why = (override, f"{OVERRIDE}={override}") if override else (use, f'device.use = "{use}"')
    if wanted == "auto":
        try:
            return _cuda(0, "a CUDA device was found")
        except InputError:
            return _cpu("no CUDA device was found")
    if wanted == "cpu":
        return _cpu(why)
    kind, _, number = wanted.partition(":")
    if kind != "cuda" or (number and not number.isdigit()):
        raise InputError(f"{why}: expected auto, cpu, cuda or cuda:N")
    return _cuda(int(number or 0), why)


def _cpu(why: str) -> Device:
    # Threads of BLAS beside threads of ours, or beside a busy machine, wait for each other longer than they work.
    threadpool_limits(limits=1, user_api="blas")
    name = platform.processor() or platform.machine() or "CPU"
    return Device(f"CPU ({name})", "cpu", lambda size: np.empty(size, np.uint8), 64, psutil.virtual_memory().total, why)


def _cuda(number: int, why: str) -> Device:
    try:
        import cupy
    except ImportError:
        raise InputError(
            f"{why}: CuPy is not installed. Run nvidia-smi to see the driver's CUDA version, "
            "then install the extra cuda12 or cuda13"
        ) from None
    try:
        device = cupy.cuda.Device(number)
        device.use()
        cupy.arange(4).sum().item()
        name = cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
        total = device.mem_info[1]
    except Exception as error:  # CuPy raises many kinds, all of them mean that this card cannot be used
        raise InputError(f"{why}: the card cannot be used: {error}") from None
    return Device(name, f"cuda:{number}", lambda size: cupy.empty(size, cupy.uint8), 512, total, why)
