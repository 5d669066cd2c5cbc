"""PyTorch in a process of its own, with the same network, asked a step or a run at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def add_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--torch-python", default=sys.executable, help="a Python that has PyTorch (pip install torch); default: this"
    )


class Peer:
    """Ends with `with`; idle unless it is asked."""

    def __init__(self, python: str, **job: Any) -> None:
        command = [python, "-m", "tests.bench.torch_peer"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, cwd=ROOT, **pipes)
        self.ready = self.ask(json.dumps(job))

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *failure: object) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, line: str = "") -> dict[str, Any]:
        """What it answers to a line: to the job itself, or to the request for a step."""
        with suppress(BrokenPipeError):
            print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit("the PyTorch side ended; --torch-python needs a Python that has PyTorch")
        return json.loads(answer)
