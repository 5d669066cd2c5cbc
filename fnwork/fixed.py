"""What a process takes beside the ledger, whatever the network: measured once a machine and kept.

On a CPU that is BLAS's packing buffers and compiled code, on a card the context and its handles.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import platformdirs
import psutil

from engine.device import Device, choose
from engine.warm_up import warm_up


def fixed_bytes(device: Device, kernels: str) -> int | None:
    """Bytes beside the ledger under these operations, None where they cannot be measured. The first call takes
    seconds.
    """
    kept = Path(platformdirs.user_cache_dir("fnwork")) / "fixed.json"
    key = f"{device.name}, {kernels}, numpy {version('numpy')}, numba {version('numba')}"
    known = {}
    with suppress(OSError, ValueError):
        known = json.loads(kept.read_text(encoding="utf-8"))
    if key not in known:
        command = [sys.executable, "-m", "fnwork.fixed", device.use, kernels]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None
        known[key] = int(done.stdout)
        with suppress(OSError):  # then it is measured again next time
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(known), encoding="utf-8")
    return known[key]


def _measure(use: str, kernels: str) -> int:
    process = psutil.Process()
    if not choose(use).is_cuda:
        before = process.memory_info().rss
        warm_up(use, kernels)
        return process.memory_info().rss - before
    pool = warm_up(use, kernels)
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    used = next(int(size) for pid, size in (line.split(",") for line in lines) if int(pid) == os.getpid())
    return used * 2**20 - pool


if __name__ == "__main__":
    print(_measure(sys.argv[1], sys.argv[2]))
