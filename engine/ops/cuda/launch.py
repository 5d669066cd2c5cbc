"""How kernels reach a card: they are compiled when the first one is launched; and products of matrices, by cuBLAS."""

from ctypes import CDLL, c_int, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from engine.memory import Array

BLOCK = 256  # threads of a block
KERNELS = Path(__file__).parent / "kernels"
SOURCES = ("storage", "normalization", "convolution", "flat", "pooling", "loss", "update", "images")
HALF = np.dtype(np.float16)
ALLOC_FAILED = 3  # of cuBLAS
_ZERO_ONE = np.array([0, 1], np.float32)


def source() -> str:
    """The text of all kernels."""
    return "".join((KERNELS / f"{name}.cu").read_text(encoding="utf-8") for name in SOURCES)


@cache
def _module() -> Any:
    import cupy

    return cupy.RawModule(code=source())


@cache
def _kernel(name: str) -> Any:
    return _module().get_function(name)


def launch(
    name: str, size: int, *arguments: Array | int | float | None, each: int = 1, grid: tuple[int, ...] = ()
) -> None:
    """Runs a kernel for `size` elements, its first argument, of which a thread takes `each`, or on a grid of blocks.
    There whole numbers are 64-bit ones, others doubles, None a null pointer.
    """
    halves = sum(2 << place for place, value in enumerate(arguments) if getattr(value, "dtype", None) == HALF)
    _kernel(name)(grid or (-(-size // (BLOCK * each)),), (BLOCK,), (halves, size, *arguments))


@cache
def _blas() -> Any:
    """cuBLAS itself, of which CuPy has loaded a copy: CuPy's own functions refuse while work is being recorded."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    blas = CDLL(load_nvidia_dynamic_lib("cublas").abs_path)
    whole, place = [c_int], [c_void_p]
    blas.cublasSetStream_v2.argtypes = 2 * place
    matrix = place + 2 * whole
    blas.cublasGemmEx.argtypes = place + 5 * whole + place + 2 * matrix + place + matrix + 2 * whole
    return blas


def product(a: Array, b: Array, out: Array, *, a_transposed: bool = False, add: bool = False) -> None:
    """out = a @ b of matrices without gaps, or out += a @ b; a and b of one dtype, their products summed in float32."""
    from cupy.cuda import cublas, device, get_current_stream, runtime

    def matrix(array: Array) -> tuple[int, int, int]:
        return array.data.ptr, runtime.CUDA_R_16F if array.dtype == HALF else runtime.CUDA_R_32F, array.shape[1]

    # cuBLAS stores matrices column by column: it finds ours transposed, and so gets b first.
    zero, handle = _ZERO_ONE.ctypes.data, device.get_cublas_handle()
    failed = _blas().cublasSetStream_v2(handle, get_current_stream().ptr) or _blas().cublasGemmEx(
        handle, cublas.CUBLAS_OP_N, int(a_transposed), *out.shape[::-1], len(b), zero + 4,
        *matrix(b), *matrix(a), zero + 4 * add, *matrix(out), cublas.CUBLAS_COMPUTE_32F, cublas.CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip
    if failed:
        raise RuntimeError(f"cuBLAS: status {failed}" + (", ALLOC_FAILED" if failed == ALLOC_FAILED else ""))
