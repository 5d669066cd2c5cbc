"""Numbers as a person reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fnwork.text import UNITS


@dataclass(frozen=True)
class Unit:
    """What bytes that are compared are counted in."""

    name: str
    bytes: int

    def count(self, size: float) -> str:
        """A number of these units; one that is next to nothing is not said to be nothing."""
        number = size / self.bytes
        if self.bytes == 1 or number >= 1000:
            return f"{number:,.0f}"
        return "<0.1" if 0 < number < 0.05 else f"{number:.1f}"


def common_unit(largest: float) -> Unit:
    """The unit in which the largest of some sizes has at most four digits, so that the small ones have some, too."""
    power = next((power for power in range(len(UNITS)) if largest < 10_000 * 1024**power), len(UNITS) - 1)
    return Unit(UNITS[power], 1024**power)


def figure(value: Any, metric: str = "") -> str:
    """A number of a result, as wide as any other; accuracies in percent."""
    if not isinstance(value, int | float):
        return "-"
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if metric.endswith("accuracy"):
        return f"{100 * value:.2f}%"
    if value and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.2e}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def clock(seconds: float) -> str:
    """Seconds as m:ss, or h:mm:ss from an hour on; "-" when they are not known."""
    if not math.isfinite(seconds):
        return "-"
    whole = round(max(0.0, seconds))
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def time_left(seconds: float) -> str:
    """Seconds to go, no finer than one can know them."""
    if not math.isfinite(seconds):
        return "-"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 360_000 else f"{seconds / 86400:.0f} days"
