"""How a run trains: the values of a spec's [train], [precision] and [memory] tables, under the same names."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Settings:
    """`budget` in bytes, 0 for what the device has; `lr`, `warmup_from`, `min_lr` per update; the rest as in the
    spec.
    """

    seed: int = 0
    epochs: int = 10
    micro_batch: int = 64
    accumulate: int = 1
    loss: str = "cross-entropy"
    label_smoothing: float = 0.0
    soft_targets: bool = False  # cross-entropy: targets are rows of probabilities, as mixup makes them
    optimizer: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.01
    schedule: str = "constant"
    warmup_epochs: float = 0
    warmup_from: float = 0.0
    min_lr: float = 0.0
    clip_norm: float = 0.0
    average_decay: float = 0.0
    early_stop: int = 0
    limit_windows: int = 0
    mode: str = "fp32"
    loss_scale: float = 65536.0
    growth_interval: int = 2000
    keep_fp32: tuple[str, ...] = ()
    budget: int = 0
    recompute: str = "none"
    kernels: str = ""  # the operations of a CPU: reference, cpu (compiled), or "" for what pays
    parameter_dtype: np.dtype = field(default=np.dtype(np.float32))

    @property
    def activation_dtype(self) -> np.dtype:
        return np.dtype(np.float16) if self.mode == "mixed" else self.parameter_dtype
