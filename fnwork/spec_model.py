"""Checks of [model] against what the engine has: layer types, presets, and the arguments each of them takes."""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fnwork.spec_errors import Finding, KeyPath, nearest, one_of, shown

LARGEST_ARGUMENT = 100_000  # no width, size or stride of a network that fits one machine comes near
MOST_LAYERS = 1000
_ARRAY = f"an array of whole numbers from 1 to {LARGEST_ARGUMENT:,}, such as [32, 64, 128]"


@dataclass(frozen=True)
class Argument:
    """One keyword argument of a layer or preset: the types it takes, and whether it must be given."""

    types: tuple[Any, ...]
    choices: tuple[str, ...]
    required: bool

    def expectation(self, value: Any = None) -> str:
        """What is expected, in words; the limit is named where `value` is over it."""
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_ARGUMENT:
            return f"a whole number of at most {LARGEST_ARGUMENT:,}"
        if self.choices:
            return one_of(self.choices)
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", tuple: _ARRAY}
        return " or ".join(words[kind] for kind in self.types if kind in words)

    def accepts(self, value: Any) -> bool:
        if isinstance(value, bool):
            return bool in self.types
        if isinstance(value, int):
            return (int in self.types or float in self.types) and abs(value) <= LARGEST_ARGUMENT
        if isinstance(value, float):
            return float in self.types and math.isfinite(value)
        if isinstance(value, list):
            whole = all(isinstance(each, int) and not isinstance(each, bool) for each in value)
            return tuple in self.types and bool(value) and whole and min(value) >= 1 and max(value) <= LARGEST_ARGUMENT
        if isinstance(value, str):
            return value in self.choices if self.choices else str in self.types
        return False


def arguments_of(target: Callable[..., Any]) -> dict[str, Argument]:
    """The keyword arguments of a layer class or preset function, by name, as their annotations say."""
    annotated = target.__init__ if inspect.isclass(target) else target
    hints = typing.get_type_hints(annotated)
    found = {}
    for name, parameter in inspect.signature(target).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kinds, choices = _alternatives(hints.get(name, parameter.annotation))
        found[name] = Argument(kinds, choices, parameter.default is parameter.empty)
    return found


def _alternatives(annotation: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return (str,), typing.get_args(annotation)
    if origin is tuple:
        return (tuple,), ()
    if origin in (typing.Union, types.UnionType):
        parts = [_alternatives(part) for part in typing.get_args(annotation)]
        return tuple(kind for kinds, _ in parts for kind in kinds), tuple(word for _, words in parts for word in words)
    return (annotation,), ()


def check_layers(layers: list[Any]) -> Iterator[Finding]:
    """What is wrong with `[[model.layers]]` tables, each by itself; whether they fit together needs the data."""
    from engine.errors import InputError
    from engine.layers import LAYERS

    if not layers:
        yield ("model", "layers"), False, "expected at least one layer table, got an empty array"
    if len(layers) > MOST_LAYERS:
        yield ("model", "layers"), True, f"expected at most {MOST_LAYERS:,} layers, got {len(layers):,}"
        return
    names = set()
    for index, layer in enumerate(layers):
        place: KeyPath = ("model", "layers", index)
        if not isinstance(layer, dict):
            yield place, False, f'expected a layer table, such as {{ type = "linear", out = 10 }}, got {shown(layer)}'
            continue
        if "type" not in layer:
            yield place, True, f"this layer has no type; expected {one_of(sorted(LAYERS))}"
            continue
        kind = layer["type"]
        if not isinstance(kind, str) or kind not in LAYERS:
            message = f"expected {one_of(sorted(LAYERS))}, got {shown(kind)}{nearest(kind, LAYERS)}"
            yield (*place, "type"), False, message
            continue
        given = {key: value for key, value in layer.items() if key not in ("type", "name")}
        name = layer.get("name", f"layer{index}")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            yield (*place, "name"), False, f"expected a name of letters, digits, _ and -, got {shown(name)}"
        elif name in names:
            yield (*place, "name"), False, f"the name {shown(name)} is given to an earlier layer already"
        names.add(str(name))
        faults = list(_check_arguments(given, arguments_of(LAYERS[kind]), place, f"a {kind} layer"))
        yield from faults
        if not faults:
            try:
                LAYERS[kind](**given)
            except InputError as error:
                yield place, True, str(error)


def check_preset(preset: str, options: Mapping[str, Any]) -> Iterator[Finding]:
    """What is wrong with a preset's name and its options."""
    from engine.zoo import PRESETS

    if preset not in PRESETS:
        message = f"expected {one_of(sorted(PRESETS))}, got {shown(preset)}{nearest(preset, PRESETS)}"
        yield ("model", "preset"), False, message
        return
    place: KeyPath = ("model", "options")
    faults = list(_check_arguments(options, arguments_of(PRESETS[preset]), place, f"the preset {preset}"))
    for key, value in options.items():
        least_is_0 = key in ("dropout", "depth")
        if not faults and isinstance(value, int | float) and not (value > 0 or (least_is_0 and value == 0)):
            least = "from" if least_is_0 else "above"
            faults.append(((*place, key), False, f"expected a number {least} 0, got {shown(value)}"))
    yield from faults
    if not faults:
        for _, _, message in check_layers(PRESETS[preset](**options)):
            yield place, False, f"they make a network that cannot be: {message}"
            break


def _check_arguments(
    given: Mapping[str, Any], arguments: Mapping[str, Argument], place: KeyPath, owner: str
) -> Iterator[Finding]:
    for key, value in given.items():
        if key not in arguments:
            has = ", ".join(arguments) or "none"
            yield (*place, key), True, f"{owner} has no such option (it has: {has}){nearest(key, arguments)}"
        elif not arguments[key].accepts(value):
            expected, hint = arguments[key].expectation(value), nearest(value, arguments[key].choices)
            yield (*place, key), False, f"expected {expected}, got {shown(value)}{hint}"
    for key, argument in arguments.items():
        if argument.required and key not in given:
            yield place, True, f"{owner} needs {key} = {argument.expectation()}"
