"""What the engine uses of cuDNN's module, by the reference on NumPy, refusing what the library does not do."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from engine.ops import reference
from engine.ops.cuda.cudnn import GIVEN

HALF, FLOAT = "half", "float"
HANDLE, STREAM = object(), 7


class Tensor:
    numbers = itertools.count(100)

    def __init__(self, dim: list[int], stride: list[int], data_type: str) -> None:
        self.dim, self.stride, self.data_type, self.number = dim, stride, data_type, next(self.numbers)
        self.output = False

    def set_output(self, output: bool) -> Tensor:
        self.output = output
        return self

    def set_data_type(self, data_type: str) -> Tensor:
        self.data_type = data_type
        return self

    def set_dim(self, dim: list[int]) -> Tensor:
        self.dim = dim
        return self

    def set_stride(self, stride: list[int]) -> Tensor:
        self.stride = stride
        return self

    def get_uid(self) -> int:
        return self.number

    def at(self, pointer: int) -> np.ndarray:
        """The NHWC array that lies there."""
        count, depth, height, width = self.dim
        assert self.stride == [height * width * depth, 1, width * depth, depth] and self.data_type == HALF
        memory = (ctypes.c_char * (2 * count * depth * height * width)).from_address(pointer)
        return np.frombuffer(memory, np.float16).reshape(count, height, width, depth)


class pygraph:
    """One convolution. As the library, it wants channels in multiples of `pack` where weights are computed."""

    executed: list[str] = []  # noqa: RUF012
    do: Callable[[Callable[[], Any]], None]
    pack = 8

    def __init__(self, *, io_data_type: str, intermediate_data_type: str, compute_data_type: str, handle: Any) -> None:
        assert (io_data_type, intermediate_data_type, compute_data_type, handle) == (HALF, FLOAT, FLOAT, HANDLE)
        self._steps: list[Any] = []

    tensor = staticmethod(Tensor)

    def __getattr__(self, kind: str) -> Any:
        if kind not in GIVEN:
            raise AttributeError(kind)

        def convolution(*given: Tensor, padding: list[int], stride: list[int], dilation: list[int]) -> Tensor:
            assert dilation == [1, 1]
            self._kind, self._given = kind, dict(zip(GIVEN[kind], given, strict=True))
            self._geometry = {"stride": stride[0], "padding": padding[0]}
            self._made = Tensor([], [], "")
            return self._made

        return convolution

    def _step(self, name: str) -> None:
        order = ["validate", "operations", "plans", "notes", "workspace", "support", "build"]
        assert name == order[len(self._steps)]
        self._steps.append(name)

    def validate(self) -> None:
        self._step("validate")

    def build_operation_graph(self) -> None:
        self._step("operations")

    def create_execution_plans(self, modes: list[str]) -> None:
        assert modes == ["A"]
        self._step("plans")

    def deselect_numeric_notes(self, notes: list[str]) -> None:
        assert notes == ["not deterministic"]
        self._step("notes")

    def deselect_workspace_greater_than(self, room: int) -> None:
        assert room >= 0
        self._step("workspace")

    def check_support(self) -> None:
        self._step("support")
        tensors = {**self._given, 3 - sum(self._given): self._made}
        if self._kind == "conv_wgrad" and tensors[0].dim[1] % self.pack:
            raise RuntimeError("no engine for this graph")

    def build_plans(self) -> None:
        self._step("build")

    def execute(self, pointers: dict[int, int], scratch: int, *, handle: Any) -> None:
        assert len(self._steps) == 7 and handle is HANDLE and self._made.output
        tensors = {**self._given, 3 - sum(self._given): self._made}
        arrays = [tensors[place].at(pointers[tensors[place].number]) for place in range(3)]
        self.do(lambda: self._compute(*arrays))

    def _compute(self, images: np.ndarray, weight: np.ndarray, made: np.ndarray) -> None:
        self.executed.append(self._kind)
        wide = [array.astype(np.float32) for array in (images, weight, made)]
        if self._kind == "conv_fprop":
            arguments, target = [*wide[:2], None, wide[2]], (made, wide[2])
            operation = reference.convolve
        elif self._kind == "conv_dgrad":
            operation, arguments, target = (
                reference.convolve_input_gradient,
                [wide[2], wide[1], wide[0]],
                (images, wide[0]),
            )
        else:
            wide[1][...] = 0
            arguments, target = [wide[0], wide[2], wide[1], None], (weight, wide[1])
            operation = reference.convolve_weight_gradient
        work = [np.empty(spec.shape, spec.dtype) for spec in operation.workspace(*arguments, **self._geometry)]
        operation.compute(*arguments, work=work, **self._geometry)
        target[0][...] = target[1]


def module(do: Callable[[Callable[[], Any]], None]) -> ModuleType:
    """What `import cudnn` finds; `do` has work done by the card."""
    pygraph.do = staticmethod(do)
    made = ModuleType("cudnn")
    made.data_type = SimpleNamespace(HALF=HALF, FLOAT=FLOAT)
    made.heur_mode = SimpleNamespace(A="A")
    made.numerical_note = SimpleNamespace(NONDETERMINISTIC="not deterministic")
    made.create_handle = lambda: HANDLE
    made.pygraph = pygraph

    def set_stream(handle: Any, stream: int) -> None:
        assert handle is HANDLE and stream == STREAM

    made.set_stream = set_stream
    return made
