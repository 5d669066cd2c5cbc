"""Pictures decoded once, in parallel, into one file that is mapped into memory from then on.

The file holds the pixels of the pictures that could be read, one after the other, then a JSON note, its length and a
mark. Its name tells the folder and size (so that a folder that changed replaces its old file) and what the pictures
were: names, sizes and times. It is written beside and moved into its place, so that no process ever sees half of it.
"""

import hashlib
import json
import os
import secrets
import shutil
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.errors import InputError
from fnwork.datasets import cache, picture
from fnwork.datasets.mapped import MappedRows
from fnwork.datasets.picture_tree import Pictures
from fnwork.datasets.settings import Progress
from fnwork.files import reason
from fnwork.text import harmless, size

_END = struct.Struct("<Q8s")
_MARK = b"fnwpic01"
_AT_ONCE = 256
_DAY = 24 * 3600.0
_UNUSED_DAYS = 30
_MOST_BYTES = 20 * 2**30


@dataclass(frozen=True)
class Decoded:
    """Pictures as rows of a mapped file: which of the files they are (`kept`, in order), why others are none of them,
    and a digest of their pixels."""

    inputs: MappedRows
    kept: np.ndarray
    faults: dict[int, str]
    digest: str


def decoded(pictures: Pictures, side: int, progress: Progress) -> Decoded:
    """The pictures at `side` x `side` pixels in three colours, from the cache or decoded into it."""
    path = _place(pictures, side)
    note = _note(path)
    if note is None:
        _decode(pictures, side, path, progress)
        _prune(path)
        note = _note(path)
        if note is None:
            raise InputError(f"{harmless(path)} was removed while it was being used")
    else:
        with suppress(OSError):
            os.utime(path)  # what is used is not pruned
    faults = {int(number): str(why) for number, why in note["faults"].items()}
    kept = np.setdiff1d(np.arange(len(pictures.files)), np.array([*faults], np.intp))
    rows = MappedRows(path, (side, side, 3), np.arange(len(kept)))
    return Decoded(rows, kept, faults, note["digest"])


def known_faults(pictures: Pictures, side: int) -> dict[int, str]:
    """Which of the pictures cannot be read; empty where they have not been decoded yet."""
    note = _note(_place(pictures, side))
    return {int(number): str(why) for number, why in note["faults"].items()} if note else {}


def folder() -> Path:
    return cache.folder() / "pictures"


def _place(pictures: Pictures, side: int) -> Path:
    place = hashlib.sha256(f"{side} {pictures.folder.resolve()}".encode("utf-8", "surrogateescape"))
    content = hashlib.sha256(_MARK)
    for name, stamp in zip(pictures.files, pictures.stamps, strict=True):
        content.update(f"{name}\0{stamp[0]} {stamp[1]}\n".encode("utf-8", "surrogateescape"))
    return folder() / f"{place.hexdigest()[:16]}-{content.hexdigest()[:24]}.pixels"


def _note(path: Path) -> dict | None:
    """What the end of a cache file tells; None where there is no whole one."""
    with suppress(OSError, ValueError, struct.error, TypeError, KeyError), path.open("rb") as file:
        file.seek(-_END.size, os.SEEK_END)
        length, mark = _END.unpack(file.read(_END.size))
        file.seek(-_END.size - length, os.SEEK_END)
        pixels = file.tell()
        note = json.loads(file.read(length))
        if mark == _MARK and note["bytes"] == pixels:
            return note
    return None


def _decode(pictures: Pictures, side: int, path: Path, progress: Progress) -> None:
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_room(path.parent, len(pictures.files) * side * side * 3)
        _write(pictures, side, temporary, progress)
        try:
            os.replace(temporary, path)
        except PermissionError:  # Windows: another process has made it meanwhile, and reads it
            if _note(path) is None:
                raise
    except OSError as error:
        raise InputError(
            f"the cache of decoded pictures, {harmless(path.parent)}, cannot be written: {reason(error)}; "
            "the environment variable FNWORK_CACHE names another folder"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _check_room(place: Path, needed: int) -> None:
    free = shutil.disk_usage(place).free
    if needed > free:
        raise InputError(
            f"the decoded pictures need {size(needed)}, but {harmless(place)} has {size(free)} left; a smaller "
            "data.image_size needs less, and the environment variable FNWORK_CACHE names another folder"
        )


def _write(pictures: Pictures, side: int, path: Path, progress: Progress) -> None:
    """Pixels by ordinary writes, not through a mapping, which a full disk would end the process for."""
    digest, faults, written = hashlib.blake2b(digest_size=16), {}, 0
    with path.open("wb") as file:
        for number, pixels in enumerate(_pixels(pictures, side, progress)):
            if isinstance(pixels, str):
                faults[number] = pixels
                continue
            file.write(pixels)
            digest.update(pixels)
            written += pixels.nbytes
        note = json.dumps({"bytes": written, "digest": digest.hexdigest(), "faults": faults}).encode()
        file.write(note + _END.pack(len(note), _MARK))


def _pixels(pictures: Pictures, side: int, progress: Progress) -> Iterator[np.ndarray | str]:
    """Every picture's pixels, or why it cannot be read, in order."""

    def read(name: str) -> np.ndarray | str:
        try:
            return picture.read(pictures.folder / name, side, side, 3)
        except InputError as error:
            return str(error)

    what, total = f"decoding {harmless(pictures.folder.name)}", len(pictures.files)
    workers = ThreadPoolExecutor(min(os.cpu_count() or 1, 16), "pictures")
    try:
        with picture.quiet():
            for begin in range(0, total, _AT_ONCE):  # in pieces, so that no more than that waits to be written
                progress(what, begin, total)
                yield from workers.map(read, pictures.files[begin : begin + _AT_ONCE])
            progress(what, total, total)
    finally:
        workers.shutdown(cancel_futures=True)


def _prune(made: Path) -> None:
    """Remove what `made` replaces, what nobody used for long, and the longest unused beyond a total size."""
    now, total = time.time(), 0
    with suppress(OSError):
        found = [(path, path.stat()) for path in made.parent.iterdir()]
        for path, status in sorted(found, key=lambda item: -item[1].st_mtime):
            replaced = path.name.split("-")[0] == made.name.split("-")[0] and path.suffix == ".pixels"
            unused = now - status.st_mtime > (_DAY if path.suffix == ".tmp" else _UNUSED_DAYS * _DAY)
            total += status.st_size
            if path != made and (replaced or unused or total > _MOST_BYTES):
                with suppress(OSError):  # Windows: another process reads it
                    path.unlink()
