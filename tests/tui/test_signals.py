"""The workbench is asked to end from outside, in a pseudo-terminal of its own."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from fnwork.archive import Archive
from fnwork.run_folder import LAST

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are Unix's")


def close_the_terminal(process: int, terminal: int) -> None:
    os.close(terminal)


def ask_to_end(process: int, terminal: int) -> None:
    os.kill(process, signal.SIGTERM)


@pytest.mark.parametrize(
    ("ask", "code"), [(close_the_terminal, 128 + signal.SIGHUP), (ask_to_end, 128 + signal.SIGTERM)]
)
def test_a_run_is_saved_when_the_process_is_asked_to_end(
    experiments: Path, ask: Callable[[int, int], None], code: int
) -> None:
    import pty

    spec = experiments / "specs/fashion-cnn.toml"
    spec.write_text(spec.read_text().replace("cnn8", "mlp").replace("epochs = 3", "epochs = 1000"))
    process, terminal = pty.fork()
    if not process:
        os.execv(sys.executable, [sys.executable, "-m", "fnwork", "--experiments", str(experiments)])
    _read_until(terminal, lambda seen: b"activations" in seen)
    os.write(terminal, b"\x1b[15~")
    _read_until(terminal, lambda seen: any((experiments / "runs").glob(f"*/{LAST}")))
    ask(process, terminal)
    for _ in range(600):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            break
        time.sleep(0.05)
        if ask is ask_to_end and select.select([terminal], [], [], 0)[0]:
            with suppress(OSError):  # the other end is closed
                os.read(terminal, 1 << 16)
    else:
        os.kill(process, signal.SIGKILL)
        raise AssertionError("the process did not end")
    assert os.waitstatus_to_exitcode(status) == code
    (run,) = Archive(experiments).list()
    assert run.state == "stopped", (run.path / "events.jsonl").read_text()[-500:]


def _read_until(terminal: int, condition: Callable[[bytes], bool]) -> None:
    seen = b""
    for _ in range(1200):
        if condition(seen):
            return
        if select.select([terminal], [], [], 0.05)[0]:
            seen += os.read(terminal, 1 << 16)
    raise AssertionError(seen[-2000:])
