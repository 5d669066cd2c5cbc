"""The experiment spec: its schema, its defaults, and reading it with every error of a file reported at once.

pydantic checks the schema because it goes on after the first fault and names the place of each one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from engine.errors import InputError
from fnwork.spec_errors import Finding, KeyPath, Problem, SpecError, dotted, nearest, nearest_name, one_of, shown
from fnwork.spec_rules import check_combinations, check_model, readable_datasets
from fnwork.spec_size import parse_size
from fnwork.spec_text import Document, Places, is_set, parse_text, read_text

__all__ = ["Problem", "Spec", "SpecError", "flatten", "parse", "parse_size", "problems", "read", "resolved"]

NAME_RULE = 'a name of a-z 0-9 . _ - that begins with a letter or digit, such as "fashion-cnn"'


def _matching(test: Callable[[str], Any]) -> AfterValidator:
    def check(value: str) -> str:
        if not test(value):
            raise PydanticCustomError("form", "wrong form")
        return value

    return AfterValidator(check)


def _is_size(text: str) -> bool:
    try:
        return not text or parse_size(text) > 0
    except InputError:
        return False


def _is_augmentation(text: str) -> bool:
    from fnwork.augmentation import parse

    try:
        return bool(parse((text,)))
    except InputError:
        return False


def _form(pattern: str) -> AfterValidator:
    return _matching(re.compile(pattern, re.ASCII).fullmatch)


def _whole(default: int, low: int, high: int) -> Any:
    return Field(default, ge=low, le=high, description=f"a whole number from {low:,} to {high:,}")


def _number(default: float, low: float, high: float, above: bool = False) -> Any:
    limits: dict[str, Any] = {"gt" if above else "ge": low, "le": high, "allow_inf_nan": False}
    most = f"{high:,.0f}" if high.is_integer() else f"{high:g}"
    words = f"a number above {low:g}, at most {most}" if above else f"a number from {low:g} to {most}"
    return Field(default, **limits, description=words)


def _text(default: str, description: str = "a text") -> Any:
    return Field(default, description=description)


Name = Annotated[str, _form(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9_-])?")]
OneLine = Annotated[str, _matching(lambda text: text.isprintable() and len(text) <= 1000)]
Tag = Annotated[str, _matching(lambda text: text.strip() and text.isprintable() and len(text) <= 64)]
Augmentation = Annotated[str, _matching(_is_augmentation)]
Recompute = Annotated[str, _form(r"none|auto|every:[1-9]\d{0,3}")]
Size = Annotated[str, _matching(_is_size)]
DeviceName = Annotated[str, _form(r"auto|cpu|cuda(:\d{1,3})?|(GPU-|MIG-)[0-9A-Za-z/-]{4,80}")]
Fraction = Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)]
Dataset = Literal["fashion-mini", "mnist", "fashion-mnist", "cifar10", "image-folder", "csv", "npz", "text"]


def _list(kind: Any) -> Any:
    # TOML arrays arrive as lists; a tuple keeps the spec immutable.
    return Annotated[tuple[kind, ...], Field(strict=False)]


class Section(BaseModel):
    """One table of the spec: immutable, unknown keys and silent conversions refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class DataSpec(Section):
    """[data]: which data set, and how it is split, prepared and augmented."""

    dataset: Dataset = Field(description=one_of(get_args(Dataset)))
    path: OneLine = _text("", "a path, as one line of text")
    validation: Fraction | Literal["test"] = Field(0.1, description='a fraction above 0 and below 1, or "test"')
    image_size: int = _whole(128, 1, 4096)
    augment: _list(Augmentation) = Field(
        (),
        description='an array of "crop:N", "cutout:N" (N pixels), "flip", "flip:alternating", "jitter:X" (X up to 1) '
        'and "mixup:A" (A up to 10)',
    )
    target: str = _text("", "the name of a column, a text")
    task: Literal["classification", "regression"] = _text("classification", 'one of "classification", "regression"')


class ModelSpec(Section):
    """[model]: a preset with its options, or [[model.layers]] tables."""

    preset: str | None = Field(None, description="the name of a preset, a text")
    options: dict[str, Any] = Field({}, description="a table of the preset's options, such as { width = 1.0 }")
    layers: _list(Any) = Field((), description="[[model.layers]] tables")


class TrainSpec(Section):
    """[train]: how long, in which pieces, towards what and by which rule the weights are changed."""

    epochs: int = _whole(10, 1, 1_000_000)
    micro_batch: int = _whole(64, 1, 1_000_000)
    accumulate: int = _whole(1, 1, 1_000_000)
    loss: Literal["cross-entropy", "mse", "huber"] = _text("cross-entropy", 'one of "cross-entropy", "mse", "huber"')
    label_smoothing: float = _number(0.0, 0.0, 0.9)
    optimizer: Literal["sgd", "momentum", "nesterov", "adam", "adamw"] = _text(
        "adamw", 'one of "sgd", "momentum", "nesterov", "adam", "adamw"'
    )
    lr: float = _number(1e-3, 0.0, 1000.0, above=True)
    weight_decay: float = _number(0.01, 0.0, 100.0)
    schedule: Literal["constant", "linear", "cosine", "step"] = _text(
        "constant", 'one of "constant", "linear", "cosine", "step"'
    )
    warmup_epochs: float = _number(0.0, 0.0, 1_000_000.0)
    warmup_from: float = _number(0.0, 0.0, 1000.0)
    min_lr: float = _number(0.0, 0.0, 1000.0)
    clip_norm: float = _number(0.0, 0.0, 1e9)
    average_decay: float = _number(0.0, 0.0, 0.99999)
    early_stop: int = _whole(0, 0, 1_000_000)
    limit_windows: int = _whole(0, 0, 1_000_000_000)


class PrecisionSpec(Section):
    """[precision]: the number formats and the scale of the loss."""

    mode: Literal["fp32", "mixed"] = _text("fp32", 'one of "fp32", "mixed"')
    loss_scale: float = _number(65536.0, 1.0, 2.0**40)
    growth_interval: int = _whole(2000, 1, 1_000_000_000)
    keep_fp32: _list(str) = Field((), description="an array of layer names, each a text")


class MemorySpec(Section):
    """[memory]: how much may be used, and what is computed again to stay within it."""

    budget: Size = _text("", 'a size such as "6 GiB" or "512 MiB", or "" for what the device has')
    recompute: Recompute = _text("none", '"none", "auto" or "every:N" (N blocks)')

    @property
    def budget_bytes(self) -> int:
        """The budget in bytes; 0 stands for what the device has."""
        return parse_size(self.budget) if self.budget else 0


class DeviceSpec(Section):
    """[device]: where the run computes."""

    use: DeviceName = _text("auto", 'one of "auto", "cpu", "cuda", "cuda:N", or a device\'s UUID')


class Spec(Section):
    """One experiment, complete: every key has its value."""

    name: Name = _text("experiment", NAME_RULE)
    notes: str = _text("")
    tags: _list(Tag) = Field((), description="an array of short texts")
    seed: int = _whole(0, 0, 2**63 - 1)
    data: DataSpec
    model: ModelSpec = ModelSpec()
    train: TrainSpec = TrainSpec()
    precision: PrecisionSpec = PrecisionSpec()
    memory: MemorySpec = MemorySpec()
    device: DeviceSpec = DeviceSpec()


SECTIONS: dict[str, type[Section]] = {
    name: info.annotation
    for name, info in Spec.model_fields.items()
    if isinstance(info.annotation, type) and issubclass(info.annotation, Section)
}
WORDS = {  # the words between which a misspelt value is matched
    "data.validation": ("test",),
    "data.augment": ("flip", "flip:alternating", "crop:4", "cutout:8", "jitter:0.2", "mixup:0.2"),
    "memory.recompute": ("none", "auto", "every:2"),
    "device.use": ("auto", "cpu", "cuda", "cuda:0"),
} | {
    f"{section}.{key}": get_args(info.annotation)
    for section, model in SECTIONS.items()
    for key, info in model.model_fields.items()
    if get_args(info.annotation) and isinstance(get_args(info.annotation)[0], str)
}


def parse(text: str, file: str = "<spec>") -> Spec:
    """The spec a text describes; SpecError with all its problems. Without `name` the file's stem is the name."""
    spec, found = _check(parse_text(text), _name_of(file))
    if spec is None:
        raise SpecError(file, found)
    return spec


def problems(text: str) -> tuple[Problem, ...]:
    """Everything that is wrong with a text, in its order; empty for a good one. Never raises."""
    return tuple(sorted(set(_check(parse_text(text), "experiment")[1])))


def read(path: Path, settings: Sequence[str] = ()) -> tuple[Spec, str]:
    """The spec of a file and its text, after `settings` like "train.epochs=3" were written into both.

    InputError when the file cannot be read, SpecError with all problems otherwise.
    """
    text = read_text(path)
    document = parse_text(text)
    if not settings:
        return parse(text, str(path)), text
    from fnwork.spec_set import apply

    if document.problems:
        raise SpecError(str(path), document.problems)
    edited, given, faults = apply(text, settings)
    spec, found = _check(parse_text(edited), _name_of(str(path)), document.places, given)
    if spec is None or faults:
        raise SpecError(str(path), (*found, *faults))
    return spec, edited


def resolved(spec: Spec) -> dict[str, Any]:
    """Every value of the spec as plain tables, arrays and numbers, without what TOML cannot write (None)."""
    return spec.model_dump(mode="json", exclude_none=True)


def flatten(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables as dotted keys: {"train": {"lr": 1}} gives {"train.lr": 1}; arrays of tables are numbered."""
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        inner: Mapping[str, Any] | None = value if isinstance(value, Mapping) and value else None
        if isinstance(value, list | tuple) and any(isinstance(element, Mapping) for element in value):
            inner = {str(index): element for index, element in enumerate(value)}
        if inner is None:
            flat[key] = value
        else:
            flat |= {f"{key}.{below}": found for below, found in flatten(inner).items()}
    return flat


def _name_of(file: str) -> str:
    """A legal name from a file's stem."""
    name = re.sub(r"[^a-z0-9._-]+", "-", Path(file).stem.lower()).strip("-._")[:64].rstrip("-.")
    return name or "experiment"


def _check(
    document: Document, name: str, places: Places | None = None, given: Iterable[KeyPath] = ()
) -> tuple[Spec | None, tuple[Problem, ...]]:
    """The spec, or None, and all problems. `given` are the keys that came from --set, the rest has its `places`."""
    places = places or document.places
    given = set(given)
    data = document.data
    data.setdefault("name", name)
    if _value_at(data, ("data", "task")) == "regression" and isinstance(train := data.setdefault("train", {}), dict):
        train.setdefault("loss", "mse")
    spec, findings = None, []
    whole = not document.problems  # else what is missing may stand in a statement that could not be read
    try:
        spec = Spec.model_validate(data)
    except ValidationError as error:
        findings = list(_schema_findings(error, data, whole))
    meant = {path for where, at_key, _ in findings if at_key and (path := _meant(where))}
    values = _Values(data, {path for path, _, _ in findings}, meant)
    findings += check_model(values)
    if whole:
        findings += check_combinations(values)
    found = list(document.problems)
    for path, at_key, message in findings:
        place = places.key(path) if at_key else places.value(path)
        line, column = (0, 0) if is_set(path, given, places) else place
        found.append(Problem(line, column, dotted(path), message))
    return (None if found else spec), tuple(found)


def _value_at(data: Any, path: KeyPath) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _field_at(path: KeyPath) -> FieldInfo | None:
    model: Any = Spec
    for depth, part in enumerate(path):
        field = model.model_fields.get(part)
        if field is None or field.annotation not in SECTIONS.values():
            return field if depth == len(path) - 1 else None
        model = field.annotation
    return None


def _schema_findings(error: ValidationError, data: Mapping[str, Any], whole: bool) -> Iterator[Finding]:
    """pydantic's errors in our words; the branches of a union count as one error. Nothing is missing unless `whole`."""
    errors = error.errors(include_url=False, include_context=False)
    unknown = [item["loc"] for item in errors if item["type"] == "extra_forbidden"]
    for location in unknown:
        yield location, True, _unknown_key(location)
    meant = {_meant(location) for location in unknown}
    seen: set[KeyPath] = set()
    for item in errors:
        location = item["loc"]
        if item["type"] == "missing":
            if whole and location not in meant and ("data", "dataset") not in meant:
                message = f"this key is missing; expected {one_of(readable_datasets())}"
                yield ("data", "dataset"), True, message
        elif item["type"] != "extra_forbidden":
            depth = 2 if location[0] in SECTIONS else 1
            indexes = [part for part in location[depth:] if isinstance(part, int)][:1]
            location = (*location[:depth], *indexes)
            if location not in seen:
                seen.add(location)
                yield location, False, _wrong_value(location, _value_at(data, location))


def _right_names(location: KeyPath) -> list[str]:
    return list(SECTIONS[str(location[0])].model_fields if len(location) > 1 else Spec.model_fields)


def _meant(location: KeyPath) -> KeyPath | None:
    """The key that the unknown key at `location` was surely meant to be."""
    name = nearest_name(location[-1], _right_names(location))
    return (*location[:-1], name) if name else None


def _unknown_key(location: KeyPath) -> str:
    word, around = str(location[-1]), location[0] if len(location) > 1 else ""
    owners = [section for section, model in SECTIONS.items() if word in model.model_fields and section != around]
    if owners:
        return f"unknown key here; it belongs to [{owners[0]}]"
    if word in Spec.model_fields:
        return "unknown key here; it belongs to the top of the file, above the first [table]"
    right = _right_names(location)
    kind = "key" if around else "table or key"
    return f"unknown {kind}{nearest(word, right) or '; expected ' + one_of(right)}"


def _wrong_value(location: KeyPath, value: Any) -> str:
    key = tuple(part for part in location if isinstance(part, str))
    field = _field_at(key)
    if field is None:
        return f"expected a table, [{key[-1]}], got {shown(value)}"
    name = ".".join(str(part) for part in key)
    expected = one_of(readable_datasets()) if name == "data.dataset" else field.description
    message = f"expected {expected}, got {shown(value)}"
    if isinstance(value, float) and field.annotation is int and value.is_integer() and abs(value) < 1e15:
        return f"{message}; write {int(value)}"
    if field.annotation is str and isinstance(value, int | float):
        return f"{message}; a text stands in quotes: '\"{shown(value)}\"'"
    if isinstance(value, str):
        if field.annotation in (int, float) and re.fullmatch(r"[-+]?[\d_.]+(e[-+]?\d+)?", value.strip(), re.IGNORECASE):
            return f"{message}; write it without quotes"
        if name == "name" and (legal := _name_of(value)) != "experiment":
            return f'{message}; "{legal}" would do'
        if get_origin(field.annotation) is tuple and len(location) == len(key):
            return f"{message}; an array of one is [{shown(value)}]"
        return message if value.startswith("every:") else message + nearest(value, WORDS.get(name, ()))
    return message


class _Values:
    """The values of a spec that is not known to be whole: what is at fault already reads as None."""

    def __init__(self, data: Mapping[str, Any], faulty: set[KeyPath], meant: set[KeyPath]) -> None:
        self._data, self._faulty, self._meant = data, faulty, meant

    def __getitem__(self, key: str) -> Any:
        """The value of a dotted key, its default when it is not given, None when it is wrong or missing."""
        path = tuple(key.split("."))
        if any(path[: len(bad)] == bad or bad[: len(path)] == path for bad in self._faulty):
            return None
        found, field = _value_at(self._data, path), _field_at(path)
        return found if found is not None or field is None or field.is_required() else field.get_default()

    def __contains__(self, key: str) -> bool:
        return _value_at(self._data, tuple(key.split("."))) is not None

    def meant(self, key: str) -> bool:
        """Whether a misspelt key or table was surely meant for this key."""
        path = tuple(key.split("."))
        return any(path[:length] in self._meant for length in range(1, len(path) + 1))
