"""Sizes as a spec and the command line write them."""

import re

from engine.errors import InputError
from fnwork.spec_errors import shown

SIZE_UNITS = {"b": 1} | {f"{p}b": 1000 ** (n + 1) for n, p in enumerate("kmgt")}
SIZE_UNITS |= {f"{p}ib": 1024 ** (n + 1) for n, p in enumerate("kmgt")}


def parse_size(text: str) -> int:
    """Bytes of a size such as "6 GiB", "512MiB" or "1.5 GB"; InputError when it is none."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([A-Za-z]{1,3})\s*", text, flags=re.ASCII)
    if match and match[2].lower() in SIZE_UNITS and (size := int(float(match[1]) * SIZE_UNITS[match[2].lower()])) > 0:
        return size
    raise InputError(f'expected a size such as "6 GiB" or "512 MiB", got {shown(text)}')
