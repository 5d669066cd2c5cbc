"""Builds CUDA sources for the CPU with g++."""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HEADER = Path(__file__).with_name("cuda_on_cpu.h")


def obstacle() -> str:
    """Why nothing can be built here, or ''."""
    if not sys.platform.startswith("linux"):
        return "kernels are built for the CPU on Linux only"
    return "" if shutil.which("g++") else "no g++"


@cache
def library(source: str) -> ctypes.CDLL:
    """The kernels of a source as functions launch_NAME; built once for each source."""
    names = re.findall(r"^KERNEL (\w+)\(", source, re.MULTILINE)
    text = "\n".join([f'#include "{HEADER}"', source, *(f"ENTRY({name})" for name in names)])
    digest = hashlib.sha256((text + HEADER.read_text(encoding="utf-8")).encode()).hexdigest()[:16]
    built = Path(tempfile.gettempdir()) / f"fnwork-kernels-{os.getuid()}" / f"{digest}.so"
    if not built.exists():
        built.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            path = Path(folder) / "kernels.cpp"
            path.write_text(text, encoding="utf-8")
            made = path.with_suffix(".so")
            options = ["-std=c++17", "-O1", "-fPIC", "-shared", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE", "-w"]
            subprocess.run(["g++", *options, "-o", made, path], check=True)
            made.replace(built)
    return ctypes.CDLL(str(built))
