"""What the trainer sees of a data set: its parts, its shapes, and how its inputs were prepared."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.data.preprocessing import Preprocessing


@dataclass(frozen=True)
class Part:
    """Samples of one part, read-only.

    inputs: images uint8 (samples, height, width, channels), or tables float32 (samples, features), already scaled;
    a contiguous array, or what stands for one with `shape`, `dtype`, `len` and [rows]: a file that is mapped, or rows
    that are made on demand. `nbytes` is what it takes in memory itself; the pages of a file are the system's.
    targets: class numbers int32 (samples,), or standardised values float32 (samples, 1).
    """

    inputs: Any
    targets: np.ndarray

    def __post_init__(self):
        if len(self.inputs) != len(self.targets):
            raise ValueError(f"{len(self.inputs)} inputs but {len(self.targets)} targets")
        for name in ("inputs", "targets"):
            if isinstance(array := getattr(self, name), np.ndarray):
                array = np.ascontiguousarray(array).view()
                array.flags.writeable = False
                object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def nbytes(self) -> int:
        """Bytes that both take in memory."""
        return self.inputs.nbytes + self.targets.nbytes


@dataclass(frozen=True)
class DataSet:
    """A data set, split and ready for a Loader.

    `test` is None where the set has no test part, or where it serves as the validation part. `notes` are sentences
    about what was done to the data that its owner should know (dropped columns, filled values).
    """

    name: str
    task: str
    train: Part
    validation: Part
    test: Part | None
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    fingerprint: str
    notes: tuple[str, ...] = ()

    @property
    def outputs(self) -> int:
        """Width of the network's output: the number of classes, or 1 for regression."""
        return len(self.classes) if self.task == "classification" else 1

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in (self.train, self.validation, self.test) if part is not None)
