"""What a process takes beside the ledger, whatever the network: measured once a machine and kept.

On a CPU that is BLAS's packing buffers and compiled code, on a card the context and its handles.
"""

import gc
import json
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version

import psutil

from engine.device import Device
from fnwork.cards import driver
from fnwork.compiling import HOME
from fnwork.datasets import cache
from fnwork.warm_up import warm_up


def fixed_bytes(device: Device, kernels: str) -> int | None:
    """Bytes beside the ledger under these operations, None where they cannot be measured. The first call takes
    seconds.
    """
    kept = cache.folder() / "fixed.json"
    software = f"cupy {device.cupy.__version__}" if device.is_cuda else f"numba {version('numba')}"
    key = f"{device.name}, {kernels}, numpy {version('numpy')}, {software}"
    known = {}
    with suppress(OSError, ValueError):
        known = json.loads(kept.read_text(encoding="utf-8"))
    if key not in known:
        command = [sys.executable, "-m", "fnwork.fixed", device.uuid or device.use, kernels]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HOME)
        if done.returncode:
            return None
        known[key] = int(done.stdout)
        with suppress(OSError):  # then it is measured again next time
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(known), encoding="utf-8")
    return known[key]


def _measure(use: str, kernels: str) -> int:
    before = _held(use)
    warm_up(use, kernels)
    gc.collect()  # the arrays of a card go, what is fixed stays
    return _held(use) - before


def _held(use: str) -> int:
    """Bytes that this process holds; of a card, given by its UUID, those that anybody does."""
    if use == "cpu":
        return psutil.Process().memory_info().rss
    return next(card.total - card.free for card in driver().cards if card.uuid == use)


if __name__ == "__main__":
    print(_measure(sys.argv[1], sys.argv[2]))
