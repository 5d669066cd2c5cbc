"""Convolution in half precision by cuDNN, where its module is installed: one kernel for many columns and products.

Of the algorithms that its heuristics name, it takes the first that gives the same result each time and keeps to the
scratch at hand. Exact float32 gains nothing from it: without TF32 it is as fast as columns and products at best, and at
worst far from it.
"""

from functools import cache
from typing import Any

from engine.memory import Array, Shape

# What each kind is given, in cuDNN's order: 0 the images, 1 the weights, 2 what they make. It computes the third.
GIVEN = {"conv_fprop": (0, 1), "conv_dgrad": (2, 1), "conv_wgrad": (0, 2)}


@cache
def _library(device: int) -> tuple[Any, Any]:
    """The module and its handle of a device."""
    import cudnn

    return cudnn, cudnn.create_handle()


@cache
def _plan(device: int, kind: str, shapes: tuple[Shape, ...], stride: int, padding: int, room: int) -> Any:
    """The graph of a convolution over arrays of these shapes, and the numbers of its tensors; None where there is none.
    `room`: bytes of scratch.
    """
    try:
        cudnn, handle = _library(device)
        half, single = cudnn.data_type.HALF, cudnn.data_type.FLOAT
        graph = cudnn.pygraph(io_data_type=half, intermediate_data_type=single, compute_data_type=single, handle=handle)
        # NHWC in memory, NCHW by name
        sizes = [[count, depth, rows, columns] for count, rows, columns, depth in shapes]
        strides = [[depth * rows * columns, 1, depth * columns, depth] for _, depth, rows, columns in sizes]
        tensors = {i: graph.tensor(dim=sizes[i], stride=strides[i], data_type=half) for i in GIVEN[kind]}
        geometry = {"padding": [padding] * 2, "stride": [stride] * 2, "dilation": [1, 1]}
        made, place = getattr(graph, kind)(*tensors.values(), **geometry), 3 - sum(GIVEN[kind])
        tensors[place] = made.set_output(True).set_data_type(half).set_dim(sizes[place]).set_stride(strides[place])
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A])
        graph.deselect_numeric_notes([cudnn.numerical_note.NONDETERMINISTIC])
        graph.deselect_workspace_greater_than(room)
        graph.check_support()
        graph.build_plans()
        return graph, [tensors[place].get_uid() for place in range(3)]
    except Exception:  # of many kinds: it is not installed, does not suit the card, or knows no way
        return None


def convolution(kind: str, image: Array, weight: Array, made: Array, room: Array, *, stride: int, padding: int) -> bool:
    """Computes one of the three arrays from the two others, all of them of float16; False where it cannot."""
    from cupy.cuda import get_current_stream, runtime

    arrays, device = (image, weight, made), runtime.getDevice()
    plan = _plan(device, kind, tuple(array.shape for array in arrays), stride, padding, room.nbytes)
    if plan:
        cudnn, handle = _library(device)
        cudnn.set_stream(handle, get_current_stream().ptr)
        graph, numbers = plan
        pointers = {number: array.data.ptr for number, array in zip(numbers, arrays, strict=True)}
        graph.execute(pointers, room.data.ptr, handle=handle)
    return bool(plan)
