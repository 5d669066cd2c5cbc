"""Events of a run as lines for a person: a mark, a colour of the theme, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fnwork.checklist import SYMPTOMS
from fnwork.text import harmless
from fnwork.tui.figures import figure

_QUIET = ("·", "foreground-muted")
_TITLES = {symptom.key: symptom.title for symptom in SYMPTOMS}
_EPOCH_METRICS = ("accuracy", "r2", "mae")


def describe(event: Mapping[str, Any], width: int) -> tuple[str, str, str]:
    """(mark, colour, text) of any event but `step` and `memory`; whatever is in it is shown harmlessly.

    An epoch has a shorter text, which keeps to one line, where there are fewer columns than its usual one needs.
    """
    kind = event["kind"]
    told = _TELLERS.get(kind)
    if told is None:
        return *_QUIET, harmless(f"{kind} {_rest(event)}")
    mark, paint, text = told(event)
    if kind == "epoch" and len(text) > width:
        text = _short_epoch(event)
    return mark, paint, harmless(text)


def _epoch(event: Mapping[str, Any]) -> tuple[str, str, str]:
    parts = [f"epoch {event.get('epoch', '?'):>2} ", f"train {figure(event.get('train_loss'))}"]
    parts.append(f"val {figure(event.get('val_loss'))}")
    for metric, value in _epoch_metrics(event).items():
        parts.append(value if metric == "accuracy" else f"{metric} {value}")
    return (*(("★", "accent") if event.get("best") else _QUIET), " ".join(parts))


def _short_epoch(event: Mapping[str, Any]) -> str:
    first = next(iter(_epoch_metrics(event).values()), "")
    losses = f"{figure(event.get('train_loss'))}/{figure(event.get('val_loss'))}"
    return f"ep {event.get('epoch', '?')} {losses} {first}".rstrip()


def _epoch_metrics(event: Mapping[str, Any]) -> dict[str, str]:
    return {name: figure(event[f"val_{name}"], name) for name in _EPOCH_METRICS if f"val_{name}" in event}


def _nonfinite(event: Mapping[str, Any]) -> tuple[str, str, str]:
    layer = f" in {event['layer']}" if event.get("layer") else ""
    action = f": {event['action']}" if event.get("action") else ""
    return "✗", "error", f"{event.get('where', 'value')} not finite{layer}, update {event.get('step', '?')}{action}"


def _scale(event: Mapping[str, Any]) -> tuple[str, str, str]:
    why = f" ({event['why']})" if event.get("why") else ""
    return "↕", "secondary", f"loss scale {figure(event.get('from'))} → {figure(event.get('to'))}{why}"


def _check(event: Mapping[str, Any]) -> tuple[str, str, str]:
    state = str(event.get("state", ""))
    mark, paint = CHECK_MARKS.get(state, _QUIET)
    symptom = str(event.get("symptom", ""))
    evidence = f": {event['evidence']}" if event.get("evidence") else ""
    return mark, paint, f"{_TITLES.get(symptom, symptom)}: {state}{evidence}"


def _end(event: Mapping[str, Any]) -> tuple[str, str, str]:
    reason = str(event.get("reason", "ended"))
    message = str(event.get("message") or "")
    said = message if message.startswith(reason) else f"{reason}: {message}" if message else reason
    tests = [f"{key} {figure(value, key)}" for key, value in event.items() if key.startswith("test_")]
    paint = "error" if reason == "failed" else "success"
    return "■", paint, "  ".join([said, *tests])


_TELLERS = {
    "epoch": _epoch,
    "nonfinite": _nonfinite,
    "scale": _scale,
    "check": _check,
    "end": _end,
    "warning": lambda event: ("!", "warning", str(event.get("message", ""))),
    "checkpoint": lambda event: (
        "·",
        "foreground-muted",
        f"saved {event.get('file', '')}, update {event.get('step', '?')}",
    ),
    "start": lambda event: (*_QUIET, f"on {event.get('device')}: {event['device_why']}"),
    "resume": lambda event: ("▶", "success", f"resumed at epoch {event.get('epoch', '?')}, update {event.get('step')}"),
}

CHECK_MARKS: dict[str, tuple[str, str]] = {
    "fine": ("✓", "success"),
    "watch": ("!", "warning"),
    "firing": ("✗", "error"),
    "cannot tell yet": _QUIET,
}
"""Mark and colour of each state of a checklist entry."""


def _rest(event: Mapping[str, Any]) -> str:
    return "  ".join(f"{key} {value}" for key, value in event.items() if key not in ("kind", "t"))
