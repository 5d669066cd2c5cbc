"""data: which data sets there are, what is in them, and getting them."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from engine.data import DataSet
from engine.errors import InputError
from fnwork.commands.common import print_json, print_table, say, spec_file
from fnwork.commands.reading import Reading
from fnwork.datasets import DATASETS, DataSettings, load
from fnwork.datasets.facts import Facts, facts
from fnwork.datasets.kinds import KINDS
from fnwork.text import did_you_mean, harmless, size

_MOST_CLASSES = 20
_PICTURES = 8


def data(arguments: Namespace) -> int:
    if arguments.what != "get" and arguments.mirror:
        raise InputError("--mirror is where `fnwork data get` downloads from")
    return {"list": _list, "info": _info, "get": _get}[arguments.what](arguments)


def _list(arguments: Namespace) -> int:
    if arguments.name or arguments.path:
        raise InputError("fnwork data list takes no name and no path; fnwork data info NAME tells of one data set")
    if arguments.json:
        print_json([{"name": name, "what": kind.what} for name, kind in KINDS.items()])
    else:
        print_table(["data set", "what it is"], [[name, kind.what] for name, kind in KINDS.items()])
    return 0


def _name(arguments: Namespace) -> str:
    if not arguments.name:
        from fnwork.datasets import download

        known = ", ".join(download.SOURCES if arguments.what == "get" else [*DATASETS, "or a spec"])
        raise InputError(f"which data set? fnwork data {arguments.what} NAME, where NAME is {known}")
    return arguments.name


# --- info ---


def _info(arguments: Namespace) -> int:
    name = _name(arguments)
    with Reading() as reading:
        if name in DATASETS:
            path = str(Path(arguments.path).expanduser().resolve()) if arguments.path else ""
            found = load(DataSettings(dataset=name, path=path), 0, reading)
        else:
            found = _of_spec(arguments, reading)
        about = facts(found, reading)
    if arguments.json:
        values = asdict(about)
        print_json(values.pop("info") | values)
        return 0
    for key, value in _lines(about):
        print(f"{key:<12}{harmless(value)}".rstrip())
    if about.class_counts:
        _print_classes(about)
    _print_pictures(found)
    return 0


def _of_spec(arguments: Namespace, reading: Reading) -> DataSet:
    from fnwork import prepare, spec

    if arguments.path:
        raise InputError("--path goes with the name of a data set; a spec says itself where its data lie (data.path)")
    arguments.spec = arguments.name
    try:
        path = spec_file(arguments)
    except InputError as error:
        hint = did_you_mean(arguments.name, DATASETS)
        raise InputError(f"{error}; the data sets are {', '.join(DATASETS)}{hint}") from None
    read, text = spec.read(path)
    return prepare.load(read, text, str(path), path.parent, reading)


def _lines(about: Facts) -> Iterator[tuple[str, str]]:
    """What is told in one line each."""
    info, duplicates = about.info, about.duplicates or {}
    yield "data set", info.name
    yield "task", info.task
    yield "input", "x".join(map(str, info.input_shape))
    yield "outputs", str(info.outputs)
    for part, count in (("train", info.train_samples), ("validation", info.validation_samples)):
        yield part, f"{count:,} samples"
    yield "test", f"{info.test_samples:,} samples" if info.test_samples else "none"
    yield "in memory", size(info.nbytes)
    if about.mean:
        yield "mean", "  ".join(f"{value:.1f}" for value in about.mean) + "  of 255"
        yield "deviation", "  ".join(f"{value:.1f}" for value in about.deviation)
    for column in about.columns[:_MOST_CLASSES]:
        of = f"{len(column.categories)} categories" if column.categories else f"{column.mean:.6g} ± {column.std:.6g}"
        yield "column", f"{column.name}: {of}{', some missing' if column.has_missing else ''}"
    if len(about.columns) > _MOST_CLASSES:
        yield "columns", f"and {len(about.columns) - _MOST_CLASSES:,} more"
    for part, count in duplicates.items():
        if count:
            yield (
                "duplicates",
                f"{count:,} samples of {part} have the same input as {_EARLIER.get(part, 'one of train')}",
            )
    if about.duplicates is not None and not any(duplicates.values()):
        yield "duplicates", "none"
    for note in info.notes:
        yield "note", note


_EARLIER = {"train": "another one there"}


def _print_classes(about: Facts) -> None:
    """The classes with their counts, the largest first where there are too many of them."""
    train = about.class_counts["train"]
    shown = list(train)
    if len(shown) > _MOST_CLASSES:
        shown = sorted(train, key=lambda name: -train[name])[:_MOST_CLASSES]
    print()
    print_table(
        ["class", *about.class_counts],
        [[name, *(f"{counts[name]:,}" for counts in about.class_counts.values())] for name in shown],
    )
    if len(train) > len(shown):
        print(f"and {len(train) - len(shown):,} more classes")
    if about.imbalance is None:
        print("some classes have no sample to train on")
    elif about.imbalance >= 1.05:
        print(f"the largest class has {about.imbalance:.1f} times the samples of the smallest one")


def _print_pictures(found: DataSet) -> None:
    """The first train picture of each class, or the first few."""
    if len(found.input_shape) != 3:
        return
    from rich.console import Console

    from fnwork.commands import thumbnails

    targets = found.train.targets
    places = (
        np.unique(targets, return_index=True)[1][:_PICTURES] if found.classes else np.arange(len(targets))[:_PICTURES]
    )
    titles = [found.classes[targets[place]] if found.classes else f"{targets[place, 0]:.3g}" for place in places]
    print(flush=True)
    thumbnails.show([found.train.inputs[place] for place in places], titles, Console(file=sys.stdout))


# --- get ---


def _get(arguments: Namespace) -> int:
    from fnwork.datasets import download

    name = _name(arguments)
    if name not in DATASETS:
        hint = did_you_mean(name, DATASETS) or f"; there are: {', '.join(download.SOURCES)}"
        raise InputError(f'there is no data set "{harmless(name)}"{hint}')
    files: tuple[Path, ...] = ()
    if name in download.SOURCES:
        folder = Path(arguments.path).expanduser() if arguments.path else None
        with Reading(size) as reading:
            files = download.get(name, folder, arguments.mirror, reading)
        where = f'data.path = "{folder}"' if folder else "no data.path"
        say(f'{name} is in {files[0].parent}; a spec with data.dataset = "{name}" needs {where}')
    elif KINDS[name].path == "needed":
        say(f"there is nothing to get: {name} is {KINDS[name].what}")
    else:
        say(f"{name} comes with {'fnwork' if name == 'fashion-mini' else 'Python'}; there is nothing to get")
    if arguments.json:
        print_json({"name": name, "what": KINDS[name].what, "files": [str(file) for file in files]})
    else:
        for file in files:
            print(harmless(file))
    return 0
