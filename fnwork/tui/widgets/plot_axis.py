"""The scale of one axis of a plot: where a value lies on it, and its ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fnwork.curves import Floats

# Beyond this the difference of two values could overflow, and below the other one a part of it could be 0.
_LARGEST = 1e300
_SMALLEST = 1e-300
_LOG_ENDS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)  # times powers of ten: the ends of a logarithmic axis


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale from `low` to `high` (values, also on a logarithmic one)."""

    low: float
    high: float
    log: bool = False

    def share(self, values: Floats) -> Floats:
        """Where values lie, 0 at `low` and 1 at `high`; nan where the axis has no place for a value."""
        if not self.log:
            finite = np.where(np.isfinite(values), np.clip(values, -_LARGEST, _LARGEST), np.nan)
            return (finite - self.low) / (self.high - self.low)
        with np.errstate(divide="ignore", invalid="ignore"):
            exponents = np.where((values > 0) & np.isfinite(values), np.log10(values), np.nan)
        return (exponents - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))

    def ticks(self, most: int, label: Callable[[float, float], str]) -> list[tuple[float, str]]:
        """At most about `most` ticks as (share, label); `label` gets the value and the step between ticks."""
        if self.log:
            values = _log_ticks(self.low, self.high, most)
            return [(float(self.share(np.array([value]))[0]), label(value, _last_place(value))) for value in values]
        step = nice_step((self.high - self.low) / max(1, most))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [((n * step - self.low) / (self.high - self.low), label(n * step, step)) for n in range(first, last + 1)]


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, ... (times a power of ten) that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in (1, 2, 5, 10, 20) if power * digit >= least * (1 - 1e-9))


def fitting(values: Floats, *, log: bool, parts: int) -> Axis:
    """An axis around all finite values (those above 0 on a logarithmic one).

    Its ends are rounded to ticks, so that new values move them rarely.
    """
    finite = values[np.isfinite(values)]
    if log:
        finite = finite[finite > 0]
    if not finite.size:
        return Axis(0.1, 1.0, log=True) if log else Axis(0.0, 1.0)
    low, high = (float(np.clip(end, -_LARGEST, _LARGEST)) for end in (finite.min(), finite.max()))
    if log:
        low, high = max(low, _SMALLEST), max(high, _SMALLEST)
        ends = _multiples(_LOG_ENDS, low, high)
        low_end = max(end for end in ends if end <= low * (1 + 1e-9))
        high_end = min(end for end in ends if end >= high * (1 - 1e-9) and end > low_end)
        return Axis(low_end, high_end, log=True)
    if high - low <= max(1e-9 * max(abs(low), abs(high)), _SMALLEST):
        margin = abs(high) / 10 if abs(high) > _SMALLEST else 1.0
        low, high = low - margin, high + margin
    step = nice_step((high - low) / max(2, parts))
    return Axis(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)


def number(value: float, step: float) -> str:
    """A tick's value, with as many decimals as the step needs."""
    size = max(abs(value), step)
    if size >= 1e6 or (step < 1e-4 and size < 1e-1):
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}" if value else "0"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:,.{decimals}f}".removeprefix("-") if not round(value, decimals) else f"{value:,.{decimals}f}"


def duration(value: float, step: float) -> str:
    """A tick of a time axis; values in seconds."""
    seconds = round(value)
    if seconds < 3600:
        return f"{seconds // 60}:{seconds % 60:02d}"
    return f"{seconds // 3600}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"


def label_line(axis: Axis, width: int, gutter: int, label: Callable[[float, float], str], unit: str) -> str:
    """The labels below an x axis that starts at column `gutter`, with its unit at the left where there is room."""
    columns = max(1, width - gutter)
    line = [" "] * width
    free_from = 0
    for share, text in axis.ticks(max(1, columns // 12), label):
        start = min(max(gutter + round(share * (columns - 1)) - len(text) // 2, 0), width - len(text))
        if start >= free_from and -1e-9 <= share <= 1 + 1e-9:
            line[start : start + len(text)] = text
            free_from = start + len(text) + 2
    if width >= gutter and not "".join(line[: len(unit) + 1]).strip():
        line[: len(unit)] = unit
    return "".join(line)


def _powers(low: float, high: float) -> range:
    """The exponents of the decades around these values."""
    return range(math.floor(math.log10(low) - 1e-9), math.ceil(math.log10(high) + 1e-9) + 1)


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten, or 1, 2, 5 times them where there is room; never one alone, which would tell no distance."""
    powers, usual, ends = (
        [value for value in _multiples(digits, low, high) if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        for digits in ((1,), (1, 2, 5), _LOG_ENDS)
    )
    if len(usual) < 2:
        return ends
    values = powers if len(usual) > most and len(powers) >= 2 else usual
    return values[:: math.ceil(len(values) / max(1, most))]


def _multiples(digits: Sequence[float], low: float, high: float) -> list[float]:
    """The digits times the powers of ten around these values."""
    return [digit * 10.0**power for power in _powers(low, high) for digit in digits]


def _last_place(value: float) -> float:
    """The place of the last digit of a tick of a logarithmic axis, which has two at most."""
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return power if math.isclose(value / power, round(value / power)) else power / 10
