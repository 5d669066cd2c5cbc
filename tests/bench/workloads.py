"""The reference workloads on made-up data: R128 (res3 on 128x128x3, batch 32) and C10 (cnn8 on 32x32x3, batch 128)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.data import DataSet, Part, Preprocessing


@dataclass(frozen=True)
class Workload:
    preset: str
    input_shape: tuple[int, int, int]
    batch: int
    parameters: int


WORKLOADS = {
    "R128": Workload("res3", (128, 128, 3), 32, 1_850_954),
    "C10": Workload("cnn8", (32, 32, 3), 128, 2_477_066),
}
CLASSES = tuple(str(number) for number in range(10))


def made_up(workload: Workload, batches: int = 2) -> DataSet:
    """Random images, `batches` batches to train on and a few to validate with."""
    draws = np.random.default_rng(0)

    def part(samples: int) -> Part:
        images = draws.integers(0, 256, (samples, *workload.input_shape), np.uint8)
        return Part(images, draws.integers(0, len(CLASSES), samples).astype(np.int32))

    preprocessing = Preprocessing(
        "classification", workload.input_shape, CLASSES, channel_mean=(127.0,) * 3, channel_std=(64.0,) * 3
    )
    return DataSet(
        "made-up",
        "classification",
        part(batches * workload.batch),
        part(1),
        None,
        workload.input_shape,
        CLASSES,
        preprocessing,
        "made-up",
    )
