"""One run's folder: what its owner writes and what everybody else reads.

The folder is the only bus between processes. Its owner is the one process that holds `lock`; `status.json` names that
process, so that readers can tell a living run from one whose process is gone.
"""

import json
import math
import os
import platform
import threading
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import tomli_w

from engine.errors import InputError
from fnwork.files import FileLock, read_bytes, reason, replace
from fnwork.run_status import wrong_keys
from fnwork.text import harmless

SPEC, RESOLVED, EVENTS, STATUS, RECORD = "spec.toml", "resolved.toml", "events.jsonl", "status.json", "record.toml"
BEST, LAST = "best.safetensors", "last.safetensors"
LOCK, REQUEST, ANNOTATIONS = "lock", "request", "annotations.json"
ALIVE_STATES = ("running", "paused")
ENDED_STATES = ("finished", "early-stopped", "stopped", "failed", "interrupted")
REQUESTS = ("stop", "pause", "continue")

_FLUSH_SECONDS = 0.5
_LINES_AT_ONCE = 500  # no other thread runs meanwhile, so these take a few milliseconds
_OTHER_HOST_SECONDS = 60.0  # a heartbeat younger than this proves life on a machine whose processes we cannot see
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


# --- who owns a run -------------------------------------------------------------------------------------------------


@cache
def this_process() -> dict[str, Any]:
    """How `status.json` names the process that owns a run."""
    return {"pid": os.getpid(), "process_started": psutil.Process().create_time(), "host": platform.node()}


def owner_is_alive(status: Mapping[str, Any]) -> bool:
    """Whether the process that `status` names still runs."""
    try:
        if status["host"] != platform.node():
            return time.time() - status["heartbeat"] < _OTHER_HOST_SECONDS
        process = psutil.Process(status["pid"])
        # Linux derives the start from a boot time that moves by a second when the clock is set.
        same = abs(process.create_time() - status["process_started"]) < 2
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.AccessDenied:
        return True
    except (psutil.Error, KeyError, TypeError, ValueError, OverflowError):
        return False


def request(folder: Path, word: str) -> None:
    """Ask the process that owns the run to "stop", "pause" or "continue"; it looks about four times a second."""
    try:
        replace(folder / REQUEST, word.encode())
    except OSError as error:
        raise InputError(f"cannot ask {harmless(folder.name)} to {word}: {reason(error)}") from error


def annotate(folder: Path, notes: str, tags: Sequence[str]) -> None:
    """Keep a person's notes and tags of a run, in a file that its owner never writes: so they may come at any time."""
    text = json.dumps({"notes": notes, "tags": [*tags]}, ensure_ascii=False, indent=1)
    try:
        replace(folder / ANNOTATIONS, text.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(f"cannot write in {harmless(folder)}: {reason(error)}") from error


# --- events ---------------------------------------------------------------------------------------------------------


def event_line(event: Mapping[str, Any]) -> bytes:
    """One event as a line of strict JSON; values that are not finite become "NaN", "Infinity" or "-Infinity"."""
    try:
        text = json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_spell(event), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _spell(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _spell(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spell(item) for item in value]
    return value


def _unspell(value: Any) -> Any:
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: _unspell(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unspell(item) for item in value]
    return value


def parse_event(line: bytes) -> dict[str, Any] | None:
    """The event of one line, or None when the line is not one."""
    try:
        return _checked(json.loads(line), line)
    except (ValueError, RecursionError):
        return None


def _parse_events(lines: Sequence[bytes]) -> list[dict[str, Any] | None]:
    """`parse_event` of several lines at once, which is much faster than one after the other."""
    try:
        values = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        values = ()
    if len(values) != len(lines):  # a line that is no event is among them
        return [parse_event(line) for line in lines]
    return [_checked(value, line) for value, line in zip(values, lines, strict=True)]


def _checked(event: Any, line: bytes) -> dict[str, Any] | None:
    if type(event) is not dict or type(event.get("kind")) is not str or type(event.get("t")) not in (int, float):
        return None
    return _unspell(event) if b'"NaN"' in line or b'Infinity"' in line else event


def current(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events without those that a resume took back.

    A resumed run goes on from its checkpoint, and so does its clock: what the crashed process had written after that
    moment (a larger `t` than the `resume` event's) happens once more and no longer counts.
    """
    kept: list[dict[str, Any]] = []
    for event in events:
        if event["kind"] == "resume":
            while kept and kept[-1]["t"] > event["t"]:
                kept.pop()
        kept.append(event)
    return kept


class EventTail:
    """Reads a run's events as they are appended; `bad` counts the lines that were no events."""

    def __init__(self, folder: Path):
        self._path = Path(folder) / EVENTS
        self._offset = 0
        self.bad = 0

    def read(self, most: int = -1) -> list[dict[str, Any]]:
        """The whole lines that are new since the last call, of about `most` bytes where that is given; a torn last
        line is left for later.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                block = file.read(most)
                if most > 0:
                    block += file.readline()
        except OSError:
            return []
        end = block.rfind(b"\n") + 1
        self._offset += end
        lines = [line for line in block[:end].split(b"\n") if line.strip()]
        events = []
        for start in range(0, len(lines), _LINES_AT_ONCE):
            events += _parse_events(lines[start : start + _LINES_AT_ONCE])
        whole = [event for event in events if event is not None]
        self.bad += len(events) - len(whole)
        return whole


# --- the reader -----------------------------------------------------------------------------------------------------


class RunReader:
    """Any process's view of a run. Damaged files are told by `problem`, and read as empty."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.problem = ""

    def status(self) -> dict[str, Any]:
        """What `status.json` holds, with the person's notes and tags; what is of the wrong kind is left out."""
        status = self._json(STATUS)
        if not (self.folder / ANNOTATIONS).is_file():
            return status
        return status | {key: value for key, value in self._json(ANNOTATIONS).items() if key in ("notes", "tags")}

    def state(self, status: Mapping[str, Any] | None = None) -> str:
        """One of the seven states; `interrupted` when the owner is gone, whatever the file says."""
        status = self.status() if status is None else status
        state = status.get("state")
        if state in ALIVE_STATES:
            return state if owner_is_alive(status) else "interrupted"
        if state in ENDED_STATES:
            return state
        reached = (self.record() or {}).get("reason")
        return reached if reached in ENDED_STATES else "interrupted"

    def spec_text(self) -> str:
        """The spec as its author wrote it."""
        try:
            return read_bytes(self.folder / SPEC).decode("utf-8", "replace")
        except OSError as error:
            raise InputError(f"{harmless(self.folder / SPEC)}: {reason(error)}") from error

    def resolved(self) -> dict[str, Any]:
        return self._toml(RESOLVED) or {}

    def record(self) -> dict[str, Any] | None:
        """What was written at the run's end, or None before that."""
        return self._toml(RECORD) if (self.folder / RECORD).is_file() else None

    def events(self) -> list[dict[str, Any]]:
        """All events that count, in order."""
        return current(EventTail(self.folder).read())

    def _json(self, name: str) -> dict[str, Any]:
        try:
            values = json.loads(read_bytes(self.folder / name))
        except FileNotFoundError:
            return self._damaged(name, "missing")
        except OSError as error:
            return self._damaged(name, reason(error))
        except (ValueError, RecursionError):
            return self._damaged(name, "damaged")
        if not isinstance(values, dict):
            return self._damaged(name, "damaged")
        if wrong := wrong_keys(values):
            self._damaged(name, f"damaged: {', '.join(wrong)}")
        return {key: value for key, value in values.items() if key not in wrong}

    def _toml(self, name: str) -> dict[str, Any] | None:
        try:
            return tomllib.loads(read_bytes(self.folder / name).decode("utf-8"))
        except OSError as error:
            self._damaged(name, reason(error))
        except ValueError:
            self._damaged(name, "damaged")
        return None

    def _damaged(self, name: str, why: str) -> dict[str, Any]:
        self.problem = f"{name}: {why}"
        return {}


# --- the writer -----------------------------------------------------------------------------------------------------


class RunWriter:
    """The owner's hand on a run's folder; safe to call from several threads. Every method may raise OSError.

    Made by `Archive.create` for a new run and by `RunWriter.own` for one that is there already.
    """

    def __init__(self, folder: Path, lock: FileLock, status: Mapping[str, Any]):
        self.folder = folder
        self._file_lock = lock
        self._guard = threading.RLock()
        self._status = {**status, **this_process()}
        self._pending: list[bytes] = []
        self._flushed = time.monotonic()
        self._events = (folder / EVENTS).open("ab", buffering=0)
        self._length = self._whole_lines()

    @classmethod
    def own(cls, folder: Path, missing: Mapping[str, Any] | None = None) -> "RunWriter":
        """Become the owner of an ended or interrupted run; InputError while another process owns it.

        `missing` stands in for what a damaged `status.json` lacks.
        """
        folder = Path(folder)
        reader = RunReader(folder)
        status = reader.status()
        lock = take_lock(folder, status)
        try:
            for leftover in (*folder.glob("*.tmp"), *folder.glob(".*.partial")):
                leftover.unlink()  # what a killed owner was writing
            return cls(folder, lock, {**(missing or {}), **status})
        except OSError as error:
            lock.release()
            raise InputError(f"cannot write in {harmless(folder)}: {reason(error)}") from error

    def _whole_lines(self) -> int:
        """Cut a torn last line off, which only a killed owner leaves, and return the file's length."""
        content = (self.folder / EVENTS).read_bytes()
        length = content.rfind(b"\n") + 1
        if length < len(content):
            self._events.truncate(length)
        return length

    def event(self, event: Mapping[str, Any]) -> None:
        """Append one event; on the disk within half a second, all but `step` at once."""
        with self._guard:
            self._pending.append(event_line(event))
            if event["kind"] != "step" or time.monotonic() - self._flushed >= _FLUSH_SECONDS:
                self.flush()

    def flush(self) -> None:
        with self._guard:
            self._flushed = time.monotonic()
            block = b"".join(self._pending)
            self._pending.clear()
            written = 0
            try:
                while written < len(block):
                    written += self._events.write(block[written:])
            except OSError:
                whole = block[:written].rfind(b"\n") + 1
                self._length += whole
                self._events.truncate(self._length)  # a full disk leaves no torn line
                raise
            self._length += len(block)

    def status(self, **changes: Any) -> None:
        """Change the given keys of `status.json`, and renew the heartbeat."""
        with self._guard:
            self._status = {**self._status, **changes, "heartbeat": time.time()}
            write_status(self.folder, self._status)

    def beat(self, **changes: Any) -> None:
        """What the owner does about once a second: waiting events go to the disk, and the heartbeat is renewed."""
        with self._guard:
            if self._pending:
                self.flush()
            self.status(**changes)

    def record(self, record: Mapping[str, Any]) -> None:
        """Write `record.toml`; keys whose value is None are left out."""
        replace(self.folder / RECORD, tomli_w.dumps(without_none(record)).encode("utf-8", "replace"))

    def taken_request(self) -> str | None:
        """The request another process left, which is taken away with this."""
        path = self.folder / REQUEST
        try:
            word = path.read_bytes().decode("ascii", "replace").strip()
            path.unlink()
        except OSError:
            return None
        return word if word in REQUESTS else None

    def close(self) -> None:
        """Write what waits, and give the run free."""
        with self._guard:
            try:
                if self._pending:
                    self.flush()
            finally:
                self._events.close()
                self._file_lock.release()


def write_status(folder: Path, status: Mapping[str, Any]) -> None:
    """Replace `status.json`; for the one who holds the lock."""
    text = json.dumps(_spell(status), ensure_ascii=False, allow_nan=False, indent=1)
    replace(folder / STATUS, text.encode("utf-8", "replace"))


def take_lock(folder: Path, status: Mapping[str, Any]) -> FileLock:
    """The lock of a run that no living process owns; InputError otherwise."""
    name = harmless(folder.name)
    owned = f"{name} is in use by process {status.get('pid', '?')}; stop it first: fnwork stop {name}"
    if not folder.is_dir():
        raise InputError(f"{name}: no such run")
    lock = FileLock(folder / LOCK)
    try:
        held = lock.acquire()
    except OSError as error:
        raise InputError(f"cannot write in {harmless(folder)}: {reason(error)}") from error
    if not held:
        raise InputError(owned)
    beyond_the_lock = not lock.supported or status.get("host") != platform.node()
    if beyond_the_lock and status.get("state") in ALIVE_STATES and owner_is_alive(status):
        lock.release()
        raise InputError(owned)
    return lock


def without_none(value: Any) -> Any:
    """`value` as TOML can hold it: no None, tuples as lists."""
    if isinstance(value, Mapping):
        return {str(key): without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_none(item) for item in value if item is not None]
    return value
