"""doctor: what this machine offers, what is wrong with it, and the one command that mends it."""

import sys
from argparse import Namespace
from dataclasses import asdict

from fnwork.cli import DONE, RUN_FAILED
from fnwork.commands.common import print_json, say
from fnwork.doctor import Findings, Trial, describe, verdict
from fnwork.probes import Sources, gather
from fnwork.text import harmless, size


def doctor(arguments: Namespace) -> int:
    if not arguments.json and sys.stderr.isatty():
        say("looking at this machine; with a card this takes some seconds ...")
    found = gather(Sources())
    said = verdict(found)
    if arguments.json:
        head = {"usable": said.usable, "verdict": said.sentence, "command": said.command}
        print_json(head | asdict(found) | {"tests": [asdict(test) for test in found.tests]})
    else:
        for name, lines in _facts(found).items():
            for place, line in enumerate(lines or ["none"]):
                print(f"{'' if place else name:<14}{harmless(line)}")
        print(f"\n{'✓' if said.usable else '✗'} {harmless(said.sentence)}")
        if said.command:
            print(f"  {harmless(said.command)}")
    return DONE if said.usable else RUN_FAILED


def _facts(found: Findings) -> dict[str, list[str]]:
    driver, numba, screen = found.driver, found.numba, found.terminal
    newest = ".".join(map(str, driver.cuda))
    runs = [f"{driver.version}, runs CUDA up to {newest}"] if driver.version else [driver.problem or "none"]
    cache = found.kernel_cache
    kept = f"its kernels are compiled and kept in {numba.folder}" if numba.kept else "its kernels are not compiled yet"
    where = f"{screen.columns}x{screen.lines}" if screen.tty else "not a terminal"
    colours = f"colours: {screen.colours}{' (NO_COLOR is set)' if screen.no_colour else ''}"
    card = bool(driver.cards or found.wheels)
    return {
        "system": [found.system],
        "CPU": [f"{found.cores} cores usable, {size(found.memory_free)} of {size(found.memory)} free"],
        "NVIDIA driver": runs,
        "cards": [describe(card) for card in driver.cards],
        **({"visible": [f"CUDA_VISIBLE_DEVICES={found.visible}"]} if found.visible is not None else {}),
        **({"override": [f"FNWORK_DEVICE={found.override}"]} if found.override else {}),
        "CuPy": [f"{wheel.name} {wheel.version}" for wheel in found.wheels],
        "CUDA": [*found.libraries, *([found.toolkit] if found.toolkit else [])],
        **({"kernel cache": [f"{cache.path}, {'writable' if cache.writable else 'not writable'}"]} if card else {}),
        **({"cuDNN": [found.cudnn]} if found.cudnn else {}),
        **({"tests": [_test(test) for test in found.tests]} if card else {}),
        "NumPy": [found.numpy, *found.blas],
        "Numba": [f"{numba.version}, {numba.problem or kept}".removeprefix(", ")],
        "terminal": [f"{where}, {colours}, {screen.encoding}{'' if screen.unicode else ', which lacks signs'}"],
    }


def _test(test: Trial) -> str:
    end = f"{test.seconds:.1f} s" if test.passed else test.reason
    return f"{'✓' if test.passed else '✗'} {test.card}: {test.name}, {end}"
