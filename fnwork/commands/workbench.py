"""The screen: without a command, and for `attach`."""

import gc
import sys
from argparse import Namespace
from pathlib import Path

from engine.errors import InputError
from fnwork.commands.common import archive_of, made_archive, run_folder

_SWITCH_SECONDS = 0.0005
"""After which Python lets another thread go on: training waits less for a screen that is being drawn."""


def open_workbench(arguments: Namespace) -> int:
    _need_a_terminal("fnwork", "fnwork run SPEC trains without one, for example: fnwork run fashion-cnn")
    return _show(made_archive(arguments).root, None)


def attach(arguments: Namespace) -> int:
    folder = run_folder(arguments)
    _need_a_terminal("fnwork attach", "fnwork show RUN tells how a run is doing")
    return _show(archive_of(arguments).root, folder)


def _need_a_terminal(command: str, instead: str) -> None:
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError(f"{command} needs a terminal, and there is none here; {instead}")


def _show(experiments: Path, folder: Path | None) -> int:
    gc.disable()  # the app enables it with its first picture, which comes the sooner for it
    from fnwork.tui.app import FnworkApp
    from fnwork.tui.signals import end_on_signals

    sys.setswitchinterval(_SWITCH_SECONDS)
    app = FnworkApp(experiments, attach=folder)
    end_on_signals(app)
    app.run()
    return app.return_code or 0
