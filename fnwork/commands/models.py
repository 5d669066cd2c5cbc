"""test, predict, export: a run's best weights put to use."""

import csv
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import InputError
from fnwork.cli import DONE, WRONG_INPUT
from fnwork.commands.common import archive_of, figure, print_json, print_table, run_folder, say
from fnwork.text import harmless

if TYPE_CHECKING:
    from engine.data import Preprocessing
    from fnwork.inputs import Inputs
    from fnwork.model import TrainedModel

Prediction = tuple[str, np.ndarray]  # an input's name, and the probability of each class or the one value

_MOST_LIKELY = 3


def test(arguments: Namespace) -> int:
    from fnwork import model, scores
    from fnwork.commands import confusion
    from fnwork.commands.reading import Reading

    folder = run_folder(arguments)
    with Reading() as reading:
        tested = model.test(folder, reading)
    matrix, classes = tested.confusion, tested.classes
    for note in tested.notes:
        say(f"note: {note}")
    if arguments.json:
        found = {}
        if matrix is not None:
            by_class = [asdict(score) for score in scores.class_scores(matrix, classes)]
            found = {"classes": by_class, "confusion": matrix.tolist()}
        print_json(tested.results | found)
        return DONE
    rows = [[key, figure(key, value)] for key, value in tested.results.items()]
    print_table(["result", f"test part, {tested.target}" if tested.target else "test part"], rows)
    if matrix is not None:
        print("", *confusion.lines(matrix, classes, shutil.get_terminal_size().columns), sep="\n")
    return DONE


def predict(arguments: Namespace) -> int:
    from fnwork import model
    from fnwork.inputs import Inputs

    if arguments.json and arguments.csv:
        raise InputError("--json and --csv: stdout holds one of them; leave the other out")
    trained = model.load(run_folder(arguments))
    inputs = Inputs(arguments.files, trained.preprocessing)
    show = _show_json if arguments.json else _show_csv if arguments.csv else _show_table
    show(_predictions(trained, inputs), trained.preprocessing)
    for remark in (*(f"note: {note}" for note in inputs.notes), *inputs.faults):
        say(remark)
    return WRONG_INPUT if inputs.faults else DONE


def _predictions(trained: "TrainedModel", inputs: "Inputs") -> Iterator[Prediction]:
    """One prediction an input, as they are read; InputError where none can be read."""
    count = 0
    for piece in inputs:
        count += len(piece.names)
        yield from zip(piece.names, trained.predict(piece.values), strict=True)
    if not count:
        raise InputError("\n".join(inputs.faults))


def _show_json(predictions: Iterable[Prediction], preprocessing: "Preprocessing") -> None:
    classes = preprocessing.classes

    def about(outputs: np.ndarray) -> dict[str, Any]:
        if not classes:
            return {"value": float(outputs[0])}
        order = _likeliest_first(outputs)
        probabilities = {classes[place]: float(outputs[place]) for place in order}
        return {"class": classes[order[0]], "probability": float(outputs[order[0]]), "probabilities": probabilities}

    print_json([{"input": name} | about(outputs) for name, outputs in predictions])


def _show_csv(predictions: Iterable[Prediction], preprocessing: "Preprocessing") -> None:
    """Row by row, so that any number of inputs takes no more memory than a few."""
    classes = preprocessing.classes
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for place, (name, outputs) in enumerate(predictions):
        if place == 0:
            heads = ["class", "probability", *(f"p({each})" for each in classes)] if classes else [preprocessing.target]
            writer.writerow(map(harmless, ["input", *heads]))
        values = [f"{value:.6g}" for value in outputs]
        if classes:
            best = _likeliest_first(outputs)[0]
            values = [classes[best], values[best], *values]
        writer.writerow(map(harmless, [name, *values]))


def _show_table(predictions: Iterable[Prediction], preprocessing: "Preprocessing") -> None:
    classes = preprocessing.classes
    if not classes:
        rows = [[name, f"{outputs[0]:.6g}"] for name, outputs in predictions]
        print_table(["input", preprocessing.target or "value"], rows)
        return
    rows = []
    for name, outputs in predictions:
        first, *others = _likeliest_first(outputs)[:_MOST_LIKELY]
        also = ", ".join(f"{_visible(classes[place])} {100 * outputs[place]:.1f}%" for place in others)
        rows.append([name, _visible(classes[first]), f"{100 * outputs[first]:.1f}%", also])
    print_table(["input", "class", "probability", "then"], rows)


def _visible(name: str) -> str:
    """A class's name; in quotes where it is nothing but blanks, as a character of a text can be."""
    return name if name.strip() else repr(name)


def _likeliest_first(probabilities: np.ndarray) -> np.ndarray:
    return np.argsort(-probabilities, kind="stable")


def export(arguments: Namespace) -> int:
    from fnwork import export as exporting
    from fnwork import files

    folder = run_folder(arguments)
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
