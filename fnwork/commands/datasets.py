"""data: which data sets there are, and what is in them."""

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from engine.data import DataInfo
from engine.errors import InputError
from fnwork.commands.common import print_json, print_table, say, spec_file
from fnwork.datasets import DATASETS, DataSettings
from fnwork.datasets import info as data_info
from fnwork.text import did_you_mean, harmless, size

BUNDLED = "fashion-mini"
WHAT = {
    "fashion-mini": "6,000 train and 1,000 test images of Fashion-MNIST, 28x28; comes with fnwork",
    "mnist": "handwritten digits, 28x28; IDX files, plain or .gz, in the folder data.path",
    "fashion-mnist": "all of Fashion-MNIST, 28x28; IDX files, plain or .gz, in the folder data.path",
    "csv": "a table of your own: data.path is the file, data.target its column to predict",
}
IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def data(arguments: Namespace) -> int:
    return {"list": _list, "info": _info, "get": _get}[arguments.what](arguments)


def _list(arguments: Namespace) -> int:
    if arguments.name or arguments.path:
        raise InputError("fnwork data list takes no name and no path; fnwork data info NAME tells of one data set")
    if arguments.json:
        print_json([{"name": name, "what": WHAT.get(name, "")} for name in DATASETS])
    else:
        print_table(["data set", "what it is"], [[name, WHAT.get(name, "")] for name in DATASETS])
    return 0


def _name(arguments: Namespace) -> str:
    if not arguments.name:
        raise InputError(
            f"which data set? fnwork data {arguments.what} NAME, where NAME is {', '.join(DATASETS)} or a spec"
        )
    return arguments.name


def _info(arguments: Namespace) -> int:
    name = _name(arguments)
    if name in DATASETS:
        path = str(Path(arguments.path).expanduser().resolve()) if arguments.path else ""
        found = data_info(DataSettings(dataset=name, path=path))
    else:
        found = _info_of_spec(arguments)
    if arguments.json:
        print_json(asdict(found))
        return 0
    facts = {
        "data set": found.name,
        "task": found.task,
        "input": "x".join(map(str, found.input_shape)),
        "outputs": str(found.outputs),
        "classes": ", ".join(found.classes),
        "train": f"{found.train_samples:,} samples",
        "validation": f"{found.validation_samples:,} samples",
        "test": f"{found.test_samples:,} samples",
        "in memory": size(found.nbytes),
    }
    for key, value in facts.items():
        if value:
            print(f"{key:<12}{harmless(value)}")
    for note in found.notes:
        print(f"{'note':<12}{harmless(note)}")
    return 0


def _info_of_spec(arguments: Namespace) -> DataInfo:
    from fnwork import prepare, spec

    arguments.spec = arguments.name
    try:
        path = spec_file(arguments)
    except InputError as error:
        hint = did_you_mean(arguments.name, DATASETS)
        raise InputError(f"{error}; the data sets are {', '.join(DATASETS)}{hint}") from None
    read, _ = spec.read(path)
    return data_info(prepare.data_settings(read, path.parent), read.seed)


def _get(arguments: Namespace) -> int:
    """Nothing is downloaded: fnwork works without a network, so this tells what to put where."""
    name = _name(arguments)
    if arguments.json:
        if name not in DATASETS:
            raise InputError(f'there is no data set "{harmless(name)}"{did_you_mean(name, DATASETS)}')
        files = [] if name in (BUNDLED, "csv") else list(IDX_FILES)
        print_json({"name": name, "what": WHAT[name], "files": files})
    elif name == BUNDLED:
        say(f"{name} comes with fnwork; there is nothing to get")
    elif name == "csv":
        say('a table is your own file: set data.path = "FILE.csv" and data.target = "COLUMN" in a spec')
    elif name in DATASETS:
        say(
            "fnwork downloads nothing. Put these four files, plain or as .gz, into a folder and set data.path to it:"
            + "".join(f"\n  {file}" for file in IDX_FILES)
            + ("\nOn Debian and Ubuntu: apt install dataset-fashion-mnist" if name == "fashion-mnist" else "")
        )
    else:
        raise InputError(f'there is no data set "{harmless(name)}"{did_you_mean(name, DATASETS)}')
    return 0
