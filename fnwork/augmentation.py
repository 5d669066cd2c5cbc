"""`data.augment`: what is done to train images, by name."""

import re
from collections.abc import Sequence

from engine.errors import InputError
from fnwork.datasets.augment import Augmentation

EXPECTED = (
    '"crop:N" or "cutout:N" (N pixels), "flip", "flip:alternating", "jitter:X" (X up to 1), "mixup:A" (A up to 10)'
)
_FORM = re.compile(r"(crop|cutout):([1-9]\d{0,3})|(jitter|mixup):(\d{0,2}\.?\d{1,4})|flip(:alternating)?", re.ASCII)
_MOST = {"jitter": 1.0, "mixup": 10.0}


def parse(names: Sequence[str]) -> Augmentation:
    """Read `data.augment`, such as ["crop:4", "flip"]; InputError on what is not known or given twice."""
    found: dict[str, int | float | str] = {}
    for name in names:
        match = _FORM.fullmatch(name)
        pixels, size, amount, number, alternating = match.groups() if match else (None,) * 5
        if not match or (amount and not 0 < float(number) <= _MOST[amount]):
            raise InputError(f'data.augment: expected {EXPECTED}, got "{name}"')
        kind = pixels or amount or "flip"
        if kind in found:
            raise InputError(f"data.augment: {kind} is given twice; keep one of them")
        random = "alternating" if alternating else "random"
        found[kind] = int(size) if pixels else float(number) if amount else random
    return Augmentation(**found)
