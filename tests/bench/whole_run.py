"""A whole run of fashion-cnn, ours and PyTorch's in turn: same data, network, epochs, batches, rates, mirror images.

    python -m tests.bench.whole_run --torch-python /path/to/python [--json] [--workers 2]

PyTorch reads from a DataLoader. Times are from the first batch to the last validation, without imports.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from engine.data import DataSet
from engine.schedule import learning_rate
from engine.trainer import Settings, Trainer
from fnwork import augmentation, datasets, prepare, spec
from tests.bench.peer import ROOT, Peer, add_option


def torch_job(layers: list[dict[str, Any]], settings: Settings, data: DataSet, file: Path) -> dict[str, Any]:
    """The same run for PyTorch; the pictures go into `file`."""
    parts = {"inputs": data.train.inputs, "targets": data.train.targets}
    np.savez(file, **parts, validation=data.validation.inputs, validation_targets=data.validation.targets)
    updates = -(-len(data.train) // settings.micro_batch)
    return {
        "layers": layers,
        "input_shape": data.input_shape,
        "outputs": data.outputs,
        "data": str(file),
        "batch": settings.micro_batch,
        "epochs": settings.epochs,
        "rates": [learning_rate(settings, update, updates) for update in range(settings.epochs * updates)],
        "weight_decay": settings.weight_decay,
        "mean": data.preprocessing.channel_mean[0],
        "std": data.preprocessing.channel_std[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="processes of the DataLoader")
    parser.add_argument("--json", action="store_true")
    add_option(parser)
    options = parser.parse_args()
    read, _ = spec.read(ROOT / "experiments" / "specs" / "fashion-cnn.toml")
    layers, settings = prepare.layers(read), prepare.trainer_settings(read)
    data = datasets.load(datasets.DataSettings("fashion-mini", validation=0.1), settings.seed)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        job = torch_job(layers, settings, data, Path(folder) / "pictures.npz")
        job |= {"flip": "flip" in read.data.augment, "workers": options.workers}
        for _ in range(options.rounds):
            trainer = Trainer(layers, data, settings, "cpu", augmentation.parse(read.data.augment))
            began = time.perf_counter()
            accuracies = [event.values["val_accuracy"] for event in trainer.run() if event.kind == "epoch"]
            ours.append((time.perf_counter() - began, accuracies[-1]))
            with Peer(options.torch_python, **job) as peer:
                theirs.append((peer.ready["seconds"], peer.ready["accuracy"]))
    (seconds, accuracy), (torch_seconds, torch_accuracy) = (
        [statistics.median(values) for values in zip(*side, strict=True)] for side in (ours, theirs)
    )
    found = {
        "workload": read.name,
        "ours_s": round(seconds, 2),
        "torch_s": round(torch_seconds, 2),
        "ratio": round(seconds / torch_seconds, 3),
        "ours_accuracy": round(accuracy, 4),
        "torch_accuracy": round(torch_accuracy, 4),
    }
    if options.json:
        print(json.dumps(found))
    else:
        print(", ".join(f"{key} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
