"""The experiments folder: specs, and the archive of runs: create, list, find, annotate, delete."""

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from engine.errors import InputError
from fnwork.files import FileLock, reason, replace
from fnwork.run_folder import LOCK, RESOLVED, SPEC, STATUS, RunReader, RunWriter, annotate, take_lock, without_none
from fnwork.text import did_you_mean, harmless

_RUN_FOLDER = re.compile(r"(\d{8}-\d{6})-(.+)")
_NAME_LENGTH = 80  # keeps the folder's name below what file systems allow
_STARTERS = (Path(__file__).parent / "starter", Path(__file__).parents[1] / "experiments" / "specs")


@dataclass(frozen=True)
class RunSummary:
    """One line of the list of runs; `results` are the metrics of the best epoch and the test part."""

    id: str
    name: str
    state: str
    spec: str
    started: float
    epoch: int
    epochs: int
    notes: str
    tags: tuple[str, ...]
    results: dict[str, float]
    path: Path
    seconds: float = 0.0  # trained so far
    peak_bytes: int = 0
    problem: str = ""  # what is damaged in the run's folder, if anything
    message: str = ""  # why it ended

    def as_dict(self) -> dict[str, Any]:
        """The run as `runs --json` shows it: every result is a key of its own."""
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "spec": self.spec,
            "started": self.started,
            "epoch": self.epoch,
            "epochs": self.epochs,
            "notes": self.notes,
            "tags": list(self.tags),
            "seconds": self.seconds,
            "peak_bytes": self.peak_bytes,
            "path": str(self.path),
            "problem": self.problem,
            "message": self.message,
        } | self.results


def spec_values(run: RunSummary) -> dict[str, Any]:
    """The keys of the run's spec, dotted, with every value it used."""
    from fnwork.spec import flatten  # slow to import, and few lists need it

    return flatten(RunReader(run.path).resolved())


def summary(folder: Path) -> RunSummary:
    """What is known about the run in `folder`; never raises for a damaged one."""
    reader = RunReader(folder)
    status = reader.status()
    state = reader.state(status)
    match = _RUN_FOLDER.fullmatch(folder.name)
    return RunSummary(
        id=folder.name,
        name=status.get("name", match[2] if match else folder.name),
        state=state,
        spec=status.get("spec", ""),
        started=status.get("started", 0.0),
        epoch=status.get("epoch", 0),
        epochs=status.get("epochs", 0),
        notes=status.get("notes", ""),
        tags=tuple(tag for tag in status.get("tags", []) if isinstance(tag, str)),
        results=numbers(status.get("results")),
        path=folder,
        seconds=status.get("seconds", 0.0),
        peak_bytes=status.get("peak_bytes", 0),
        problem=reader.problem,
        message=status.get("message", ""),
    )


def numbers(values: Any) -> dict[str, float]:
    """The entries of `values` that are numbers; those that are not finite are read back from their spelling."""
    if not isinstance(values, Mapping):
        return {}
    spelt = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
    plain = {key: spelt.get(value, value) if isinstance(value, str) else value for key, value in values.items()}
    return {
        key: value for key, value in plain.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }


class Archive:
    """The experiments folder `root`: `root/specs` and `root/runs`. Nothing outside it is ever changed."""

    def __init__(self, root: Path):
        self.root = Path(root)
        self.specs = self.root / "specs"
        self.runs = self.root / "runs"

    # --- specs ---

    def make(self) -> None:
        """Make the folder with the starter specs and their data in it; files that are there already stay."""
        starters = next(place for place in _STARTERS if place.is_dir())
        try:
            self.specs.mkdir(parents=True, exist_ok=True)
            for starter in sorted(path for path in starters.rglob("*") if path.is_file()):
                target = self.specs / starter.relative_to(starters)
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(starter, target)
        except OSError as error:
            raise InputError(f"cannot make {harmless(self.root)}: {reason(error)}") from error

    def spec_names(self) -> list[str]:
        """The names of the specs, without `.toml`."""
        return sorted(path.stem for path in self.specs.glob("*.toml"))

    def _spec_name(self, spec: str) -> str:
        """A spec of this folder goes by its name, whoever starts a run of it; any other by its path."""
        path = Path(spec)
        return path.stem if path.suffix == ".toml" and path.parent.resolve() == self.specs.resolve() else spec

    def find_spec(self, reference: str) -> Path:
        """The spec file that a path or the name of a spec means; InputError with the nearest name otherwise."""
        for path in (Path(reference), self.specs / reference, self.specs / f"{reference}.toml"):
            if path.is_file():
                return path
        if Path(reference).is_dir():
            raise InputError(f"{harmless(reference)}: this is a folder; expected a spec, a file that ends in .toml")
        names = self.spec_names()
        known = f"; the specs in {harmless(self.specs)} are: {', '.join(map(harmless, names)) or 'none'}"
        hint = did_you_mean(Path(reference).stem, names) or known
        raise InputError(f"{harmless(reference)}: no such spec file, and no spec of that name{hint}")

    # --- runs ---

    def create(
        self,
        name: str,
        spec_text: str,
        resolved: Mapping[str, Any],
        *,
        spec: str = "",
        notes: str = "",
        tags: Sequence[str] = (),
        epochs: int = 0,
    ) -> RunWriter:
        """A new run's folder, owned by this process. Two processes never get the same one: making it decides."""
        try:
            with ExitStack() as on_failure:
                folder = self._new_folder(name)
                on_failure.callback(shutil.rmtree, folder, ignore_errors=True)
                lock = FileLock(folder / LOCK)
                on_failure.callback(lock.release)
                lock.acquire()
                writer = RunWriter(folder, lock, {})
                on_failure.callback(writer.close)
                writer.status(
                    state="running",
                    name=name,
                    spec=self._spec_name(spec),
                    started=time.time(),
                    epoch=0,
                    epochs=epochs,
                    notes=notes,
                    tags=[*tags],
                    results={},
                )
                (folder / SPEC).write_bytes(spec_text.encode("utf-8", "surrogateescape"))
                replace(folder / RESOLVED, tomli_w.dumps(without_none(resolved)).encode("utf-8", "replace"))
                on_failure.pop_all()
        except OSError as error:
            raise InputError(f"cannot write in {harmless(self.runs)}: {reason(error)}") from error
        return writer

    def _new_folder(self, name: str) -> Path:
        self.runs.mkdir(parents=True, exist_ok=True)
        safe = re.sub(r"[^a-z0-9._-]", "-", name.lower())[:_NAME_LENGTH].rstrip(".") or "run"
        first = f"{time.strftime('%Y%m%d-%H%M%S')}-{safe}"
        number = 1
        while True:
            folder = self.runs / (first if number == 1 else f"{first}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                number += 1
            else:
                return folder

    def list(self) -> list[RunSummary]:
        """All runs, oldest first. A damaged run is in the list as such; what is no run is left out."""
        return [summary(self.runs / name) for name in self._ids()]

    def _ids(self) -> "list[str]":
        try:
            with os.scandir(self.runs) as entries:
                return sorted(entry.name for entry in entries if _is_run(entry))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(f"cannot read {harmless(self.runs)}: {reason(error)}") from error

    def find(self, reference: str) -> Path:
        """The folder of the run that `reference` means: a folder, an id, a name (the newest run of that name), a
        unique prefix of an id or of a name, or `last`. InputError names what is near.
        """
        ids = self._ids()
        if reference in ids:
            return self.runs / reference
        if reference == "last":
            if not ids:
                raise InputError(f"there are no runs in {harmless(self.runs)} yet")
            return self.runs / ids[-1]
        path = Path(reference)
        if path.name in ids and path.resolve().parent == self.runs.resolve():
            return path
        if (path / STATUS).is_file() or (path / SPEC).is_file():
            return path
        names = {run.id: run.name for run in self.list()}
        return self.runs / _by_name_or_prefix(reference, names)

    # --- what may be done to a run ---

    def note(self, run: str, text: str) -> None:
        """Replace the run's notes, while it runs too."""
        folder = self.find(run)
        annotate(folder, text, summary(folder).tags)

    def tag(self, run: str, tag: str) -> None:
        """Add a tag to the run, unless it has it; while it runs too."""
        folder = self.find(run)
        known = summary(folder)
        annotate(folder, known.notes, [*dict.fromkeys([*known.tags, tag])])

    def retag(self, run: str, tags: Sequence[str]) -> None:
        """Give the run these tags and no others; while it runs too."""
        folder = self.find(run)
        annotate(folder, summary(folder).notes, [*dict.fromkeys(tags)])

    def delete(self, run: str) -> None:
        """Remove a run that no process owns; InputError for one that lies outside this experiments folder."""
        folder = self.find(run)
        if folder.is_symlink() or folder.resolve().parent != self.runs.resolve():
            raise InputError(f"{harmless(folder)} is not a folder in {harmless(self.runs)}; it is left as it is")
        take_lock(folder, RunReader(folder).status()).release()
        doomed = folder.with_name(f".deleted-{folder.resolve().name}")
        try:
            os.replace(folder, doomed)  # in no list while its files go, one by one
            shutil.rmtree(doomed)
        except OSError as error:
            with suppress(OSError):
                os.replace(doomed, folder)
            raise InputError(f"cannot delete {harmless(folder)}: {reason(error)}") from error


def _is_run(entry: "os.DirEntry[str]") -> bool:
    if entry.name.startswith(".") or not entry.is_dir():
        return False
    return bool(_RUN_FOLDER.fullmatch(entry.name)) or os.path.isfile(os.path.join(entry.path, STATUS))


def _by_name_or_prefix(reference: str, names: Mapping[str, str]) -> str:
    """The id that `reference` means among `names` (id -> name, oldest first)."""
    if reference in names.values():
        return [run for run, name in names.items() if name == reference][-1]
    begun = [run for run in names if run.startswith(reference)] if reference else []
    named = {name for name in names.values() if reference and name.startswith(reference)}
    if len(begun) == 1 and not named:
        return begun[0]
    if len(named) == 1 and not begun:
        return _by_name_or_prefix(named.pop(), names)
    shown = harmless(reference)
    if begun or named:
        several = ", ".join(map(harmless, [*begun, *sorted(named)][:8]))
        raise InputError(f"{shown} means several runs: {several}, ...; write more of the one you mean")
    hint = did_you_mean(reference, [*names, *names.values()]) or "; see: fnwork runs"
    raise InputError(f"{shown}: no such run{harmless(hint)}")
