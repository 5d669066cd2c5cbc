"""Exact checkpoints: arrays in a safetensors file, everything else as JSON in its metadata. Never pickle."""

import json
import os
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from engine.errors import InputError
from engine.state import State

FORMAT = "fnwork-1"


def save(path: Path, state: State) -> None:
    """Writes `state` to a file that is either the old one or the whole new one, whatever happens meanwhile. Raises
    OSError.
    """
    arrays = {name: np.asarray(array, order="C") for name, array in state.arrays.items()}
    metadata = {"format": FORMAT, "values": json.dumps(dict(state.values))}
    content = safetensors.numpy.save(arrays, metadata=metadata)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path) -> State:
    """Reads what `save` wrote. Raises InputError for a file that is missing, torn or not ours."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if (found := metadata.get("format")) != FORMAT:
                raise InputError(f"{path}: not a checkpoint of this program (format {found!r}, expected {FORMAT!r})")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file handle, not a dict
        return State(arrays, json.loads(metadata["values"]))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no checkpoint") from None
    except (safetensors.SafetensorError, KeyError, ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: the checkpoint is damaged or incomplete ({error})") from None
