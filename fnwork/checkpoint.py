"""A run's checkpoint files: the engine's exact state, and what is needed to use the model without its data set."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.data import Preprocessing
from engine.errors import InputError
from engine.state import State
from fnwork import state_file
from fnwork.datasets.columns import Column
from fnwork.text import harmless

_KEY = "fnwork"


@dataclass(frozen=True)
class Context:
    """What a checkpoint holds beside the engine's state.

    `t` is the run's clock in seconds, `epoch` and `step` say how far it was, `best` holds the best epoch's metrics,
    `layers` are the network's tables, so that predicting needs neither the spec nor the data set.
    """

    t: float
    epoch: int
    step: int
    best: dict[str, Any]
    layers: list[dict[str, Any]]


def save(path: Path, state: State, context: Context) -> None:
    """Write a checkpoint; a reader sees the old one or the new one. OSError when there is no room."""
    state_file.save(path, State(state.arrays, {**state.values, _KEY: asdict(context)}))


def load(path: Path) -> tuple[State, Context]:
    """The state and its context; InputError for a file that is missing, broken or of another program."""
    state = state_file.load(path)
    try:
        context = Context(**state.values[_KEY])
    except (KeyError, TypeError):
        raise InputError(f"{harmless(path)}: not a checkpoint of a run") from None
    return State(state.arrays, {key: value for key, value in state.values.items() if key != _KEY}), context


def is_whole(path: Path) -> bool:
    """Whether a checkpoint can be read."""
    try:
        load(path)
    except InputError:
        return False
    return True


def preprocessing(state: State) -> Preprocessing:
    """How the inputs of the state's model are prepared; InputError where the values do not fit."""
    try:
        values = {name: _tuple(value) for name, value in state.values["preprocessing"].items()}
        columns = [Column(**{name: _tuple(value) for name, value in each.items()}) for each in values["columns"]]
        return Preprocessing(**{**values, "columns": tuple(columns)})
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"the preprocessing stored with the model is damaged: {error}") from None


def _tuple(value: Any) -> Any:
    """JSON knows no tuples."""
    return tuple(value) if isinstance(value, list) else value
