"""Downloading data sets by name: from known places in turn, going on where a download was cut off, checked by SHA-256.

The sums are those under which the files have been known for years (TensorFlow Datasets publishes them with the same
sizes).
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from engine.errors import InputError
from fnwork.datasets import cache
from fnwork.datasets.settings import Progress
from fnwork.files import FileLock, reason
from fnwork.text import harmless, size

_SECONDS = 30.0
_ATTEMPTS = 5
_PIECE = 1 << 16


@dataclass(frozen=True)
class File:
    """A file of a data set as it is published."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """The files of a data set, and the addresses below which they are found, in the order in which they are tried."""

    mirrors: tuple[str, ...]
    files: tuple[File, ...]


_TRAIN_IMAGES, _TRAIN_LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
_TEST_IMAGES, _TEST_LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"
SOURCES = {
    "mnist": Source(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        (
            File(_TRAIN_IMAGES, 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            File(_TRAIN_LABELS, 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            File(_TEST_IMAGES, 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            File(_TEST_LABELS, 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
    ),
    "fashion-mnist": Source(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        (
            File(_TRAIN_IMAGES, 26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            File(_TRAIN_LABELS, 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            File(_TEST_IMAGES, 4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            File(_TEST_LABELS, 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ),
    ),
    "cifar10": Source(
        (
            "https://www.cs.toronto.edu/~kriz/",
            "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
        ),
        (
            File(
                "cifar-10-binary.tar.gz",
                170_052_171,
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
    ),
}


def get(dataset: str, folder: Path | None, mirror: str, progress: Progress) -> tuple[Path, ...]:
    """The files of a data set, those downloaded that are not there yet.

    `folder` is where they go, None for where a spec without data.path looks; `mirror` is the one address to take them
    from, "" for the known ones. InputError says which file could not be had, and why from each place.
    """
    source, place = SOURCES[dataset], folder or cache.downloaded(dataset)
    mirrors = (_checked(mirror),) if mirror else source.mirrors
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = FileLock(place / ".download.lock")
        if not lock.acquire():
            raise InputError(f"{harmless(place)}: another process is downloading to it")
        try:
            if folder is not None:
                _check_own(source, folder)
            return tuple(_get(file, place, mirrors, progress) for file in source.files)
        finally:
            lock.release()
    except OSError as error:
        raise InputError(f"{harmless(place)}: cannot be written: {reason(error)}") from error


def _checked(mirror: str) -> str:
    if not mirror.lower().startswith(("http://", "https://")):
        raise InputError(f"--mirror {harmless(mirror)}: expected an address that begins with https:// or http://")
    return mirror if mirror.endswith("/") else f"{mirror}/"


def _check_own(source: Source, folder: Path) -> None:
    """A file of the person's own is not replaced."""
    for place in (folder / file.name for file in source.files if not _is_whole(folder / file.name, file)):
        if place.exists():
            raise InputError(f"{harmless(place)} is there and is another file; remove it, or name another folder")


def _is_whole(place: Path, file: File) -> bool:
    return place.is_file() and place.stat().st_size == file.size and _sha256(place) == file.sha256


def _get(file: File, folder: Path, mirrors: tuple[str, ...], progress: Progress) -> Path:
    place, part = folder / file.name, folder / f"{file.name}.part"
    if _is_whole(place, file):
        return place
    said = []
    for mirror in mirrors:
        url = mirror + file.name
        began_earlier = part.is_file()
        why = _fetch(url, part, file, progress)
        if why and began_earlier and not part.is_file():  # what was kept was from another file
            why = _fetch(url, part, file, progress)
        if not why:
            os.replace(part, place)
            return place
        said.append(f"{harmless(url)}: {harmless(why)}")
    kept = f"\n{size(part.stat().st_size)} are kept; the same command goes on from there" if part.is_file() else ""
    raise InputError("\n".join((f"{file.name} could not be downloaded", *said)) + kept)


def _fetch(url: str, part: Path, file: File, progress: Progress) -> str:
    """Append to `part` what it lacks, and go on where the connection is cut; what kept it from getting whole, or "".

    What turned out to be another file is removed.
    """
    why, attempts = "", 0
    while attempts < _ATTEMPTS and (begin := _length(part)) < file.size:
        why, cut = _append(url, part, begin, file, progress)
        if not cut:
            break
        attempts = 1 if _length(part) > begin else attempts + 1
    if _length(part) < file.size:
        return why
    if _length(part) == file.size and (sha256 := _sha256(part)) == file.sha256:
        return ""
    found = f"its SHA-256 is {sha256}" if _length(part) == file.size else "it is longer"
    part.unlink()
    return f"the file there is another one: {found}; expected {file.size:,} bytes of SHA-256 {file.sha256}"


def _append(url: str, part: Path, begin: int, file: File, progress: Progress) -> tuple[str, bool]:
    """One request: what went wrong, and whether it was cut off, so that asking again may help.

    It starts anew where the server does not know how to go on; what was kept stays until there is more than that.
    """
    shorter = f"the file there is another one: it is shorter than {file.size:,} bytes"
    headers = {"User-Agent": "fnwork"} | ({"Range": f"bytes={begin}-"} if begin else {})
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()
            return shorter, False
        return f"{error.code} {error.reason}", False
    except urllib.error.URLError as error:
        return f"no answer: {getattr(error.reason, 'strerror', None) or error.reason}", False
    except (http.client.HTTPException, OSError, ValueError) as error:
        return f"no answer: {error}", not isinstance(error, http.client.InvalidURL | ValueError)
    with answer:
        goes_on = answer.status == HTTPStatus.PARTIAL_CONTENT and answer.headers.get("Content-Range", "").startswith(
            f"bytes {begin}-"
        )
        target = part if goes_on or not begin else part.with_name(f"{part.name}.anew")
        with target.open("ab" if goes_on else "wb") as out:
            done = out.tell()
            while done <= file.size:
                try:
                    piece = answer.read(_PIECE)
                except (http.client.HTTPException, OSError):
                    piece = b""
                if not piece:
                    break
                out.write(piece)
                done += len(piece)
                progress(file.name, done, file.size)
    if answer.length == 0 and done < file.size:  # nothing was cut off: all that was announced has come
        target.unlink()
        return shorter, False
    if target != part:
        os.replace(target, part) if done > begin else target.unlink()
    return f"cut off after {done:,} of {file.size:,} bytes", True


def _length(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
