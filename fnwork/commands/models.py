"""test, predict, export: a run's best weights put to use."""

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np

from engine.errors import InputError
from fnwork.cli import DONE, WRONG_INPUT
from fnwork.commands.common import archive_of, figure, print_json, print_table, run_folder, say
from fnwork.text import harmless

_MOST_LIKELY = 3


def test(arguments: Namespace) -> int:
    from fnwork import model

    results = model.test(run_folder(arguments))
    if arguments.json:
        print_json(results)
    else:
        print_table(["result", "test part"], [[key, figure(key, value)] for key, value in results.items()])
    return 0


def predict(arguments: Namespace) -> int:
    from fnwork import inputs, model

    trained = model.load(run_folder(arguments))
    read = inputs.read(arguments.files, trained.preprocessing)
    for note in dict.fromkeys(read.notes):
        say(f"note: {note}")
    outputs = trained.predict(read.values)
    if trained.preprocessing.task == "regression":
        _print_values(arguments, read.names, outputs, trained.preprocessing.target)
    else:
        _print_classes(arguments, read.names, outputs, trained.preprocessing.classes)
    for fault in read.faults:
        say(fault)
    return WRONG_INPUT if read.faults else DONE


def _print_values(arguments: Namespace, names: tuple[str, ...], outputs: np.ndarray, target: str) -> None:
    values = outputs.reshape(len(names), -1)[:, 0].tolist()
    if arguments.json:
        print_json([{"input": name, "value": value} for name, value in zip(names, values, strict=True)])
    else:
        rows = [[name, f"{value:.6g}"] for name, value in zip(names, values, strict=True)]
        print_table(["input", target or "value"], rows)


def _print_classes(arguments: Namespace, names: tuple[str, ...], outputs: np.ndarray, classes: tuple[str, ...]) -> None:
    order = np.argsort(-outputs, axis=1, kind="stable")
    if arguments.json:
        print_json(
            [
                {
                    "input": name,
                    "class": classes[best[0]],
                    "probability": float(row[best[0]]),
                    "probabilities": {classes[place]: float(row[place]) for place in best},
                }
                for name, row, best in zip(names, outputs, order, strict=True)
            ]
        )
        return
    rows = []
    for name, row, best in zip(names, outputs, order, strict=True):
        first, *others = best[: min(_MOST_LIKELY, len(classes))]
        also = ", ".join(f"{classes[place]} {100 * row[place]:.1f}%" for place in others)
        rows.append([name, classes[first], f"{100 * row[first]:.1f}%", also])
    print_table(["input", "class", "probability", "then"], rows)


def export(arguments: Namespace) -> int:
    from fnwork import export as exporting
    from fnwork import files

    folder = run_folder(arguments)
    if arguments.to == "onnx":
        raise InputError(
            "export to ONNX comes with a later version; this one writes csv (curves) and safetensors (weights)"
        )
    if arguments.output == "":
        raise InputError("-o: expected a file's name, or - for stdout")
    output = Path(arguments.output or f"{folder.resolve().name}.{arguments.to}")
    runs = archive_of(arguments).runs.resolve()
    if {runs, folder.resolve()} & {output.resolve(), *output.resolve().parents}:
        raise InputError(f"{harmless(output)} lies in the archive of runs, which is left as it is; name another place")
    content = {"csv": exporting.curves, "safetensors": exporting.weights}[arguments.to](folder)
    if arguments.output == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return 0
    if output.is_file():
        say(f"note: {output} was there, and is replaced")
    regular = not output.exists() or (output.is_file() and not output.is_symlink())
    files.overwrite(output, content)
    if regular:
        print(harmless(output))
    return 0
