"""The kernels of a card, compiled for every kind of card by the compiler that CuPy uses. That needs no card."""

from __future__ import annotations

import ctypes
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.ops.cuda import launch

CAPABILITIES = ["6.1", "7.5", "8.6", "8.9", "9.0", "12.0"]


def find() -> Path | None:
    """The library of the package nvidia-cuda-nvrtc-cu12."""
    package = find_spec("nvidia.cuda_nvrtc") if find_spec("nvidia") else None
    folders = package.submodule_search_locations if package else []
    found = [path for folder in folders for path in Path(folder).glob("*/*nvrtc*")]
    names = re.compile(r"libnvrtc\.so\.\d+|nvrtc64_\d+_0\.dll")
    return next((path for path in found if names.fullmatch(path.name)), None)


NVRTC = find()


class Compiler:
    """The few functions of NVRTC that compiling takes."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))

    def _call(self, name: str, *arguments: object) -> int:
        return getattr(self._library, f"nvrtc{name}")(*arguments)

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        assert self._call(f"Get{what}Size", program, ctypes.byref(size)) == 0
        text = ctypes.create_string_buffer(size.value)
        assert self._call(f"Get{what}", program, text) == 0
        return text.raw

    def compile(self, source: str, *options: str) -> tuple[bytes, str]:
        """The machine code of a source, empty where it does not compile, and what the compiler says."""
        program = ctypes.c_void_p()
        assert self._call("CreateProgram", ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None) == 0
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = self._call("CompileProgram", program, len(options), given)
        log = self._text(program, "ProgramLog").rstrip(b"\0").decode()
        code = b"" if failed else self._text(program, "CUBIN")
        assert self._call("DestroyProgram", ctypes.byref(program)) == 0
        return code, log


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc-cu12 is not installed")
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_compile(capability: str) -> None:
    source = launch.source()
    names = re.findall(r"^KERNEL (\w+)\(", source, re.MULTILINE)
    architecture = f"-arch=sm_{capability.replace('.', '')}"
    code, log = Compiler(NVRTC).compile(source, architecture, "-std=c++14")
    assert code.startswith(b"\x7fELF"), log
    assert "kernels.cu" not in log  # no warning of a line of it
    assert names and all(name.encode() + b"\0" in code for name in names)


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc-cu12 is not installed")
def test_a_mistake_does_not_compile() -> None:
    code, log = Compiler(NVRTC).compile(launch.source() + "KERNEL wrong() { nothing(); }", "-arch=sm_75")
    assert not code and "nothing" in log
