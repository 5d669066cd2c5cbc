"""Validation accuracy in float32 and in mixed precision, over seeds, on fashion-mini.

    python -m tests.bench.accuracy experiments/specs/fashion-cnn.toml --seeds 3
    python -m tests.bench.accuracy cnn8 --epochs 3 --width 0.5

Prints a line a run, then the means and their difference in points.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path

from engine import zoo
from engine.trainer import Settings, Trainer
from fnwork import augmentation, datasets, prepare, spec
from fnwork.datasets.augment import Augmentation


def best_accuracy(layers: list, settings: Settings, augment: Augmentation) -> float:
    """The best validation accuracy of one run."""
    data_set = datasets.load(datasets.DataSettings("fashion-mini", validation=0.1), settings.seed)
    trainer = Trainer(layers, data_set, settings, "cpu", augment)
    return max(event.values["val_accuracy"] for event in trainer.run() if event.kind == "epoch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", help="a spec file, or a preset")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--width", type=float, default=1.0)
    options = parser.parse_args()
    if options.network in zoo.PRESETS:
        layers, augment = zoo.layers(options.network, {"width": options.width}), Augmentation()
        settings = Settings(epochs=3, micro_batch=64, lr=2e-3, schedule="cosine", warmup_epochs=0.5)
    else:
        read, _ = spec.read(Path(options.network))
        layers, settings = prepare.layers(read), prepare.trainer_settings(read)
        augment = augmentation.parse(read.data.augment)
    if options.epochs:
        settings = replace(settings, epochs=options.epochs)
    means = {}
    for mode in ("fp32", "mixed"):
        results = []
        for seed in range(options.seeds):
            began = time.perf_counter()
            results.append(best_accuracy(layers, replace(settings, seed=seed, mode=mode), augment))
            print(f"{mode} seed {seed}: {results[-1]:.4f} in {time.perf_counter() - began:.0f} s", flush=True)
        means[mode] = statistics.mean(results)
    points = (means["mixed"] - means["fp32"]) * 100
    print(f"mean fp32 {means['fp32']:.4f}, mixed {means['mixed']:.4f}: {points:+.2f} points")


if __name__ == "__main__":
    main()
