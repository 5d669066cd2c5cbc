"""What the engine uses of CuPy, made of NumPy: the "card" is the host's own memory, its kernels are built with g++."""

import ctypes
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuda_on_cpu import fake_cudnn
from cuda_on_cpu.build import library
from cuda_on_cpu.fake_cudnn import STREAM
from engine.ops.cuda import cudnn, launch

REAL_16F, REAL_32F = 2, 0
DTYPES = {REAL_16F: np.float16, REAL_32F: np.float32}
COMPUTE_32F = 68
FAILURES = {-1: "number of arguments", -2: "barrier that some threads do not reach"}


class RecordingStream:
    """The stream all work goes to: at once, or to where it is recorded."""

    ptr = STREAM

    def __init__(self) -> None:
        self.recorded: list[Callable[[], Any]] | None = None
        self.launched = 0

    def do(self, work: Callable[[], Any]) -> None:
        if self.recorded is None:
            work()
        else:
            self.recorded.append(work)

    def begin_capture(self) -> None:
        assert self.recorded is None
        self.recorded = []

    def end_capture(self) -> SimpleNamespace:
        work, self.recorded = self.recorded, None

        def launch(stream: RecordingStream) -> None:
            assert stream is self
            self.launched += 1
            for each in work:
                each()

        return SimpleNamespace(launch=launch)

    def synchronize(self) -> None:
        assert self.recorded is None


stream = RecordingStream()


class CardArray(np.ndarray):
    """An array "on the card"."""

    @property
    def data(self) -> SimpleNamespace:
        return SimpleNamespace(ptr=self.ctypes.data)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if out is None:
            return _made(getattr(ufunc, method), inputs, options)
        options["out"], inputs = _plain(out), _plain(inputs)
        stream.do(lambda: getattr(ufunc, method)(*inputs, **options))
        return out[0]

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        return _made(function, inputs, options)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)  # a single number stays on the card
        return found if isinstance(found, np.ndarray) else super().__getitem__((key, ...))

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __setitem__(self, key: Any, value: Any) -> None:
        stream.do(lambda: super(CardArray, self).__setitem__(key, value))

    def get(self) -> np.ndarray:
        assert stream.recorded is None
        return np.array(self)

    def set(self, values: np.ndarray) -> None:
        assert stream.recorded is None
        assert type(values) is np.ndarray and values.shape == self.shape and values.dtype == self.dtype
        self[...] = values


def _plain(values: Any) -> Any:
    """Arrays of the host in the place of those on the card, also within lists."""
    if isinstance(values, list | tuple):
        return tuple(map(_plain, values))
    return values.view(np.ndarray) if isinstance(values, CardArray) else values


def _made(function: Callable[..., Any], inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """A new array, which a recording writes each time."""
    inputs, options = _plain(inputs), {name: _plain(value) for name, value in options.items()}
    with np.errstate(all="ignore"):  # while it is recorded the inputs are not there yet
        made = np.asarray(function(*inputs, **options))
    if stream.recorded is not None:
        made[...] = 0
        stream.do(lambda: made.__setitem__(..., function(*inputs, **options)))
    return made.view(CardArray)


def on_card(values: Any) -> CardArray:
    return np.ascontiguousarray(values).view(CardArray)


class RawKernel:
    """A kernel, whose threads run in one order at one launch and in the other at the next."""

    reverse = itertools.cycle([False, True])

    def __init__(self, function: Any, name: str) -> None:
        self._function, self._name = function, name

    def __call__(self, grid: tuple[int, ...], block: tuple[int], arguments: tuple[Any, ...]) -> None:
        values = [_passed(argument) for argument in arguments]
        count = len(values)
        kinds = "".join(kind for kind, _ in values).encode()
        sizes = (ctypes.c_size_t * count)(*(ctypes.sizeof(value) for _, value in values))
        pointers = (ctypes.c_void_p * count)(*(ctypes.addressof(value) for _, value in values))
        shape = (ctypes.c_uint * 2)(*(max(1, size) for size in (*grid, 1)[:2]))
        assert all(type(size) is int for size in grid) and len(block) == 1

        def work() -> None:
            assert values  # which the pointers lead to
            failed = self._function(shape, block[0], next(self.reverse), kinds, sizes, pointers)
            assert not failed, (
                f"{self._name}: {FAILURES.get(failed, f'argument {failed - 1}: {arguments[failed - 1]!r}')}"
            )

        stream.do(work)


def _passed(argument: Any) -> tuple[str, Any]:
    """The kind of a kernel's argument and its value, by the rules of CuPy."""
    if argument is None:
        return "p", ctypes.c_void_p(0)
    if isinstance(argument, CardArray):
        assert argument.flags.c_contiguous
        return "p", ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, np.ndarray) and argument.size == 1:
        return "s", (ctypes.c_char * argument.nbytes).from_buffer_copy(argument.tobytes())
    if type(argument) is int:
        return "i", ctypes.c_longlong(argument)
    if type(argument) is float:
        return "d", ctypes.c_double(argument)
    raise TypeError(f"no argument of a kernel: {argument!r}")


class RawModule:
    def __init__(self, *, code: str) -> None:
        self._library = library(code)

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(getattr(self._library, f"launch_{name}"), name)


def _matrix(pointer: int, kind: int, rows: int, columns: int, leading: int) -> np.ndarray:
    """A view of a matrix stored column by column."""
    dtype = np.dtype(DTYPES[kind])
    assert leading >= rows
    memory = (ctypes.c_char * (leading * columns * dtype.itemsize)).from_address(pointer)
    return np.frombuffer(memory, dtype).reshape(columns, leading)[:, :rows].T


def gemm_ex(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, a: int, a_type: int, lda: int,
    b: int, b_type: int, ldb: int, beta: int, c: int, c_type: int, ldc: int, compute: int, algorithm: int,
) -> int:  # fmt: skip
    """c = alpha * a @ b + beta * c as cublasGemmEx does it, refusing what that does not support."""
    assert (handle, compute, algorithm) == (1, COMPUTE_32F, -1)
    assert (a_type, b_type, c_type) in {
        (REAL_16F, REAL_16F, REAL_16F), (REAL_16F, REAL_16F, REAL_32F), (REAL_32F, REAL_32F, REAL_32F)
    }  # fmt: skip
    assert min(m, n, k) > 0
    left = _matrix(a, a_type, *((k, m) if transa else (m, k)), lda)
    right = _matrix(b, b_type, *((n, k) if transb else (k, n)), ldb)
    result = _matrix(c, c_type, m, n, ldc)
    factor, kept = (ctypes.c_float.from_address(pointer).value for pointer in (alpha, beta))

    def work() -> None:
        product = (left.T if transa else left).astype(np.float32) @ (right.T if transb else right).astype(np.float32)
        result[...] = factor * product + (kept * result.astype(np.float32) if kept else 0)

    stream.do(work)
    return 0


BLAS = SimpleNamespace(cublasGemmEx=gemm_ex, cublasSetStream_v2=lambda handle, stream: int(stream != STREAM))


def equip(cupy: ModuleType, cuda: ModuleType) -> None:
    """Gives a module that stands for CuPy, and its `cuda`, what the operations of a card use."""
    cuda.cublas = SimpleNamespace(CUBLAS_OP_N=0, CUBLAS_COMPUTE_32F=COMPUTE_32F, CUBLAS_GEMM_DEFAULT=-1)
    cuda.device = SimpleNamespace(get_cublas_handle=lambda: 1)
    cuda.runtime = SimpleNamespace(CUDA_R_16F=REAL_16F, CUDA_R_32F=REAL_32F, getDevice=lambda: 0)
    cuda.get_current_stream = lambda: stream
    cupy.RawModule, cupy.cuda = RawModule, cuda


@contextmanager
def installed(*, with_cudnn: bool = False) -> Iterator[None]:
    """`import cupy` finds the stand-in, and `import cudnn` one or nothing."""
    names = ("cupy", "cupy.cuda")
    modules = [ModuleType(name) for name in names]
    equip(*modules)
    kept = (launch._kernel, launch._module, cudnn._plan, cudnn._library)
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, module in zip(names, modules, strict=True):
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setitem(sys.modules, "cudnn", fake_cudnn.module(stream.do) if with_cudnn else None)
        monkeypatch.setattr(launch, "_blas", lambda: BLAS)
        for each in kept:
            each.cache_clear()
        yield
    for each in kept:
        each.cache_clear()
