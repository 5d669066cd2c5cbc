"""Looking at this machine for `fnwork doctor`: driver, CuPy, NumPy, Numba, terminal, each source of which can be
replaced.
"""

import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import psutil
import threadpoolctl

from engine.device import OVERRIDE, choose, thread_count
from engine.forecast import CARD_KERNELS
from engine.memory import Memory
from engine.ops import Operations, from_host, kernels_named, to_host
from fnwork import cards
from fnwork.cards import Driver
from fnwork.compiling import HOME
from fnwork.doctor import Compiled, Findings, Folder, Terminal, Trial, Wheel

_PRODUCT = (
    "import cupy, numpy as np; x = (np.arange(4096) % 3).reshape(64, 64); "
    "y = cupy.asarray(x.astype('{0}')); assert ((y @ y).get() == x @ x).all(), 'a product comes out wrong'"
)
_CONVOLUTION = "from fnwork.probes import check_convolution; check_convolution('cuda:0', '{0}')"
TESTS = {  # each is a program of its own, since a driver that is ill may well end it or never answer
    "import": "import cupy",
    "allocation": "import cupy; cupy.cuda.alloc(1 << 20)",
    "a kernel": "import cupy; assert (cupy.arange(8) * 2 + 1).sum().item() == 64, 'a sum comes out wrong'",
    "a product in fp32": _PRODUCT.format("float32"),
    "a product in fp16": _PRODUCT.format("float16"),
    "a convolution in fp32": _CONVOLUTION.format("float32"),
    "a convolution in fp16": _CONVOLUTION.format("float16"),
}
CUDNN = "import cudnn; cudnn.create_handle(); print(cudnn.__version__, 'over', cudnn.backend_version_string())"
LIMIT = 120.0  # seconds of one program; compiling kernels for the first time takes many of them
_NUMBA = (
    "import json, engine.ops.cpu; from fnwork.compiling import needed; "
    "kept = [all(each.is_kept for each in needed(mode)) for mode in ('fp32', 'mixed')]; "
    "print(json.dumps([any(kept), str(needed('fp32')[0].function.stats.cache_path)]))"
)
_CUDA_LIBRARY = re.compile(r"nvidia-(cuda-(nvrtc|runtime)|cublas|cudnn)|cuda-toolkit", re.IGNORECASE)

Run = Callable[[str, Mapping[str, str], float], tuple[bool, str]]


def run_program(program: str, environment: Mapping[str, str], limit: float) -> tuple[bool, str]:
    """Whether a Python program ended well within `limit` seconds, and what it printed, or wrote of its failure."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment, timeout=limit, capture_output=True, text=True, check=False, cwd=HOME,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"no answer within {limit:.0f} s"
    if done.returncode and not done.stderr.strip():
        return False, f"ended with code {done.returncode}"
    return not done.returncode, done.stderr[-4000:] if done.returncode else done.stdout


@dataclass(frozen=True)
class Sources:
    """Where what is found comes from."""

    driver: Callable[[], Driver] = cards.driver
    distributions: Callable[[], Iterable[Any]] = importlib.metadata.distributions
    run: Run = run_program
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    python: str = sys.executable
    bus: Path = Path("/sys/bus/pci/devices")
    out: TextIO = field(default_factory=lambda: sys.stdout)


def gather(sources: Sources) -> Findings:
    """Looks at everything; the tests on cards take some seconds each."""
    environment, driver = sources.environment, sources.driver()
    installed = {str(each.metadata["Name"]): each.version for each in sources.distributions()}
    wheels = tuple(_wheel(name, version) for name, version in sorted(installed.items()) if _is_wheel(name))
    memory = psutil.virtual_memory()
    return Findings(
        system=f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        distribution=_distribution(),
        container=any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")),
        python=_quoted(sources.python),
        cores=thread_count(),
        memory=memory.total,
        memory_free=memory.available,
        driver=driver,
        hardware=hardware(sources.bus),
        visible=environment.get("CUDA_VISIBLE_DEVICES"),
        override=environment.get(OVERRIDE, ""),
        wheels=wheels,
        libraries=tuple(f"{name} {installed[name]}" for name in sorted(installed) if _CUDA_LIBRARY.match(name)),
        toolkit=environment.get("CUDA_PATH") or environment.get("CUDA_HOME") or shutil.which("nvcc") or "",
        kernel_cache=kernel_cache(environment),
        cudnn=cudnn(installed, environment, sources.run) if driver.cards and len(wheels) == 1 else "",
        tests=tuple(try_cards(driver, environment, sources.run)) if len(wheels) == 1 else (),
        numpy=np.__version__,
        blas=tuple(
            f"{each['internal_api']} {each['version']}, {each['num_threads']} threads"
            for each in threadpoolctl.threadpool_info()
            if each["user_api"] == "blas"
        ),
        numba=numba(installed.get("numba", ""), environment, sources.run),
        terminal=terminal(sources.out, environment),
    )


def _is_wheel(name: str) -> bool:
    return bool(re.fullmatch(r"cupy(-cuda\d+x?|-rocm.*)?", name))


def _wheel(name: str, version: str) -> Wheel:
    number = re.search(r"cuda(\d\d)", name)
    return Wheel(name, version, int(number[1]) if number else 0)


def _quoted(path: str) -> str:
    """A path as it is typed in a shell."""
    return (f'& "{path}"' if " " in path else path) if sys.platform == "win32" else shlex.quote(path)


def _distribution() -> str:
    """The id of a Linux distribution, or of the one it derives from where that has a command of its own."""
    from fnwork.doctor import DRIVERS

    try:
        told = platform.freedesktop_os_release()
    except OSError:
        return ""
    if "microsoft" in platform.release().lower():
        return ""  # there the driver is that of Windows
    names = [told.get("ID", ""), *told.get("ID_LIKE", "").split()]
    return next((name for name in names if name in DRIVERS), names[0])


def hardware(bus: Path) -> tuple[str, ...]:
    """Addresses of NVIDIA's display devices on the bus; none where the system has no such folder."""
    found = []
    for device in sorted(bus.glob("*")):
        try:
            vendor, kind = ((device / name).read_text(encoding="ascii").strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == "0x10de" and kind.startswith("0x03"):
            found.append(device.name)
    return tuple(found)


def kernel_cache(environment: Mapping[str, str]) -> Folder:
    """Where CuPy keeps compiled kernels, and whether it can write there, or make the folder."""
    path = Path(environment.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache").expanduser()
    there = next((folder for folder in (path, *path.parents) if folder.exists()), path)
    return Folder(str(path), there.is_dir() and os.access(there, os.W_OK | os.X_OK))


def try_cards(driver: Driver, environment: Mapping[str, str], run: Run) -> Iterable[Trial]:
    """All tests on every card by itself, or on the first of those that CUDA_VISIBLE_DEVICES names.

    After a test that fails no further one is made on that card.
    """
    plain = {name: value for name, value in environment.items() if name != OVERRIDE}
    named = "CUDA_VISIBLE_DEVICES" in environment
    for card in driver.cards[:1] if named else driver.cards:
        place = plain if named else {**plain, "CUDA_VISIBLE_DEVICES": card.uuid}
        name = "the first visible card" if named and len(driver.cards) > 1 else card.name
        for test, program in TESTS.items():
            began = time.monotonic()
            passed, message = run(program, place, LIMIT)
            yield Trial(name, test, passed, round(time.monotonic() - began, 1), "" if passed else message)
            if not passed:
                break


def check_convolution(use: str, dtype: str) -> None:
    """Raises AssertionError where the device's convolution differs from the reference on the CPU."""
    random = np.random.default_rng(0)
    values = [random.integers(-2, 3, shape).astype(dtype) for shape in ((2, 8, 8, 16), (16, 3, 3, 16))]
    results = []
    for device, kernels in ((choose(use), CARD_KERNELS), (choose("cpu"), "reference")):
        memory = Memory(device.allocate, 1 << 22, alignment=device.alignment)
        memory.guard = device.guard(memory)
        operations = Operations(memory, kernels_named(kernels if device.is_cuda else "reference"))
        with memory.guard():
            x, weight, out = (memory.take(like.shape, dtype, "data") for like in (*values, values[0]))
            for target, source in zip((x, weight), values, strict=True):
                from_host(source, target)
            operations.convolve(x, weight, None, out, stride=1, padding=1)
            results.append(to_host(out).astype(np.float32))
    assert np.array_equal(*results), "a convolution comes out wrong"


def cudnn(installed: Mapping[str, str], environment: Mapping[str, str], run: Run) -> str:
    """What there is of cuDNN, which nothing depends on."""
    if "nvidia-cudnn-frontend" not in installed:
        return "not installed; half precision trains faster with it (the extra cudnn12 or cudnn13)"
    passed, said = run(CUDNN, environment, LIMIT)
    if not passed:
        return f"cannot be used: {Trial('', '', False, 0.0, said).reason}"
    return f"{said.strip()}, for convolutions in half precision"


def numba(version: str, environment: Mapping[str, str], run: Run) -> Compiled:
    """Whether the operations compile here, and have been compiled before."""
    if not version:
        return Compiled("", problem="it is not installed")
    passed, said = run(_NUMBA, environment, LIMIT)
    if not passed:
        return Compiled(version, problem=Trial("", "", False, 0.0, said).reason)
    kept, folder = json.loads(said)
    return Compiled(version, kept, folder)


def terminal(out: TextIO, environment: Mapping[str, str]) -> Terminal:
    """What is on the other side of `out`."""
    from rich.console import Console

    size = shutil.get_terminal_size()
    encoding = getattr(out, "encoding", None) or "unknown"
    try:
        unicode = bool("━█✓→".encode(encoding))
    except (UnicodeEncodeError, LookupError):
        unicode = False
    colours = Console(file=out).color_system or "none"
    no_colour = bool(environment.get("NO_COLOR"))
    return Terminal(out.isatty(), size.columns, size.lines, colours, no_colour, encoding, unicode)
