"""A tiny training run that takes what a process takes once, whatever the network."""

import time

import numpy as np

from engine import zoo
from engine.data import DataSet, Part, Preprocessing
from engine.trainer import Settings, Trainer
from fnwork.compiling import Compilation


def warm_up(use: str, kernels: str) -> int:
    """Trains a tiny network with these operations, and takes products of a usual size; returns the bytes of its pool.

    What has to be compiled is compiled by processes of their own, whose memory is not this one's.
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
    if kernels == "cpu":
        with Compilation("fp32") as compilation:
            while compilation.running:
                time.sleep(0.1)
    trainer = Trainer(layers, data, Settings(micro_batch=2, epochs=1, kernels=kernels), use)
    for _ in trainer.run():
        pass
    left, right = np.ones((2048, 2304), np.float32), np.ones((2304, 288), np.float32)
    np.matmul(left, right)
    np.matmul(left.T, left[:, :288])
    return trainer.memory.reserved
