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

import numpy as np
import platformdirs
import psutil

from engine import zoo
from engine.data import DataSet, Part, Preprocessing
from engine.device import Device, choose
from engine.trainer import Settings, Trainer


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
        command = [sys.executable, "-m", "engine.fixed", device.use, kernels]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None
        known[key] = int(done.stdout)
        with suppress(OSError):  # then it is measured again next time
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(known), encoding="utf-8")
    return known[key]


def warm_up(use: str, kernels: str) -> int:
    """Trains a tiny network with these operations, in each precision they serve, and takes products of a usual size;
    returns the bytes of its pool. Run in a process of its own, it also leaves compiled kernels on disk for others.
    """
    shape = (32, 32, 3)
    draws = np.random.default_rng(0)
    part = Part(draws.integers(0, 256, (4, *shape), np.uint8), np.zeros(4, np.int32))
    preprocessing = Preprocessing(
        "classification", shape, ("a", "b"), channel_mean=(127.0,) * 3, channel_std=(64.0,) * 3
    )
    data = DataSet("warm-up", "classification", part, part, None, shape, ("a", "b"), preprocessing, "")
    layers = [*zoo.layers("res3", {"blocks": 2, "width": 0.5})]
    layers.insert(2, {"type": "max_pool"})
    for mode in ("fp32", "mixed") if kernels == "cpu" else ("fp32",):
        trainer = Trainer(layers, data, Settings(micro_batch=2, epochs=1, mode=mode, kernels=kernels), use)
        for _ in trainer.run():
            pass
    left, right = np.ones((2048, 2304), np.float32), np.ones((2304, 288), np.float32)
    np.matmul(left, right)
    np.matmul(left.T, left[:, :288])
    return trainer.memory.reserved


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
