"""How quick the screen is, in a real (pseudo) terminal. Run by hand, on Linux or macOS:

python -m tests.bench.screen first      # from the command to the first screen
python -m tests.bench.screen keys       # a key press in the editor, while a run trains
python -m tests.bench.screen training   # the time of a run with the screen open over that of `fnwork run`
python -m tests.bench.screen runs       # 2,000 archived runs on the screen
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

from fnwork.archive import Archive

SPECS = Path(__file__).parents[2] / "experiments" / "specs"
RUNS = 2_000
TRAINED = "fashion-cnn"


class Terminal:
    """A program in a pseudo-terminal of 120x40."""

    def __init__(self, *arguments: str) -> None:
        self.began = time.perf_counter()
        self.pid, self.file = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, "-m", "fnwork", *arguments])
        ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

    def wait_for(self, text: str, timeout: float = 60.0) -> float:
        """Seconds until `text` is written to the screen."""
        began, seen = time.perf_counter(), b""
        while text.encode() not in seen:
            if time.perf_counter() - began > timeout:
                raise TimeoutError(text)
            if select.select([self.file], [], [], 0.05)[0]:
                seen += os.read(self.file, 1 << 16)
        return time.perf_counter() - began

    def press(self, keys: str) -> None:
        os.write(self.file, keys.encode())

    def drain(self, seconds: float) -> None:
        """Reads what is written for a while."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            if select.select([self.file], [], [], left)[0]:
                os.read(self.file, 1 << 16)

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.file)


@contextmanager
def experiments() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "experiments"
        shutil.copytree(SPECS, root / "specs")
        yield root


def first(root: Path) -> None:
    times = []
    for _ in range(6):
        terminal = Terminal("--experiments", str(root))
        terminal.wait_for("fashion-mlp")
        times.append(time.perf_counter() - terminal.began)
        terminal.close()
    print(f"first screen: median {statistics.median(times[1:]):.2f} s, best {min(times):.2f} s")


def keys(root: Path) -> None:
    terminal = Terminal("--experiments", str(root))
    terminal.wait_for("fashion-mlp")
    terminal.drain(2)
    terminal.press("\x1b[15~")  # F5: train fashion-cnn
    terminal.wait_for("running")
    terminal.drain(4)
    terminal.press("\x1bOQ")  # F2: back to Edit
    terminal.drain(1)
    terminal.press("\t")  # into the text
    terminal.drain(0.5)
    times = []
    for number in range(200):
        letter = "QZXJ"[number % 4]
        terminal.press(letter)
        times.append(terminal.wait_for(letter))
        terminal.drain(0.05)
        if number % 20 == 19:
            terminal.press("\x7f" * 20)
            terminal.drain(0.5)
    terminal.close()
    times.sort()
    print(f"key to screen while training: median {times[100] * 1e3:.0f} ms, 95th percentile {times[190] * 1e3:.0f} ms")


def training(root: Path) -> None:
    """Whole runs in turn, by the seconds of training in their own events."""
    for other in (root / "specs").glob("*.toml"):
        if other.stem != TRAINED:
            other.unlink()
    ratios = []
    for _ in range(5):
        command = [sys.executable, "-m", "fnwork", "--experiments", str(root), "run", TRAINED]
        subprocess.run(command, check=True, capture_output=True)
        alone = trained_seconds(root)
        terminal = Terminal("--experiments", str(root))
        terminal.wait_for(TRAINED)
        terminal.drain(2)
        count = len(list((root / "runs").iterdir()))
        terminal.press("\x1b[15~")  # F5
        while len(list((root / "runs").iterdir())) == count or not newest(root).joinpath("record.toml").exists():
            terminal.drain(0.2)
        with_screen = trained_seconds(root)
        terminal.close()
        ratios.append(with_screen / alone)
        print(f"alone {alone:.2f} s, with the screen {with_screen:.2f} s", flush=True)
    print(f"with the screen over alone: median {statistics.median(ratios):.3f}")


def newest(root: Path) -> Path:
    return max((root / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime)


def trained_seconds(root: Path) -> float:
    """Seconds in windows, without reading data, validating and saving."""
    events = map(json.loads, newest(root).joinpath("events.jsonl").read_text().splitlines())
    return sum(event["seconds"] for event in events if event["kind"] == "epoch")


def runs(root: Path) -> None:
    archive = Archive(root)
    for number in range(RUNS):
        writer = archive.create(f"run-{number:04}", "", {"train": {"lr": 0.1}}, epochs=60)
        writer.status(state="finished", epoch=60, results={"val_loss": 0.3, "val_accuracy": 0.9})
        writer.record({"reason": "finished"})
        writer.close()
    times = []
    for _ in range(4):
        terminal = Terminal("--experiments", str(root))
        terminal.wait_for("fashion-mlp")
        terminal.drain(2)
        terminal.press("\x1bOS")  # F4
        times.append(terminal.wait_for("run-1999"))
        terminal.close()
    print(f"{RUNS} runs: on the screen in {statistics.median(times):.2f} s")


if __name__ == "__main__":
    measures = {"first": first, "keys": keys, "training": training, "runs": runs}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", choices=measures)
    with experiments() as folder:
        measures[parser.parse_args().measure](folder)
