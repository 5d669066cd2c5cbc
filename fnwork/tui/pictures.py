"""The pictures of runs: which curves a plot shows, and over what."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from fnwork.curves import Floats, History
from fnwork.tui.theme import CATEGORIES
from fnwork.tui.watch import RunWatch
from fnwork.tui.widgets.curve_plot import Curve, Picture
from fnwork.tui.widgets.plot_axis import Axis, duration, number

Over = Literal["epoch", "update", "time"]
OVER: tuple[Over, ...] = ("epoch", "update", "time")
"""What a curve can be drawn over."""

METRIC_TITLES = {"accuracy": "Accuracy", "r2": "R²"}
_HALVINGS = 6


def x_values(watch: RunWatch, history: History, over: Over) -> Floats:
    """Where the rows of a history lie on the x axis."""
    if over == "time":
        return history["t"]
    return history["step"] / max(1, watch.windows_per_epoch) if over == "epoch" else history["step"]


def x_range(watch: RunWatch, over: Over) -> Axis:
    """The whole x axis: exact for a run that is over; wider for one that goes on, so that it rarely changes."""
    per_epoch = max(1, watch.windows_per_epoch)
    now = {"time": watch.seconds, "update": watch.step_now, "epoch": watch.step_now / per_epoch}[over]
    if watch.is_over:
        return Axis(0.0, now or 1.0)
    if over == "time":
        return Axis(0.0, 30.0 * 2 ** max(0, math.ceil(math.log2(max(now, 1e-9) / 30.0))))
    planned = watch.planned_steps / (per_epoch if over == "epoch" else 1)
    if not planned or now > planned:
        return Axis(0.0, now or 1.0)
    halvings = min(_HALVINGS, math.floor(math.log2(planned / now))) if now else _HALVINGS
    return Axis(0.0, planned / 2**halvings)


def loss_picture(watch: RunWatch, over: Over, axis: Axis) -> Picture:
    """Train loss as it is and smoothed, and validation loss."""
    steps, epochs = watch.curves.steps, watch.curves.epochs
    x = x_values(watch, steps, over)
    curves = [
        Curve("train", x, steps["loss"], "raw", background=True, legend="unsmoothed"),
        Curve("train", x, watch.smooth_loss["loss"], "train"),
        Curve("validation", x_values(watch, epochs, over), epochs["val_loss"], "validation", marker="•"),
    ]
    return _picture("Loss", curves, over, axis, empty=_empty(watch, "no update"))


def metric_picture(watch: RunWatch, over: Over, axis: Axis) -> Picture:
    """Accuracy or r2, on the train and on the validation part."""
    epochs, metric = watch.curves.epochs, watch.metric
    x = x_values(watch, epochs, over)
    curves = [
        Curve("train", x, epochs[f"train_{metric}"], "train"),
        Curve("validation", x, epochs[f"val_{metric}"], "validation", marker="•"),
    ]
    percent = metric == "accuracy"
    empty = "no epoch was completed" if watch.is_over else "comes with the first epoch's end"
    return _picture(METRIC_TITLES[metric], curves, over, axis, percent=percent, empty=empty)


def rate_picture(watch: RunWatch, over: Over, axis: Axis) -> Picture:
    """The learning rate."""
    steps = watch.curves.steps
    curve = Curve("lr", x_values(watch, steps, over), steps["lr"], "other")
    return _picture("Learning rate", [curve], over, axis, empty=_empty(watch, "no update"))


def memory_picture(watch: RunWatch, over: Over, axis: Axis) -> tuple[Picture, Floats, Floats, int]:
    """What `MemoryHistory.show` takes."""
    history = watch.curves.memory
    held = np.stack([history[category] for category in CATEGORIES])
    empty = _picture("Memory", [], over, axis, empty=_empty(watch, "not measured"))
    return empty, x_values(watch, history, over), held, watch.memory.budget


def comparison_picture(watches: Sequence[RunWatch], what: str, over: Over) -> Picture:
    """One curve a run: "train_loss" (smoothed updates), or a column of the epochs such as "val_loss"."""
    curves = []
    for index, watch in enumerate(watches):
        train = what == "train_loss"
        history, column = (watch.smooth_loss, "loss") if train else (watch.curves.epochs, what)
        x, y = x_values(watch, history, over), history[column]
        curves.append(Curve(watch.progress().name, x, y, f"run-{index % 8}", marker=run_letter(index)))
    high = max([x_range(watch, over).high for watch in watches], default=1.0)
    percent = what.endswith("accuracy")
    title = {"loss": "loss", "accuracy": "accuracy", "r2": "R²"}[what.split("_")[1]]
    part = {"train": "Train", "val": "Validation"}[what.split("_")[0]]
    return _picture(f"{part} {title}", curves, over, Axis(0.0, high), percent=percent, empty="no values")


def _empty(watch: RunWatch, what: str) -> str:
    return what if watch.is_over else f"{what} yet"


def run_letter(index: int) -> str:
    """What stands for a run in a comparison: A, B, C, ..."""
    return chr(ord("A") + index % 26)


def _picture(
    title: str, curves: Sequence[Curve], over: Over, axis: Axis, *, empty: str, percent: bool = False
) -> Picture:
    label: Callable[[float, float], str] = duration if over == "time" else number
    return Picture(title, curves, axis, label, over, percent, empty)


class Zoom:
    """The part of the x axis that is looked at; it stays when new values come."""

    def __init__(self) -> None:
        self._part: tuple[float, float] | None = None

    def axis(self, whole: Axis) -> Axis:
        """The axis to draw on, out of the whole one."""
        return whole if self._part is None else Axis(*self._part)

    def scale(self, factor: float, whole: Axis) -> None:
        """Look at `factor` times as much as now, around the middle."""
        shown = self.axis(whole)
        middle, half = (shown.low + shown.high) / 2, (shown.high - shown.low) / 2 * factor
        if half < (whole.high - whole.low) / 2**16:
            return
        self._move_to(middle - half, 2 * half, whole)

    def pan(self, share: float, whole: Axis) -> None:
        """Move by a share of what is in view."""
        shown = self.axis(whole)
        width = shown.high - shown.low
        if self._part is not None:
            self._move_to(shown.low + share * width, width, whole)

    def reset(self) -> None:
        """Look at everything again."""
        self._part = None

    def _move_to(self, low: float, width: float, whole: Axis) -> None:
        if width >= (whole.high - whole.low) * (1 - 1e-9):
            self._part = None
            return
        low = min(max(low, whole.low), whole.high - width)
        self._part = (low, low + width)
