"""run, resume, stop."""

import os
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.errors import InputError
from fnwork import ending
from fnwork.archive import Archive
from fnwork.cli import DONE, RUN_FAILED, STOPPED, let_go
from fnwork.commands.common import archive_of, figure, made_archive, print_json, run_folder, say, spec_file
from fnwork.commands.reading import Reading
from fnwork.commands.records import document
from fnwork.run_folder import ALIVE_STATES, RunReader, request
from fnwork.text import harmless

_SHOW_CURSOR = "\x1b[?25h"
_STOP_SECONDS = 60.0


def run(arguments: Namespace) -> int:
    path = spec_file(arguments)
    archive = made_archive(arguments)
    return _train(arguments, lambda progress: _new(archive, path, arguments.set, progress))


def resume(arguments: Namespace) -> int:
    folder = run_folder(arguments)
    return _train(arguments, lambda progress: _again(archive_of(arguments), folder, progress))


def _new(archive: Archive, path: Path, settings: list[str], progress: Reading):
    from fnwork.run import Run

    return Run.start(archive, path, settings, progress=progress)


def _again(archive: Archive, folder: Path, progress: Reading):
    from fnwork.run import Run

    return Run.resume(archive, folder, progress)


def _train(arguments: Namespace, make: Callable) -> int:
    from fnwork.commands.progress import Progress

    with Reading() as reading:
        owned = make(reading)
    with _whose_reader_may_leave():
        if not arguments.json:
            print(f"run: {harmless(owned.folder)}", flush=True)
    with Progress(owned.folder, to_stderr=arguments.json) as progress, stopping_on_interrupt(owned, progress.note):
        result = owned.execute(progress.take)
    with _whose_reader_may_leave():
        if arguments.json:
            print_json(document(owned.folder) | {"message": result.message})
        else:
            figures = "  ".join(f"{key} {figure(key, value)}" for key, value in result.results.items())
            best = f"  best epoch {result.best_epoch}:  " if figures and result.best_epoch else ""
            print(f"{result.state}{best or '  '}{figures}".rstrip(), flush=True)
        sys.stdout.flush()
    if result.state == "stopped":
        at_home = archive_of(arguments).root == Path("experiments")
        say(f"go on with: fnwork resume {owned.folder.name if at_home else owned.folder}")
    elif result.state == "failed":
        say(result.message)
    return {"failed": RUN_FAILED, "stopped": STOPPED}.get(result.state, DONE)


@contextmanager
def _whose_reader_may_leave() -> Iterator[None]:
    """Prints to a pipe that nobody reads any more; the training goes on, and its exit code stands."""
    try:
        yield
    except BrokenPipeError:
        let_go(sys.stdout)


@contextmanager
def stopping_on_interrupt(owned, note: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C once saves and stops; twice ends the process at once. A request to terminate counts the same, and so does
    a terminal that goes away.
    """
    asked = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        if asked.is_set():
            shown = _SHOW_CURSOR if sys.stderr.isatty() else ""  # the progress bar hid it
            with suppress(OSError):
                os.write(2, f"{shown}\nended at once: what came after the last checkpoint is lost\n".encode())
            os._exit(STOPPED)
        asked.set()
        # In a thread, because a handler may interrupt the very lock that a request needs.
        threading.Thread(target=lambda: (owned.stop(), note("saving and stopping; Ctrl-C again ends at once"))).start()

    met = [number for number in ending.SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores one
    before = {number: signal.signal(number, on_signal) for number in met}
    try:
        yield
    finally:
        for number, handler in before.items():  # the process ends now: one Ctrl-C more has nothing left to stop
            signal.signal(number, signal.SIG_IGN if asked.is_set() else handler)


def stop(arguments: Namespace) -> int:
    folder = run_folder(arguments)
    reader = RunReader(folder)
    if reader.state() not in ALIVE_STATES:
        raise InputError(f"{harmless(folder.name)} is not running: it is {reader.state()}")
    request(folder, "stop")
    give_up = time.monotonic() + _STOP_SECONDS
    while (state := reader.state()) in ALIVE_STATES:
        if time.monotonic() > give_up:
            say(f"{folder.name} was asked to stop, and is still at work")
            return DONE
        time.sleep(0.05)
    print(f"{state}: {harmless(folder.name)}")
    return DONE
