"""Milliseconds of each operation of the reference and of the compiled ones, on the shapes of the reference workloads.

    python tests/bench/operations.py [--repeat 5] [--only convolve]

Each line: operation, shape, storage, the reference, the compiled one, how many times faster that is, and GFLOP/s where
the work is a product. The two take turns, and the best of the repeats counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from engine.memory import Memory
from engine.ops import Operations, cpu, reference
from engine.ops.packing import packed_mask, packed_positions

CONVOLUTIONS = [
    # batch, height = width, inputs, outputs, kernel, stride
    (32, 128, 3, 32, 3, 2),
    (32, 64, 32, 32, 3, 1),
    (32, 64, 32, 64, 3, 2),
    (32, 64, 32, 64, 1, 2),
    (32, 32, 64, 64, 3, 1),
    (32, 16, 128, 128, 3, 1),
    (128, 16, 256, 256, 3, 1),
    (128, 8, 256, 288, 3, 1),
]
IMAGES = [(32, 64, 64, 32), (128, 32, 32, 128)]

Case = tuple[str, str, tuple[Any, ...], dict[str, Any], float]


def cases(stored: type) -> Iterator[Case]:
    """Operation, shape, arguments, options and floating-point operations."""
    random = np.random.default_rng(1)

    def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
        return random.standard_normal(shape, np.float32).astype(dtype)

    for batch, size, inputs, outputs, kernel, stride in CONVOLUTIONS:
        padding = kernel // 2
        made = (size + 2 * padding - kernel) // stride + 1
        x, weight = normal(batch, size, size, inputs, dtype=stored), normal(outputs, kernel, kernel, inputs)
        out = normal(batch, made, made, outputs, dtype=stored)
        geometry = {"stride": stride, "padding": padding}
        shape = f"{batch}x{size}x{size}x{inputs} to {outputs}, {kernel}x{kernel}/{stride}"
        work = 2.0 * out.size * kernel * kernel * inputs
        yield "convolve", shape, (x, weight, None, out), geometry, work
        yield "convolve_input_gradient", shape, (out, weight, np.empty_like(x)), geometry, work
        yield "convolve_weight_gradient", shape, (x, out, np.zeros_like(weight), None), geometry, work
    for image in IMAGES:
        channels, shape = image[3], "x".join(map(str, image))
        x, grad, out = (normal(*image, dtype=stored) for _ in range(3))
        mean, inv_std, gamma, beta = (np.ones(channels, np.float32) for _ in range(4))
        mask = np.zeros(packed_mask(image).shape, np.uint8)
        pooled = np.empty((image[0], image[1] // 2, image[2] // 2, channels), stored)
        positions = np.zeros(packed_positions(pooled.shape, 2).shape, np.uint8)
        sums = np.zeros(channels, np.float32), np.zeros(channels, np.float32)
        yield "channel_statistics", shape, (x, mean.copy(), mean.copy()), {}, 0.0
        norm = {"skip": grad, "relu": True, "mask": mask}
        yield "batch_norm", shape, (x, mean, inv_std, gamma, beta, out), norm, 0.0
        backward = (x, mean, inv_std, gamma, beta, grad, *sums, out)
        yield "batch_norm_backward", shape, backward, {"relu": True, "mask": mask}, 0.0
        yield "add", shape, (np.zeros_like(x), out), {}, 0.0
        yield "copy", shape, (x, np.empty(image, np.float32 if stored == np.float16 else np.float16)), {}, 0.0
        yield "max_pool", shape, (x, pooled, positions), {"size": 2}, 0.0
        yield "max_pool_backward", shape, (positions, pooled, out), {"size": 2}, 0.0


def milliseconds(case: Case, repeat: int) -> list[float]:
    """The best time of the reference and of the compiled operation."""
    name, _, arguments, options, _ = case
    ways = [
        getattr(Operations(Memory(lambda size: np.empty(size, np.uint8), capacity=1 << 28), kernels), name)
        for kernels in (reference, cpu)
    ]
    best = [float("inf")] * len(ways)
    for turn in range(repeat + 1):
        for number, way in enumerate(ways):
            began = time.perf_counter()
            way(*arguments, **options)
            if turn:  # the first one compiles
                best[number] = min(best[number], (time.perf_counter() - began) * 1e3)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="", help="operations whose name contains this")
    arguments = parser.parse_args()
    print(f"{'operation':26} {'shape':36} {'storage':8} {'reference':>10} {'compiled':>10} {'times':>7} {'GFLOP/s':>8}")
    for stored in (np.float32, np.float16):
        for case in cases(stored):
            if arguments.only not in case[0]:
                continue
            slow, fast = milliseconds(case, arguments.repeat)
            rate = f"{case[4] / fast / 1e6:8.0f}" if case[4] else ""
            print(
                f"{case[0]:26} {case[1]:36} {stored.__name__:8} {slow:10.2f} {fast:10.2f} {slow / fast:7.1f} {rate}",
                flush=True,
            )


if __name__ == "__main__":
    main()
