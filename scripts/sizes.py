"""Prints which networks fit cards of 4 to 12 GB, with the largest micro-batch that each takes, by the forecast.

    python scripts/sizes.py --mode mixed

A card gives a run nine tenths of what is free, and half a GiB of it belongs to the driver, the context and the screen.
"""

import argparse
from dataclasses import replace

from engine import zoo
from engine.forecast import forecast
from engine.settings import Settings

CARDS = (4, 6, 8, 12)  # GB, as they are sold
TAKEN = 0.5  # GiB
SHARE = 0.9
ALIGNMENT = 512  # that of a card
STEP = 8  # micro-batches are multiples of it
MOST = 4096
OUTPUTS = 10
SHAPES = {"cnn8": (32, 32, 3), "air": (32, 32, 3), "res3": (128, 128, 3)}
WIDTHS = (1.0, 2.0, 4.0, 8.0)


def largest(preset: str, width: float, settings: Settings, budget: float) -> tuple[int, int]:
    """The largest micro-batch whose peak keeps to the budget, 0 where none does, and the parameters."""
    tables = zoo.layers(preset, {"width": width})

    def made(micro_batch: int):
        settings_here = replace(settings, micro_batch=micro_batch, budget=int(budget))
        return forecast(tables, SHAPES[preset], OUTPUTS, settings_here, alignment=ALIGNMENT)

    fits, fails = 0, MOST // STEP + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if made(middle * STEP).peak["total"] <= budget:
            fits = middle
        else:
            fails = middle
    return fits * STEP, made(STEP).parameters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("fp32", "mixed"), default="mixed")
    parser.add_argument("--recompute", default="none")
    parser.add_argument("--optimizer", default="adamw")
    options = parser.parse_args()
    settings = Settings(mode=options.mode, recompute=options.recompute, optimizer=options.optimizer)
    print("| network | pictures | parameters |", " | ".join(f"{card} GB" for card in CARDS), "|")
    print("| --- | --- | ---: |", " | ".join("---:" for _ in CARDS), "|")
    for preset, shape in SHAPES.items():
        for width in WIDTHS:
            found = [largest(preset, width, settings, (card - TAKEN) * SHARE * 2**30) for card in CARDS]
            batches = " | ".join(f"{batch}{'+' if batch == MOST else ''}" if batch else "-" for batch, _ in found)
            name = f"`{preset}`, width {width:g}"
            print(f"| {name} | {'x'.join(map(str, shape))} | {found[0][1] / 1e6:.2f} M | {batches} |", flush=True)


if __name__ == "__main__":
    main()
