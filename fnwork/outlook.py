"""What a spec comes to before it is trained: parameters, memory by category, updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outlook:
    """Figures of a spec; memory in bytes, at the moment of the peak of one window."""

    parameters: int
    peak: Mapping[str, int]
    budget: int
    """Bytes; 0 when the spec sets none."""
    input_shape: tuple[int, ...]
    outputs: int
    train_samples: int
    validation_samples: int
    updates_per_epoch: int
    updates: int
    effective_batch: int
    device: str = ""
    """The name of the device that is likely to be used."""


def outlook(text: str, base_folder: Path) -> Outlook:
    """The figures of a spec's text; relative paths start at `base_folder`. InputError (all problems) if it is wrong."""
    from fnwork import prepare, spec
    from fnwork.cards import expect

    parsed = spec.parse(text)
    info = prepare.info(parsed, text, "the spec", base_folder)
    with prepare.placing(parsed, text, "the spec"):
        device = expect(parsed.device.use)
    result = prepare.forecast(parsed, text, "the spec", base_folder, info, device)
    windows = -(-info.train_samples // (parsed.train.micro_batch * parsed.train.accumulate))
    limit = parsed.train.limit_windows
    return Outlook(
        parameters=result.parameters,
        peak=result.peak,
        budget=parsed.memory.budget_bytes,
        input_shape=tuple(info.input_shape),
        outputs=info.outputs,
        train_samples=info.train_samples,
        validation_samples=info.validation_samples,
        updates_per_epoch=windows,
        updates=min(windows * parsed.train.epochs, limit or windows * parsed.train.epochs),
        effective_batch=parsed.train.micro_batch * parsed.train.accumulate,
        device=device.name,
    )
