"""Passes over flat memory, and what is one of them on a card: pooling and the loss of classification."""

from engine.memory import Array, Scratch
from engine.ops import reference
from engine.ops.cuda.launch import launch
from engine.ops.operation import Operation, in_card_pieces, no_scratch, operation


@operation()
def dropout(x: Array, place: Array, out: Array, *, rate: float, seed: int, layer: int, work: Scratch) -> None:
    """As the reference, with the same draws."""
    launch("dropout", x.size, x, out, place, rate, seed, layer, each=8)


def _pool(large: Array, small: Array, positions: Array | None, size: int, backward: int) -> None:
    images, *shape, _ = small.shape
    pack = 4 if size == 2 else 1
    threads = images * -(-small.size // images // pack)
    launch("max_pool", threads, large, small, positions, backward, pack, size, *large.shape[1:], *shape)


@operation()
def max_pool(x: Array, out: Array, positions: Array | None, *, size: int, work: Scratch) -> None:
    """As the reference."""
    _pool(x, out, positions, size, 0)


@operation()
def max_pool_backward(positions: Array, grad: Array, out: Array, *, size: int, work: Scratch) -> None:
    """As the reference."""
    if out.shape[1] % size or out.shape[2] % size:
        out[...] = 0
    _pool(out, grad, positions, size, 1)


def _means(x: Array, out: Array, *, work: Scratch) -> None:
    launch("means", out.size, x.size // out.size, x.shape[3], x, out)


_all = in_card_pieces(reference.summarise)
summarise = Operation(_means, no_scratch, _all.flops, lambda x, out: out.shape == (x.shape[0], x.shape[3]), _all)


@operation()
def cross_entropy(
    logits: Array, targets: Array, grad: Array | None, totals: Array, *, smoothing: float, factor: float, work: Scratch
) -> None:
    """As the reference."""
    arrays = (logits, targets, grad, totals)
    launch("cross_entropy", *logits.shape, *arrays, len(targets.shape) - 1, float(smoothing), factor, grid=(1,))


@operation()
def relu(x: Array, out: Array, mask: Array | None, *, work: Scratch) -> None:
    """As the reference."""
    launch("affine", x.size, 1, x, None, None, out, mask, 1, 1.0, 0.0, each=8)


@operation()
def relu_backward(mask: Array, grad: Array, out: Array, *, work: Scratch) -> None:
    """As the reference."""
    launch("affine", grad.size, 1, grad, None, None, out, mask, 2, 1.0, 0.0, each=8)
