"""Archived runs made up for the tests of the screen: healthy, overfitting, diverging, long, and many."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

from fnwork.run_folder import event_line, this_process

MIB = 2**20
STARTED = 1_780_000_000.0
SPEC = """\
name = "{name}"
seed = 0

[data]
dataset = "fashion-mini"   # 6,000 images

[model]
preset = "cnn8"
options = {{ width = 0.25 }}

[train]
epochs = {epochs}
micro_batch = 32
accumulate = 4
lr = {lr}
"""


def events(kind: str, *, epochs: int, windows: int, done: float = 1.0, seed: int = 0) -> Iterator[dict[str, Any]]:
    """The events of a run ("healthy", "overfit", "nan") up to a share `done` of it, without the end."""
    draw = random.Random(seed)
    total, passed, best = epochs * windows, round(epochs * windows * done), math.inf
    yield {
        "kind": "start", "t": 0.0, "name": kind, "parameters": 158_826, "device": "cpu", "precision": "fp32",
        "train_samples": windows * 128, "validation_samples": 600, "test_samples": 1000, "epochs": epochs,
        "windows_per_epoch": windows, "micro_batch": 32, "accumulate": 4, "budget": 1024 * MIB,
    }  # fmt: skip
    for step in range(1, passed + 1):
        t, share = step * 0.09, step / total
        loss = 0.25 + 2.1 * math.exp(-6 * share) + draw.gauss(0, 0.12) * (1 - 0.5 * share)
        if kind == "overfit":
            loss *= 1 - 0.8 * share
        if kind == "nan" and 0.45 < share < 0.5:
            loss = math.nan
        elif kind == "nan" and share >= 0.5:
            loss = math.inf if step % 3 else math.nan
        yield {
            "kind": "step", "t": round(t, 3), "epoch": (step - 1) // windows + 1, "step": step, "loss": loss,
            "lr": 1e-3 * (1 + math.cos(math.pi * share)) / 2, "grad_norm": 1.3,
            "samples_per_s": 1400 + draw.gauss(0, 60), "data_wait": 0.03,
        }  # fmt: skip
        if kind == "nan" and not math.isfinite(loss) and step % 5 == 0:
            layer = "stage2.conv1"
            yield {"kind": "nonfinite", "t": t, "where": "gradient", "layer": layer, "action": "skipped", "step": step}
        if step in (1, 2) or step % 11 == 0:
            yield memory(t, 300 if step < 2 else 470)
        if step % windows == 0:
            epoch = step // windows
            rise = 1.2 * share**2 if kind == "overfit" else 0.0
            val = 0.35 + 1.7 * math.exp(-5 * share) + rise + draw.gauss(0, 0.02)
            yield {
                "kind": "epoch", "t": t, "epoch": epoch, "step": step, "train_loss": loss, "val_loss": val,
                "train_accuracy": 0.95 - 0.7 * math.exp(-6 * share), "seconds": windows * 0.09,
                "val_accuracy": 0.88 - 0.6 * math.exp(-5 * share) - rise / 8, "best": val < best,
            }  # fmt: skip
            if val < best:
                yield {"kind": "checkpoint", "t": t, "file": "best", "epoch": epoch, "step": step}
            best = min(best, val)
            yield {"kind": "checkpoint", "t": t, "file": "last", "epoch": epoch, "step": step}


def memory(t: float, activations: int, unit: int = MIB, budget: int = 1024 * MIB) -> dict[str, Any]:
    """One memory event."""
    sizes = {"weights": 9.4, "gradients": 9.4, "optimizer": 18.9, "workspace": 55, "data": 12}
    held = {category: round(size * unit) for category, size in (sizes | {"activations": activations}).items()}
    peak = {"total": round(sum(held.values()) * 1.04), **held}
    return {"kind": "memory", "t": t, "bytes": held, "peak": peak, "process": 900 * MIB, "budget": budget}


def make_run(
    runs: Path,
    name: str,
    kind: str = "healthy",
    *,
    state: str = "finished",
    epochs: int = 12,
    windows: int = 42,
    done: float = 1.0,
    lr: float = 1e-3,
    notes: str = "",
    tags: tuple[str, ...] = (),
    number: int = 0,
) -> Path:
    """Write a run's folder as if a process had trained it; "running" and "paused" ones belong to this process."""
    folder = runs / f"20260528-{number // 3600:02d}{number // 60 % 60:02d}{number % 60:02d}-{name}"
    folder.mkdir(parents=True)
    (folder / "spec.toml").write_text(SPEC.format(name=name, epochs=epochs, lr=lr), encoding="utf-8")
    resolved = {
        "name": name, "data": {"dataset": "fashion-mini"}, "model": {"preset": "cnn8"},
        "train": {"epochs": epochs, "lr": lr, "limit_windows": 0},
    }  # fmt: skip
    (folder / "resolved.toml").write_text(tomli_w.dumps(resolved), encoding="utf-8")
    written = list(events(kind, epochs=epochs, windows=windows, done=done, seed=number))
    last_epoch = max((event["epoch"] for event in written if event["kind"] == "epoch"), default=0)
    accuracy = max((event["val_accuracy"] for event in written if event["kind"] == "epoch"), default=math.nan)
    results = {"val_loss": 0.41, "val_accuracy": accuracy, "test_accuracy": accuracy - 0.01} if last_epoch else {}
    results = {key: value for key, value in results.items() if math.isfinite(value)}
    best = {"epoch": last_epoch, "val_accuracy": accuracy}
    if state not in ("running", "paused"):
        end = {"kind": "end", "t": written[-1]["t"], "reason": state, "best": best, "message": ""}
        written.append(end | {key: value for key, value in results.items() if key.startswith("test_")})
        record = {"reason": state, "message": "", "seconds": written[-1]["t"], "epochs": last_epoch, "result": results}
        record |= {"best_epoch": last_epoch, "parameters": 158_826, "peak": memory(0, 470)["peak"], "device": "cpu"}
        (folder / "record.toml").write_text(tomli_w.dumps(record), encoding="utf-8")
    with (folder / "events.jsonl").open("wb") as file:
        file.writelines(event_line(event) for event in written)
    write_status(
        folder, name=name, spec=f"experiments/specs/{name}.toml", state=state, started=STARTED + number,
        epoch=last_epoch, epochs=epochs, notes=notes, tags=list(tags), results=results,
        seconds=written[-1]["t"], peak_bytes=memory(0, 470)["peak"]["total"],
    )  # fmt: skip
    if state in ("stopped", "interrupted", "failed"):
        (folder / "last.safetensors").write_bytes(b"whole")
    return folder


def write_status(folder: Path, **status: Any) -> None:
    """Write status.json with this process as the owner."""
    finite = {
        key: value
        for key, value in status.get("results", {}).items()
        if not isinstance(value, float) or math.isfinite(value)
    }
    text = json.dumps({**status, "results": finite, **this_process(), "heartbeat": STARTED})
    (folder / "status.json").write_text(text, encoding="utf-8")


def append(folder: Path, *lines: dict[str, Any]) -> None:
    """Append events to a run."""
    with (folder / "events.jsonl").open("ab") as file:
        file.writelines(event_line(line) for line in lines)
