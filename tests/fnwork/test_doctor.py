"""What `fnwork doctor` finds, and what it makes of it: every layer below is made to report what it reports when ill."""

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fnwork import probes
from fnwork.cards import Driver, Listed
from fnwork.cli import main
from fnwork.doctor import Compiled, Findings, Folder, Trial, verdict
from fnwork.probes import TESTS, Sources, gather, run_program

GIB = 2**30
MODERN = Listed("GPU-11111111-aaaa", "NVIDIA GeForce RTX 4070", 12 * GIB, 11 * GIB, (8, 9))
OTHER = Listed("GPU-22222222-bbbb", "NVIDIA GeForce RTX 3060", 12 * GIB, 9 * GIB, (8, 6))
PASCAL = Listed("GPU-33333333-cccc", "NVIDIA GeForce GTX 1060", 6 * GIB, 5 * GIB, (6, 1))
DRIVER = Driver("570.124", (12, 8), (MODERN,))
NEWEST = Driver("580.65", (13, 0), (MODERN,))
NUMBA = '[true, "/cache/numba"]'


class Machine:
    """A machine by what its layers report. `faults`: what a test writes when it fails, by a word of its name."""

    def __init__(self, tmp_path, driver=None, wheels=(), environment=None, faults=None, bus=()):
        self.calls = []
        self._faults = faults or {}
        for address, vendor, kind in bus:
            folder = tmp_path / "bus" / address
            folder.mkdir(parents=True)
            (folder / "vendor").write_text(f"{vendor}\n")
            (folder / "class").write_text(f"{kind}\n")
        packages = [("numpy", "2.4.6"), ("numba", "0.68.1"), ("nvidia-cuda-nvrtc-cu12", "12.9.86"), *wheels]
        self.sources = Sources(
            driver=lambda: driver or Driver(),
            distributions=lambda: [SimpleNamespace(metadata={"Name": name}, version=last) for name, last in packages],
            run=self._run,
            environment={"CUPY_CACHE_DIR": str(tmp_path), **(environment or {})},
            python="/env/bin/python",
            bus=tmp_path / "bus",
            out=io.StringIO(),
        )

    def _run(self, program, environment, limit):
        programs = {text: name for name, text in TESTS.items()} | {probes.CUDNN: "cuDNN"}
        name = programs.get(program, "Numba")
        self.calls.append((name, environment))
        fault = next((fault for word, fault in self._faults.items() if word in name), "")
        return not fault, fault or {"Numba": NUMBA, "cuDNN": "1.28.0 over 9.19.0\n"}.get(name, "")

    def found(self) -> Findings:
        return gather(self.sources)


@pytest.fixture(autouse=True)
def plain_system(monkeypatch):
    """A Debian outside of containers."""
    monkeypatch.setattr(probes, "_distribution", lambda: "debian")
    real = probes.Path.exists
    monkeypatch.setattr(probes.Path, "exists", lambda path: real(path) and str(path) != "/.dockerenv")


CUDA12, CUDA13 = ("cupy-cuda12x", "14.2.0"), ("cupy-cuda13x", "14.2.0")
PIP12 = '/env/bin/python -m pip install "cupy-cuda12x[ctk]"'
PIP13 = '/env/bin/python -m pip install "cupy-cuda13x[ctk]"'
OUT = "/env/bin/python -m pip uninstall -y"
NVRTC = 'RuntimeError: Failure finding "libnvrtc.so.12"\nImportError: libnvrtc.so.12: cannot open shared object file'

RECOGNISED = {
    "no driver": (
        {"bus": [("0000:01:00.0", "0x10de", "0x030000")]},
        "there is a card (0000:01:00.0), but no NVIDIA driver",
        "sudo apt install nvidia-driver",
    ),
    "a driver that was updated under a running one": (
        {"driver": Driver(problem="Driver/library version mismatch"), "wheels": [CUDA12]},
        "does not answer (Driver/library version mismatch)",
        "sudo reboot",
    ),
    "a driver too old for any wheel": (
        {"driver": replace(DRIVER, version="470.82", cuda=(11, 4)), "wheels": [CUDA12]},
        "the driver 470.82 is too old: it runs CUDA 11.4",
        "sudo apt install nvidia-driver",
    ),
    "a driver too old for the wheel, as only the test tells": (
        {
            "driver": DRIVER,
            "wheels": [CUDA12],
            "faults": {"kernel": "CUDADriverError: CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was compiled"},
        },
        "the driver 570.124 is too old",
        "sudo apt install nvidia-driver",
    ),
    "no libraries of CUDA": (
        {"driver": DRIVER, "wheels": [CUDA12], "faults": {"kernel": NVRTC}},
        "CUDA's libraries are missing (ImportError: libnvrtc.so.12: cannot open shared object file)",
        PIP12,
    ),
    "two wheels": (
        {"driver": DRIVER, "wheels": [CUDA12, CUDA13]},
        "2 CuPy wheels are installed over each other (cupy-cuda12x, cupy-cuda13x)",
        f"{OUT} cupy-cuda12x cupy-cuda13x && {PIP12}",
    ),
    "a wheel for another CUDA": (
        {"driver": DRIVER, "wheels": [CUDA13]},
        "cupy-cuda13x needs CUDA 13, and the driver runs CUDA 12.8 at most",
        f"{OUT} cupy-cuda13x && {PIP12}",
    ),
    "a wheel for a CUDA of long ago": (
        {"driver": NEWEST, "wheels": [("cupy-cuda11x", "13.6.0")]},
        "cupy-cuda11x is for a CUDA that is too old",
        f"{OUT} cupy-cuda11x && {PIP13}",
    ),
    "a wheel for another vendor": (
        {"driver": DRIVER, "wheels": [("cupy-rocm-5-0", "13.6.0")]},
        "another vendor than NVIDIA",
        f"{OUT} cupy-rocm-5-0 && {PIP12}",
    ),
    "no CuPy": ({"driver": DRIVER}, "there is a card, but no CuPy: the extra cuda12 brings it", PIP12),
    "no CuPy, the newest driver": ({"driver": NEWEST}, "the extra cuda13 brings it", PIP13),
    "no CuPy, an old card under the newest driver": (
        {"driver": replace(NEWEST, cards=(PASCAL,))},
        "the extra cuda12 brings it",
        PIP12,
    ),
    "GTX 10 and CUDA 13": (
        {"driver": replace(NEWEST, cards=(PASCAL,)), "wheels": [CUDA13]},
        "CUDA 13 no longer serves the NVIDIA GeForce GTX 1060: cupy-cuda12x does",
        f"{OUT} cupy-cuda13x && {PIP12}",
    ),
    "cards that are hidden": (
        {"driver": DRIVER, "wheels": [CUDA12], "environment": {"CUDA_VISIBLE_DEVICES": ""}},
        "CUDA_VISIBLE_DEVICES= hides every card",
        "unset CUDA_VISIBLE_DEVICES",
    ),
    "cards that are hidden by a number too high": (
        {
            "driver": DRIVER,
            "wheels": [CUDA12],
            "environment": {"CUDA_VISIBLE_DEVICES": "7"},
            "faults": {"allocation": "cudaErrorNoDevice: no CUDA-capable device is detected"},
        },
        "CUDA_VISIBLE_DEVICES=7 hides every card",
        "unset CUDA_VISIBLE_DEVICES",
    ),
    "no answer": (
        {"driver": DRIVER, "wheels": [CUDA12], "faults": {"product in fp16": "no answer within 120 s"}},
        "the NVIDIA GeForce RTX 4070 fails the test of a product in fp16 (no answer within 120 s)",
        "fnwork run SPEC --set device.use=cpu",
    ),
    "a convolution that comes out wrong": (
        {
            "driver": DRIVER,
            "wheels": [CUDA12],
            "faults": {"convolution": "AssertionError: it comes out wrong"},
        },
        "fails the test of a convolution in fp32 (AssertionError: it comes out wrong)",
        "fnwork run SPEC --set device.use=cpu",
    ),
    "memory that others hold": (
        {"driver": DRIVER, "wheels": [CUDA12], "faults": {"allocation": "cudaErrorMemoryAllocation: out of memory"}},
        "the memory of the NVIDIA GeForce RTX 4070 is taken by other programs",
        "nvidia-smi",
    ),
    "CuPy that does not suit NumPy": (
        {"driver": DRIVER, "wheels": [CUDA12], "faults": {"import": "Traceback\nImportError: numpy.core.multiarray"}},
        "CuPy cannot be imported (ImportError: numpy.core.multiarray)",
        '/env/bin/python -m pip install --force-reinstall "cupy-cuda12x[ctk]"',
    ),
    "a request for a card that is not there": (
        {"environment": {"FNWORK_DEVICE": "cuda"}},
        "FNWORK_DEVICE=cuda asks for a card, and there is none that works",
        "unset FNWORK_DEVICE",
    ),
    "Numba that is broken": (
        {"faults": {"Numba": "ImportError: Numba needs NumPy 2.4 or less"}},
        "training works, but slowly: Numba cannot compile (ImportError: Numba needs NumPy 2.4 or less)",
        "/env/bin/python -m pip install --force-reinstall numba",
    ),
    "Numba that is switched off": (
        {"faults": {"Numba": "ImportError: NUMBA_DISABLE_JIT is set"}},
        "Numba cannot compile",
        "unset NUMBA_DISABLE_JIT",
    ),
}


@pytest.mark.parametrize("name", RECOGNISED)
def test_what_is_wrong_is_recognised_and_mended_by_one_command(tmp_path, name):
    machine, sentence, command = RECOGNISED[name]
    said = verdict(Machine(tmp_path, **machine).found())
    assert sentence in said.sentence
    assert said.command == command
    assert not said.usable


FINE = {
    "no card": ({}, "training runs on the CPU: there is no NVIDIA card here, and none is needed"),
    "CuPy without a card": ({"wheels": [CUDA12]}, "training runs on the CPU"),
    "displays of others": ({"bus": [("0000:00:02.0", "0x8086", "0x030000")]}, "training runs on the CPU"),
    "a card": ({"driver": DRIVER, "wheels": [CUDA12]}, "training runs on NVIDIA GeForce RTX 4070"),
    "an old wheel under a new driver": ({"driver": NEWEST, "wheels": [CUDA12]}, "training runs on NVIDIA GeForce RTX"),
    "an old card": ({"driver": replace(NEWEST, cards=(PASCAL,)), "wheels": [CUDA12]}, "GTX 1060"),
    "an old card beside a new one": (
        {"driver": replace(NEWEST, cards=(PASCAL, MODERN)), "wheels": [CUDA13], "faults": {}},
        "training runs on",
    ),
    "the CPU by wish": ({"environment": {"FNWORK_DEVICE": "cpu"}}, "training runs on the CPU"),
    "Numba broken beside a card": (
        {"driver": DRIVER, "wheels": [CUDA12], "faults": {"Numba": "ImportError: no"}},
        "training runs on NVIDIA GeForce RTX 4070",
    ),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_well_is_left_alone(tmp_path, name):
    machine, sentence = FINE[name]
    said = verdict(Machine(tmp_path, **machine).found())
    assert sentence in said.sentence
    assert said.command == "" and said.usable


def test_one_card_that_works_is_enough_and_the_other_one_is_named(tmp_path):
    found = Machine(tmp_path, replace(DRIVER, cards=(MODERN, OTHER)), [CUDA12]).found()
    failing = tuple(
        replace(test, passed=False, message="fell off the bus") if test.card == MODERN.name else test
        for test in found.tests
    )
    said = verdict(replace(found, tests=failing))
    assert said.usable
    assert said.sentence == f"training runs on {OTHER.name}; not on {MODERN.name}, which fails its tests"


def test_a_kernel_cache_that_cannot_be_written_is_mended(tmp_path):
    found = Machine(tmp_path, DRIVER, [CUDA12]).found()
    for tests in (found.tests, (Trial(MODERN.name, "a kernel", False, 1.0, "PermissionError: [Errno 13] /home/x"),)):
        said = verdict(replace(found, kernel_cache=Folder("/home/x/.cupy", False), tests=tests))
        assert "/home/x/.cupy" in said.sentence and said.command == "export CUPY_CACHE_DIR=/tmp/cupy"


def test_commands_are_those_of_the_system(tmp_path):
    found = Machine(tmp_path, bus=[("0000:01:00.0", "0x10de", "0x030200")]).found()
    assert verdict(replace(found, distribution="ubuntu")).command == "sudo ubuntu-drivers install"
    assert "nvidia.com/drivers" in verdict(replace(found, distribution="gentoo")).command
    assert verdict(replace(found, container=True)).command.startswith("docker run --gpus all")
    hidden = Machine(tmp_path, DRIVER, [CUDA12], {"CUDA_VISIBLE_DEVICES": "-1"}).found()
    assert verdict(replace(hidden, system="Windows 11")).command == "set CUDA_VISIBLE_DEVICES="


# --- looking ---


def test_every_card_is_tested_by_itself_and_only_what_can_be(tmp_path):
    machine = Machine(tmp_path, replace(DRIVER, cards=(MODERN, OTHER)), [CUDA12], {"FNWORK_DEVICE": "cuda:1"})
    found = machine.found()
    assert [(test.card, test.name) for test in found.tests] == [
        (card.name, test) for card in (MODERN, OTHER) for test in TESTS
    ]
    places = [environment.get("CUDA_VISIBLE_DEVICES") for name, environment in machine.calls if name in TESTS]
    assert places == [MODERN.uuid] * len(TESTS) + [OTHER.uuid] * len(TESTS)
    assert all("FNWORK_DEVICE" not in environment for name, environment in machine.calls if name in TESTS)
    named = Machine(tmp_path, replace(DRIVER, cards=(MODERN, OTHER)), [CUDA12], {"CUDA_VISIBLE_DEVICES": "1"})
    assert {test.card for test in named.found().tests} == {"the first visible card"}
    assert all(place["CUDA_VISIBLE_DEVICES"] == "1" for _, place in named.calls)


def test_tests_end_with_the_first_failure_and_need_one_wheel(tmp_path):
    found = Machine(tmp_path, DRIVER, [CUDA12], faults={"kernel": NVRTC}).found()
    assert [(test.name, test.passed) for test in found.tests] == [
        ("import", True),
        ("allocation", True),
        ("a kernel", False),
    ]
    assert Machine(tmp_path, DRIVER, [CUDA12, CUDA13]).found().tests == ()


def test_what_is_found_on_the_way(tmp_path):
    machine = Machine(tmp_path, DRIVER, [CUDA12, ("cupyx-something", "1")], {"CUDA_PATH": "/opt/cuda", "NO_COLOR": "1"})
    found = machine.found()
    assert [(wheel.name, wheel.version, wheel.cuda) for wheel in found.wheels] == [("cupy-cuda12x", "14.2.0", 12)]
    assert found.libraries == ("nvidia-cuda-nvrtc-cu12 12.9.86",)
    assert found.toolkit == "/opt/cuda"
    assert found.kernel_cache == Folder(str(tmp_path), True)
    assert found.numba == Compiled("0.68.1", True, "/cache/numba")
    assert found.cores >= 1 and 0 < found.memory_free <= found.memory
    assert not found.terminal.tty and found.terminal.no_colour
    assert found.blas and "threads" in found.blas[0]


def test_cudnn_is_told_of_and_never_needed(tmp_path):
    frontend = ("nvidia-cudnn-frontend", "1.28.0")
    with_it = Machine(tmp_path, DRIVER, [CUDA12, frontend]).found()
    assert with_it.cudnn == "1.28.0 over 9.19.0, for convolutions in half precision"
    assert "the extra cudnn12" in Machine(tmp_path, DRIVER, [CUDA12]).found().cudnn
    missing = "Traceback\nRuntimeError: libcudnn.so.9: cannot open"
    broken = Machine(tmp_path, DRIVER, [CUDA12, frontend], faults={"cuDNN": missing}).found()
    assert broken.cudnn == "cannot be used: RuntimeError: libcudnn.so.9: cannot open"
    assert all(verdict(found).usable for found in (with_it, broken))
    assert Machine(tmp_path).found().cudnn == ""


def test_a_kernel_cache_is_writable_where_it_can_be_made(tmp_path):
    def cache(*parts: str) -> Folder:
        return probes.kernel_cache({"CUPY_CACHE_DIR": str(tmp_path.joinpath(*parts))})

    assert cache("to", "be", "made").writable
    (tmp_path / "file").write_text("")
    assert not cache("file", "below").writable


@pytest.mark.parametrize("encoding, unicode", [("utf-8", True), ("ascii", False), ("no such", False), (None, False)])
def test_signs_that_a_terminal_lacks_are_noticed(encoding, unicode):
    out = SimpleNamespace(encoding=encoding, isatty=lambda: False, write=lambda text: None, flush=lambda: None)
    assert probes.terminal(out, {}).unicode == unicode


def test_a_program_is_judged_by_how_it_ends():
    assert run_program("print(6 * 7)", os.environ, 20) == (True, "42\n")
    passed, message = run_program("raise ValueError('gone')", os.environ, 20)
    assert not passed and message.rstrip().endswith("ValueError: gone")
    assert run_program("import os; os._exit(3)", os.environ, 20) == (False, "ended with code 3")
    assert run_program("import time; time.sleep(30)", os.environ, 0.2) == (False, "no answer within 0 s")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_convolution_that_is_tested_is_the_operation_itself(dtype):
    probes.check_convolution("cpu", dtype)


def test_the_programs_are_python():
    for program in (*TESTS.values(), probes.CUDNN):
        compile(program, "<test>", "exec")


# --- the command ---


def command(monkeypatch, tmp_path, capsys, *arguments, **machine):
    monkeypatch.setattr("fnwork.commands.doctor.Sources", lambda: Machine(tmp_path, **machine).sources)
    code = main(["doctor", *arguments])
    return code, capsys.readouterr()


def test_the_command_ends_with_its_verdict(monkeypatch, tmp_path, capsys):
    code, printed = command(monkeypatch, tmp_path, capsys)
    assert code == 0
    assert printed.out.splitlines()[-1].startswith("✓ training runs on the CPU")
    code, printed = command(monkeypatch, tmp_path, capsys, driver=DRIVER, wheels=[CUDA12], faults={"kernel": NVRTC})
    assert code == 1
    assert printed.out.splitlines()[-2].startswith("✗ CUDA's libraries are missing")
    assert printed.out.splitlines()[-1].strip() == PIP12
    assert "570.124, runs CUDA up to 12.8" in printed.out
    assert "NVIDIA GeForce RTX 4070, 11.0 of 12.0 GiB free, compute capability 8.9, GPU-11111111-aaaa" in printed.out
    assert "✓ NVIDIA GeForce RTX 4070: allocation" in printed.out
    assert "cuDNN         not installed" in printed.out
    assert "✗ NVIDIA GeForce RTX 4070: a kernel, ImportError: libnvrtc.so.12" in printed.out


def test_the_document_is_one_and_holds_everything(monkeypatch, tmp_path, capsys):
    code, printed = command(monkeypatch, tmp_path, capsys, "--json", driver=DRIVER, wheels=[CUDA13])
    told = json.loads(printed.out)
    assert code == 1 and printed.err == ""
    assert (told["usable"], told["command"]) == (False, f"{OUT} cupy-cuda13x && {PIP12}")
    assert told["driver"]["cards"][0]["uuid"] == MODERN.uuid
    assert told["wheels"][0]["cuda"] == 13
    assert {"kernel_cache", "tests", "numpy", "blas", "numba", "terminal", "visible", "cores"} <= told.keys()


def test_what_a_driver_writes_is_shown_harmlessly(monkeypatch, tmp_path, capsys):
    ill = replace(DRIVER, cards=(replace(MODERN, name="\x1b[2J[red]"),))
    _, printed = command(monkeypatch, tmp_path, capsys, driver=ill, wheels=[CUDA12])
    assert "\x1b" not in printed.out


def test_the_command_works_here():
    command = [sys.executable, "-m", "fnwork", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["usable"] is (done.returncode == 0)
