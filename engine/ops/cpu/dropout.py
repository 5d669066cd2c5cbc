"""Dropout: the draws of NumPy's Philox generator made and used in one pass, in any order."""

from math import ceil

import numpy as np

from engine.memory import Array, Scratch
from engine.ops import reference
from engine.ops.cpu.elementwise import ranges
from engine.ops.cpu.kernels import kernel
from engine.ops.cpu.lanes import LANES, high_product, keep_bits, load_until, splat, store_until
from engine.ops.cpu.storage import compiled, flat
from engine.ops.cpu.threads import in_parallel

FACTORS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
STEPS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B))


@kernel("SSfUii")
def _dropout(x, out, factor, numbers, first, last):
    """Philox 4x64-10 (Salmon et al. 2011): a block of its counter gives four words, each two draws of 24 bits."""
    seed, epoch, step, layer, least = numbers
    for at in range(first, last, LANES):
        a, b, c, d = np.uint64(at // LANES + 1), np.uint64(0), step, epoch
        key, other_key = seed, layer
        for _ in range(10):
            high, other_high = high_product(FACTORS[0], a), high_product(FACTORS[1], c)
            a, b, c, d = other_high ^ b ^ key, FACTORS[1] * c, high ^ d ^ other_key, FACTORS[0] * a
            key, other_key = key + STEPS[0], other_key + STEPS[1]
        bits = 0
        for word in (a, b, c, d):
            low, high = word >> np.uint64(8) & np.uint64(0xFFFFFF), word >> np.uint64(40)
            bits = bits * 4 + (low >= least) * 2 + (high >= least)
        store_until(out, at, last, keep_bits(load_until(x, at, last) * splat(factor), np.uint8(bits)))


@compiled(reference.dropout)
def dropout(x: Array, place: Array, out: Array, *, rate: float, seed: int, layer: int, work: Scratch) -> None:
    """As the reference."""
    least = ceil(float(np.float32(rate)) * 2**24)
    numbers = tuple(map(np.uint64, (seed, *place, layer, least)))
    in_parallel(_dropout, ranges(x), flat(x), flat(out), np.float32(1.0 / (1.0 - rate)), numbers)
