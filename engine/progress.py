"""Where a run stands: its place in the epochs, the sums of the epoch so far, and the best result."""

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

import numpy as np

from engine.losses import TOTALS

# what a checkpoint holds
KEPT = ("epoch", "micro", "step", "totals", "samples", "seconds", "waited", "best", "epochs_without_better", "ended")


class Progress:
    """`epoch` counts from 1, `micro` the micro-batches of it that are done, `step` all updates so far."""

    def __init__(self, validated: bool) -> None:
        """`validated`: there is a validation part; otherwise the train part's results decide what is best."""
        self.epoch, self.micro, self.step = 1, 0, 0
        self.best: dict[str, Any] = {}
        self.epochs_without_better = 0
        self.ended = ""
        self._prefix = "val" if validated else "train"
        self._clear()

    def _clear(self) -> None:
        self.totals, self.samples = np.zeros(TOTALS), 0
        self.seconds, self.waited = 0.0, 0.0

    def enter_window(self, micro_batches: int, seconds: float, waited: float) -> None:
        """One window has been seen, whatever became of it."""
        self.micro += micro_batches
        self.seconds += seconds
        self.waited += waited

    def enter_update(self, totals: np.ndarray, samples: int) -> None:
        """The window's update was made."""
        self.step += 1
        self.totals += totals
        self.samples += samples

    def enter_epoch(self, values: Mapping[str, Any]) -> bool:
        """Closes the epoch with its results; whether they are the best so far."""
        better = self._is_better(values)
        if better:
            kept = (name for name in values if name in ("epoch", "step") or name.startswith(("train_", "val_")))
            self.best = {name: values[name] for name in kept}
        self.epochs_without_better = 0 if better else self.epochs_without_better + 1
        self.epoch, self.micro = self.epoch + 1, 0
        self._clear()
        return better

    def _is_better(self, values: Mapping[str, Any]) -> bool:
        """By higher accuracy, then by lower loss; regression has no accuracy. Never when the loss is not finite."""
        if not isfinite(values[f"{self._prefix}_loss"]):
            return False
        return not self.best or self._rank(values) > self._rank(self.best)

    def _rank(self, values: Mapping[str, Any]) -> tuple[float, float]:
        return values.get(f"{self._prefix}_accuracy", 0.0), -values.get(f"{self._prefix}_loss", inf)

    def state(self) -> dict[str, Any]:
        """JSON-able values."""
        return {name: getattr(self, name) for name in KEPT} | {"totals": self.totals.tolist()}

    def load_state(self, values: Mapping[str, Any]) -> None:
        for name in KEPT:
            now, kept = getattr(self, name), values[name]
            setattr(self, name, np.array(kept, now.dtype) if name == "totals" else type(now)(kept))
