"""check, forecast, fit: what can be said about a spec before anything is trained."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict

from engine.errors import InputError
from fnwork.commands.common import print_json, print_table, say, spec_file
from fnwork.text import size

_BAR_WIDTH = 30


def check(arguments: Namespace) -> int:
    """Schema, data and network are looked at; nothing is trained and nothing is made."""
    from fnwork import prepare, spec
    from fnwork.spec_set import blaming

    path = spec_file(arguments)
    read, text = spec.read(path, arguments.set)
    with blaming(path, arguments.set):
        prepare.check(read, text, str(path), path.parent)
    return 0


def forecast(arguments: Namespace) -> int:
    from fnwork import prepare, spec
    from fnwork.layer_forecast import layer_forecasts
    from fnwork.spec_set import blaming

    path = spec_file(arguments)
    read, text = spec.read(path, arguments.set)
    with blaming(path, arguments.set):
        found = prepare.forecast(read, text, str(path), path.parent)
    fixed, by_layer = prepare.fixed(read, found), layer_forecasts(found)
    recomputed = found.recomputed_work / found.work
    if arguments.json:
        print_json(
            {
                "peak": found.peak,
                "budget": read.memory.budget_bytes,
                "parameters": found.parameters,
                "layers": [
                    {
                        "name": layer.name,
                        "parameters": layer.parameters,
                        "saved_bytes": layer.saved_bytes,
                        "output_shape": list(layer.output_shape),
                    }
                    for layer in by_layer
                ],
                "fixed": fixed,
                "recompute": recomputed,
                "operations": found.kernels,
                "timeline": [asdict(point) for point in found.timeline],
            }
        )
        return 0
    total = found.peak["total"]
    budget = read.memory.budget_bytes
    print_table(
        ["at the peak", "bytes", ""],
        [[name, size(count), _bar(count, total)] for name, count in found.peak.items()],
    )
    if budget:
        verdict = "fits in" if total <= budget else "is over"
        print(f"\nthe peak {verdict} the budget of {size(budget)}: {100 * total / budget:.0f}%")
    largest = max((layer.saved_bytes for layer in by_layer), default=0)
    print()
    print_table(
        ["layer", "output", "parameters", "kept for backward", ""],
        [
            [
                layer.name,
                "x".join(map(str, layer.output_shape)),
                f"{layer.parameters:,}",
                size(layer.saved_bytes),
                _bar(layer.saved_bytes, largest),
            ]
            for layer in by_layer
        ],
    )
    print(f"\n{found.parameters:,} parameters")
    if recomputed:
        print(f"{100 * recomputed:.0f}% of the work is done a second time, to save memory")
    if fixed is not None:
        print(
            f"beside the ledger, with these operations and whatever the network: {size(fixed)} "
            "of BLAS buffers and compiled code, or of a card's context"
        )
    return 0


def network(arguments: Namespace) -> int:
    """The layers of a spec's network."""
    from fnwork import layer_table, prepare, spec

    path = spec_file(arguments)
    read, text = spec.read(path)
    data = prepare.info(read, text, str(path), path.parent)
    forecast = prepare.forecast(read, text, str(path), path.parent, data)
    layers = layer_table.rows(prepare.premises(read, data), forecast)
    totals = {
        key: sum(getattr(layer, key) for layer in layers) for key in ("parameters", "multiply_adds", "saved_bytes")
    }
    if arguments.json:
        about = {"input_shape": data.input_shape, "micro_batch": read.train.micro_batch}
        print_json({**about, "layers": [asdict(layer) for layer in layers], **totals})
        return 0
    figures = [(layer.name, layer.type, layer.output_shape, asdict(layer)) for layer in layers]
    print_table(
        ["layer", "type", "output", "parameters", "multiply-adds", "kept for backward"],
        [
            [name, kind, "x".join(map(str, shape)), *_figures(values)]
            for name, kind, shape, values in [("input", "", data.input_shape, {}), *figures, ("total", "", (), totals)]
        ],
    )
    print(f"\nmultiply-adds: of one sample, forward; kept for backward: of a micro-batch of {read.train.micro_batch}")
    return 0


def _figures(values: Mapping[str, int]) -> list[str]:
    if not values:
        return ["", "", ""]
    return [f"{values['parameters']:,}", f"{values['multiply_adds']:,}", size(values["saved_bytes"])]


def _bar(part: int, whole: int) -> str:
    """A bar of eighths of a character; something that is not zero is never shown as nothing."""
    eighths = round(8 * _BAR_WIDTH * part / whole) if whole else 0
    full, rest = divmod(max(eighths, 1 if part else 0), 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def fit(arguments: Namespace) -> int:
    from fnwork import files, prepare, spec

    budget = spec.parse_size(arguments.budget)
    path = spec_file(arguments)
    read, text = spec.read(path)
    found = prepare.fit(read, text, str(path), path.parent, budget)
    rows = [
        [
            "->" if candidate == found.chosen else "",
            str(candidate.micro_batch),
            str(candidate.accumulate),
            candidate.mode,
            candidate.recompute,
            size(candidate.peak),
            f"{candidate.time:.2f}",
            "few samples for batch norm" if candidate.noisy else "",
        ]
        for candidate in found.frontier
    ]
    if arguments.json:
        chosen, frontier = found.chosen and asdict(found.chosen), [asdict(candidate) for candidate in found.frontier]
        print_json({"budget": budget, "chosen": chosen, "frontier": frontier})
    else:
        print_table(["", "micro_batch", "accumulate", "mode", "recompute", "peak", "time", ""], rows)
    if found.chosen is None:
        least = size(found.leanest.peak)
        raise InputError(f"nothing fits in {size(budget)}: the leanest takes {least}, at its peak in {found.obstacle}")
    if arguments.write:
        settings = [
            f"train.micro_batch={found.chosen.micro_batch}",
            f"train.accumulate={found.chosen.accumulate}",
            f'precision.mode="{found.chosen.mode}"',
            f'memory.recompute="{found.chosen.recompute}"',
            f'memory.budget="{arguments.budget}"',
        ]
        files.overwrite(path, spec.read(path, settings)[1].encode())
        say(f'wrote {path}: {found.chosen.settings()}, budget = "{arguments.budget}"')
    elif not arguments.json:
        print(f"\n{found.chosen.settings()}")
    return 0
