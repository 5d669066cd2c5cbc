"""Small files that several processes read while one writes: atomic replacement, an exclusive lock, reasons in words."""

import errno
import os
import shutil
import sys
import time
from pathlib import Path

from engine.errors import InputError
from fnwork.text import harmless

_ATTEMPTS = 20
_PAUSE = 0.01
_NO_LOCKS_HERE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


def reason(error: OSError) -> str:
    """What went wrong, in the system's own words: "No space left on device"."""
    return error.strerror or str(error)


def read_bytes(path: Path) -> bytes:
    """The file's bytes; on Windows a file that is being replaced refuses readers for a moment, so this tries again."""
    for _ in range(_ATTEMPTS):
        try:
            return path.read_bytes()
        except PermissionError:
            if sys.platform != "win32":
                raise
            time.sleep(_PAUSE)
    return path.read_bytes()


def replace(path: Path, content: bytes) -> None:
    """Write `content` so that a reader sees the old file or the new one, never a part. One writer at a time."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_bytes(content)
        _move(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)  # on a full disk its room is needed for saying so
        raise


def overwrite(path: Path, content: bytes) -> None:
    """Write a file of the person's own; InputError where that cannot be done.

    A regular file is replaced whole and keeps its permissions; links, pipes and devices are written straight through.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp") if path.name else path
    try:
        if path.is_dir():
            raise InputError(f"{harmless(path)}: this is a folder; expected a file's name")
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_bytes(content)
            return
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"{harmless(path)}: cannot be written: it is read-only")
        if not path.parent.is_dir():
            raise InputError(f"{harmless(path)}: cannot be written: there is no such folder")
        temporary.write_bytes(content)
        if path.exists():
            shutil.copymode(path, temporary)
        _move(temporary, path)
    except BrokenPipeError:
        raise
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"{harmless(path)}: cannot be written: {reason(error)}") from error


def _move(source: Path, target: Path) -> None:
    for _ in range(_ATTEMPTS):
        try:
            os.replace(source, target)
            return
        except PermissionError:  # Windows: a reader holds the old file for a moment
            if sys.platform != "win32":
                raise
            time.sleep(_PAUSE)
    os.replace(source, target)


class FileLock:
    """A lock that the system gives back when its process ends, however it ends.

    `FileLock(path).acquire()` is True when this object holds the lock from then on. On file systems without locks it
    is always True and `supported` False: then only the recorded process tells who owns the run.
    """

    def __init__(self, path: Path):
        self.supported = True
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor)
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                os.close(descriptor)
                if isinstance(error, BlockingIOError | PermissionError):
                    return False
                raise
            self.supported = False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)  # closing gives the lock back
            self._descriptor = None


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
