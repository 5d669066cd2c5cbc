"""What is wrong with this machine, if anything, and the one command that mends it: a verdict over what was found."""

import re
from dataclasses import dataclass

from fnwork.cards import Driver, Listed

OLDEST_CUDA = 12  # the oldest CUDA that CuPy's wheels for this program are built for
LAST_OLD = (7, 0)  # the newest compute capability that CUDA 13 no longer serves; GTX 10 has 6.1
DRIVERS = {  # how a system installs the driver, by its id in os-release
    "ubuntu": "sudo ubuntu-drivers install",
    "debian": "sudo apt install nvidia-driver",
    "fedora": "sudo dnf install akmod-nvidia",
    "arch": "sudo pacman -S nvidia",
}
DOWNLOAD = "https://www.nvidia.com/drivers"
_LIBRARIES = re.compile(
    r"lib(nvrtc|cublas|cudart|nvJitLink|cusolver|cusparse|curand)|(nvrtc|cublas)\w*\.dll|Failure finding", re.I
)


@dataclass(frozen=True)
class Wheel:
    """An installed distribution of CuPy; `cuda` is what it is built for, 0 where its name does not tell."""

    name: str
    version: str
    cuda: int


@dataclass(frozen=True)
class Trial:
    """One test on a card, in a process of its own; `message` is what that wrote when it failed."""

    card: str
    name: str
    passed: bool
    seconds: float
    message: str = ""

    @property
    def reason(self) -> str:
        """The last line of the message."""
        return next((line.strip() for line in reversed(self.message.splitlines()) if line.strip()), "no reason given")


@dataclass(frozen=True)
class Folder:
    """Where something is kept, and whether it can be."""

    path: str
    writable: bool


@dataclass(frozen=True)
class Compiled:
    """Numba and the operations it compiles; `problem` is why it cannot."""

    version: str
    kept: bool = False
    folder: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Terminal:
    """What the terminal can show."""

    tty: bool
    columns: int
    lines: int
    colours: str
    no_colour: bool
    encoding: str
    unicode: bool


@dataclass(frozen=True)
class Findings:
    """All that was looked at. `hardware`: NVIDIA devices on the bus, where the system tells. `python`: what pip runs
    with.
    """

    system: str
    distribution: str
    container: bool
    python: str
    cores: int
    memory: int
    memory_free: int
    driver: Driver
    hardware: tuple[str, ...]
    visible: str | None
    override: str
    wheels: tuple[Wheel, ...]
    libraries: tuple[str, ...]
    toolkit: str
    kernel_cache: Folder
    cudnn: str
    tests: tuple[Trial, ...]
    numpy: str
    blas: tuple[str, ...]
    numba: Compiled
    terminal: Terminal


@dataclass(frozen=True)
class Verdict:
    """One sentence, and the command that mends what it says; none where nothing has to be mended."""

    sentence: str
    command: str = ""

    @property
    def usable(self) -> bool:
        return not self.command


def verdict(found: Findings) -> Verdict:
    """The first cause, from the driver up: what comes after it may well be its consequence."""
    causes = (_without_driver, _without_wheel, _wrong_wheel, _hidden, _failing, _cache, _misled, _slow)
    return next((said for cause in causes if (said := cause(found)) is not None), _good(found))


def _without_driver(found: Findings) -> Verdict | None:
    driver = found.driver
    if driver.problem:
        restart = "shutdown /r /t 0" if found.system.startswith("Windows") else "sudo reboot"
        return Verdict(f"the NVIDIA driver does not answer ({driver.problem}); a restart loads it anew", restart)
    if found.hardware and not driver.version:
        if found.container:
            return Verdict("there is a card, but this container was started without it", "docker run --gpus all ...")
        return Verdict(f"there is a card ({found.hardware[0]}), but no NVIDIA driver for it", _driver_command(found))
    if driver.cards and driver.cuda[0] < OLDEST_CUDA:
        return _old_driver(found)
    return None


def _without_wheel(found: Findings) -> Verdict | None:
    if not found.driver.cards or found.wheels:
        return None
    right = _right_wheel(found)
    extra = right.removeprefix("cupy-").removesuffix("x")
    return Verdict(f"there is a card, but no CuPy: the extra {extra} brings it", _pip(found, right))


def _wrong_wheel(found: Findings) -> Verdict | None:
    if not found.driver.cards:
        return None
    right, names = _right_wheel(found), [wheel.name for wheel in found.wheels]
    swap = f"{found.python} -m pip uninstall -y {' '.join(names)} && {_pip(found, right)}"
    if len(names) > 1:
        return Verdict(f"{len(names)} CuPy wheels are installed over each other ({', '.join(names)})", swap)
    wheel, driver = found.wheels[0], found.driver
    if "rocm" in wheel.name:
        return Verdict(f"{wheel.name} is made for devices of another vendor than NVIDIA", swap)
    if wheel.cuda > driver.cuda[0]:
        newest = ".".join(map(str, driver.cuda))
        return Verdict(f"{wheel.name} needs CUDA {wheel.cuda}, and the driver runs CUDA {newest} at most", swap)
    if 0 < wheel.cuda < OLDEST_CUDA:
        return Verdict(f"{wheel.name} is for a CUDA that is too old", swap)
    if wheel.cuda >= 13 and all(card.capability <= LAST_OLD for card in driver.cards):
        card = driver.cards[0].name
        return Verdict(f"CUDA 13 no longer serves the {card}: {right} does", swap)
    return None


def _hidden(found: Findings) -> Verdict | None:
    lost = any(re.search("NoDevice|no CUDA-capable device|InvalidDevice", test.message) for test in found.tests)
    if found.driver.cards and found.visible is not None and (found.visible in ("", "-1") or lost):
        said = f"CUDA_VISIBLE_DEVICES={found.visible} hides every card"
        return Verdict(said, _unset(found, "CUDA_VISIBLE_DEVICES"))
    return None


def _failing(found: Findings) -> Verdict | None:
    """The first failure, where no card passes every test."""
    failed = [test for test in found.tests if not test.passed]
    if not failed or _working(found):
        return None
    test, wheel = failed[0], found.wheels[0].name
    if _LIBRARIES.search(test.message):
        return Verdict(f"CUDA's libraries are missing ({test.reason})", _pip(found, wheel))
    if re.search("InsufficientDriver|insufficient|UNSUPPORTED_PTX|unsupported toolchain", test.message):
        return _old_driver(found)
    if re.search("PermissionError|Read-only file system", test.message) or not found.kernel_cache.writable:
        return _unwritable(found)
    if test.name == "import":
        again = f'{found.python} -m pip install --force-reinstall "{wheel}[ctk]"'
        return Verdict(f"CuPy cannot be imported ({test.reason})", again)
    if re.search("out of memory", test.message, re.I):
        return Verdict(f"the memory of the {test.card} is taken by other programs, which this lists", "nvidia-smi")
    said = f"the {test.card} fails the test of {test.name} ({test.reason}); this trains on the CPU meanwhile"
    return Verdict(said, "fnwork run SPEC --set device.use=cpu")


def _cache(found: Findings) -> Verdict | None:
    return _unwritable(found) if found.driver.cards and not found.kernel_cache.writable else None


def _misled(found: Findings) -> Verdict | None:
    if found.override in ("", "auto", "cpu") or _working(found):
        return None
    said = f"FNWORK_DEVICE={found.override} asks for a card, and there is none that works"
    return Verdict(said, _unset(found, "FNWORK_DEVICE"))


def _slow(found: Findings) -> Verdict | None:
    problem = found.numba.problem
    if not problem or _working(found):
        return None
    again = f"{found.python} -m pip install --force-reinstall numba"
    mend = _unset(found, "NUMBA_DISABLE_JIT") if "NUMBA_DISABLE_JIT" in problem else again
    return Verdict(f"training works, but slowly: Numba cannot compile ({problem})", mend)


def _good(found: Findings) -> Verdict:
    working = _working(found)
    if working:
        failing = {test.card for test in found.tests} - set(working)
        others = f"; not on {', '.join(sorted(failing))}, which fails its tests" if failing else ""
        return Verdict(f"training runs on {working[0]}{others}")
    return Verdict("training runs on the CPU: there is no NVIDIA card here, and none is needed")


def _working(found: Findings) -> list[str]:
    """Cards that pass every test, in the order of the tests."""
    failed = {test.card for test in found.tests if not test.passed}
    return list(dict.fromkeys(test.card for test in found.tests if test.card not in failed))


def _right_wheel(found: Findings) -> str:
    """The wheel for this driver and these cards."""
    old = any(card.capability <= LAST_OLD for card in found.driver.cards)
    return "cupy-cuda13x" if found.driver.cuda[0] >= 13 and not old else "cupy-cuda12x"


def _unset(found: Findings, name: str) -> str:
    return f"set {name}=" if found.system.startswith("Windows") else f"unset {name}"


def _pip(found: Findings, wheel: str) -> str:
    return f'{found.python} -m pip install "{wheel}[ctk]"'


def _old_driver(found: Findings) -> Verdict:
    newest = ".".join(map(str, found.driver.cuda))
    said = f"the driver {found.driver.version} is too old: it runs CUDA {newest}, and CuPy needs a newer one"
    return Verdict(said, _driver_command(found))


def _driver_command(found: Findings) -> str:
    return DRIVERS.get(found.distribution, f"install the newest driver from {DOWNLOAD}")


def _unwritable(found: Findings) -> Verdict:
    said = f"CuPy cannot keep its kernels in {found.kernel_cache.path}, so it compiles them at every start or fails"
    windows = found.system.startswith("Windows")
    return Verdict(said, f"{'set' if windows else 'export'} CUPY_CACHE_DIR={'%TEMP%' if windows else '/tmp'}/cupy")


def describe(card: Listed) -> str:
    """A card in one line."""
    sizes = [f"{size / 2**30:.1f}" for size in (card.free, card.total)]
    capability = ".".join(map(str, card.capability))
    return f"{card.name}, {sizes[0]} of {sizes[1]} GiB free, compute capability {capability}, {card.uuid}"
