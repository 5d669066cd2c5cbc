"""What attention layers are made of: means and maxima of images, gates, and a convolution across channels.

For images (N, H, W, C) a row of numbers a channel is (k N, C), rows of one kind N apart, and a number a position is
(N, H, W, k): k = 2 for means and maxima, 1 for means or logits alone.
"""

from collections.abc import Iterator

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.operation import array_module, compute_dtype, matching, operation, piece_bytes, slices
from engine.ops.reference.activation import sigmoid


def _each(numbers: Array, x: Array) -> list[Array]:
    """Each of the k kinds of numbers in a shape that goes with x: (N, 1, 1, C) or (N, H, W, 1)."""
    if numbers.ndim == 2:
        return list(numbers.reshape(-1, x.shape[0], 1, 1, x.shape[3]))
    return [numbers[..., kind : kind + 1] for kind in range(numbers.shape[3])]


def _over(numbers: Array) -> dict[str, object]:
    """How to reduce images to such numbers."""
    return {"axis": tuple(axis for axis in (1, 2, 3) if numbers.shape[axis] == 1), "keepdims": True}


def _piece(x: Array) -> ArraySpec:
    """Some of the images, in the dtype of the arithmetic."""
    images = max(1, min(x.shape[0], piece_bytes() * x.shape[0] // (4 * x.size)))
    return ArraySpec((images, *x.shape[1:]), compute_dtype(x))


def _in_pieces(*arrays: Array, work: Scratch = ()) -> Iterator[list[Array]]:
    return matching(slices(arrays[0].shape[0], _piece(arrays[0]).shape[0]), arrays, work)


@operation()
def summarise(x: Array, out: Array, *, work: Scratch) -> None:
    """out = the means of x over positions or channels, and its largest values where there is room for them."""
    for source, mean, *largest in _in_pieces(x, *_each(out, x)):
        mean[...] = source.sum(**_over(mean), dtype=compute_dtype(x)) / (source.size // mean.size)
        for each in largest:
            each[...] = source.max(**_over(mean))


@operation(workspace=lambda x, grad, out: [_piece(x)])
def summarise_backward(x: Array, grad: Array, out: Array, *, work: Scratch) -> None:
    """out += d loss / d x: grad / count everywhere, and the largest one's shared among the places that hold it."""
    for source, target, mean, *largest, share in _in_pieces(x, out, *_each(grad, x), work=work):
        target += mean / share.dtype.type(source.size // mean.size)
        for upstream in largest:
            array_module(x).equal(source, source.max(**_over(mean)), out=share)
            share *= upstream / share.sum(**_over(mean))
            target += share


def _gate_spec(x: Array, logits: Array) -> ArraySpec:
    return ArraySpec(logits.shape if len(logits.shape) == 4 else (x.shape[0], 1, 1, x.shape[3]), compute_dtype(x))


def _gates(logits: Array, x: Array, out: Array) -> None:
    out[...] = sum(_each(logits, x))
    sigmoid(array_module(x), out, out)


@operation(workspace=lambda x, logits, out: [_gate_spec(x, logits)])
def gate(x: Array, logits: Array, out: Array, *, work: Scratch) -> None:
    """out = x * sigmoid(logits), logits of several kinds added up first."""
    _gates(logits, x, work[0])
    array_module(x).multiply(x, work[0], out=out)


@operation(workspace=lambda x, logits, grad, logits_grad: [_gate_spec(x, logits), _piece(x)])
def gate_backward(x: Array, logits: Array, grad: Array, logits_grad: Array, *, work: Scratch) -> None:
    """logits_grad = s * (1 - s) * the sum of grad * x over what shares a gate; grad becomes grad * s, s the sigmoid."""
    gates, *scratch = work
    _gates(logits, x, gates)
    for source, upstream, s, *slopes, product in _in_pieces(x, grad, gates, *_each(logits_grad, x), work=scratch):
        array_module(x).multiply(source, upstream, out=product)
        for slope in slopes:
            slope[...] = product.sum(**_over(s)) * s * (1 - s)
        upstream *= s


def _slide_workspace(x: Array, weight: Array) -> list[ArraySpec]:
    shapes = (x.shape[0], x.shape[1] + weight.size - 1), x.shape
    return [ArraySpec(shape, compute_dtype(x, weight)) for shape in shapes]


def _shifted(x: Array, kernel: int, padded: Array) -> Iterator[Array]:
    """x + (kernel - 1) / 2 columns to the left, ..., as many to the right, with zeros where it ends."""
    padded[...] = 0
    padded[:, kernel // 2 :][:, : x.shape[1]] = x
    return (padded[:, place:][:, : x.shape[1]] for place in range(kernel))


@operation(workspace=lambda x, weight, out: _slide_workspace(x, weight))
def slide(x: Array, weight: Array, out: Array, *, work: Scratch) -> None:
    """out[n, c] = sum over k of weight[k] * x[n, c + k - (kernel - 1) / 2]; x (N, C), weight (kernel,) of odd size."""
    padded, total = work
    total[...] = 0
    for factor, here in zip(weight, _shifted(x, weight.size, padded), strict=True):
        total += factor * here
    out[...] = total


@operation(workspace=lambda x, grad, weight_grad: _slide_workspace(x, weight_grad))
def slide_gradient(x: Array, grad: Array, weight_grad: Array, *, work: Scratch) -> None:
    """weight_grad[k] += sum over n and c of grad[n, c] * x[n, c + k - (kernel - 1) / 2]."""
    padded, product = work
    for place, here in enumerate(_shifted(x, weight_grad.size, padded)):
        weight_grad[place] += array_module(x).multiply(here, grad, out=product).sum()
