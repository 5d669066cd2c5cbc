"""A run in the formats of other programs: its curves as a table, its best weights as safetensors."""

import csv
import io
import json
from pathlib import Path

from safetensors.numpy import save as safetensors_bytes

from engine.errors import InputError
from engine.state import trained
from fnwork import checkpoint, model
from fnwork.run_folder import RunReader
from fnwork.text import harmless

CURVES = ("step", "epoch")  # the kinds of event that become rows


def curves(folder: Path) -> bytes:
    """CSV: one row an update and one an epoch, oldest first; a column for every value that any of them has. Raises
    InputError where there are none.
    """
    rows = [event for event in RunReader(folder).events() if event["kind"] in CURVES]
    if not rows:
        raise InputError(f"{harmless(folder.name)} has no curves: it tells of no update and no epoch")
    columns = dict.fromkeys(["kind", "t", "epoch", "step", *(key for row in rows for key in row)])
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-8")


def weights(folder: Path) -> bytes:
    """The weights and the running statistics, with the layer tables and the preprocessing as JSON beside them."""
    state, context = checkpoint.load(model.weights_file(folder))
    about = {
        "layers": json.dumps(context.layers),
        "preprocessing": json.dumps(state.values["preprocessing"]),
        "epoch": str(context.epoch),
    }
    return safetensors_bytes(trained(state.arrays), about)
