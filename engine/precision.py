"""Dynamic loss scaling for half-precision gradients (Micikevicius et al. 2018)."""

from dataclasses import asdict, dataclass
from typing import Any

FLOOR = 1.0


@dataclass
class LossScale:
    """Halved when a window's gradients are not finite, doubled after `growth_interval` clean windows in a row.

    `skips` counts windows skipped in a row. A scale of a run without scaling stays at 1.
    """

    scale: float
    growth_interval: int
    dynamic: bool
    clean: int = 0
    skips: int = 0

    def update(self, finite: bool) -> str:
        """Enters the outcome of one window; says why the scale moved, or ''."""
        if not finite:
            self.clean, self.skips = 0, self.skips + 1
            if self.dynamic and self.scale > FLOOR:
                self.scale = max(FLOOR, self.scale / 2.0)
                return "gradients not finite"
            return ""
        self.clean, self.skips = self.clean + 1, 0
        if self.dynamic and self.clean >= self.growth_interval:
            self.clean = 0
            if self.scale * 2.0 < float("inf"):
                self.scale *= 2.0
                return f"{self.growth_interval} clean windows"
        return ""

    def state(self) -> dict[str, Any]:
        return asdict(self)

    def load_state(self, values: dict[str, Any]) -> None:
        self.scale, self.clean, self.skips = float(values["scale"]), int(values["clean"]), int(values["skips"])
