"""3x3 convolution of stride 1 by minimal filtering (Winograd 1980; Lavin and Gray 2016), F(2x2, 3x3).

A tile of 4x4 inputs gives 2x2 outputs with 16 multiplications instead of 36. With g the kernel and d the tile, the
output is A^T [(G g G^T) * (B^T d B)] A. Over all tiles and channels each of the 16 products is a matrix product. The
gradients are the transposed maps: by the kernel, dg = G^T [sum over tiles of (A dy A^T) * (B^T d B)] G.

Planes: 16 matrices of (tiles, channels rounded up to COLUMNS), PLANE_GAP apart so that they do not fall on the same
cache lines.
"""

import numpy as np

from engine.memory import Array, ArraySpec
from engine.ops.cpu.lanes import LANES, load, load_until, splat, store, store_until
from engine.ops.cpu.product import COLUMNS, multiply_four, multiply_six
from engine.ops.cpu.storage import NOTHING, flat
from engine.ops.cpu.threads import THREADS, in_parallel, kernel, shares

PRODUCTS = 16
PLANE_GAP = 16
PIECE_FLOATS = 3 << 15  # planes of one piece: 384 KiB, within a core's second-level cache
STEP = 24  # tiles: a multiple of 6 and of 4


def rounded(size: int, step: int = COLUMNS) -> int:
    """`size` rounded up to a multiple of `step`."""
    return -(-size // step) * step


def suits(kernel: int, stride: int, inputs: int, outputs: int) -> bool:
    """Whether this way is the fast one."""
    return kernel == 3 and stride == 1 and min(inputs, outputs) >= 16


def _piece_tiles(inputs: int, outputs: int, at_least: int = STEP) -> int:
    tiles = PIECE_FLOATS // (PRODUCTS * (rounded(inputs) + rounded(outputs)))
    return max(at_least, tiles // STEP * STEP)


def _gradient_tiles(inputs: int, outputs: int) -> int:
    """Larger pieces, since each one adds to all the sums, the more so where those do not fit the cache either."""
    return _piece_tiles(inputs, outputs, 2 * STEP if PRODUCTS * inputs * outputs < PIECE_FLOATS else 4 * STEP)


def _width(channels: int) -> int:
    """Floats of a row of a plane: an odd number of cache lines where rows are long, so that a column fits the cache."""
    width = rounded(channels)
    return width + COLUMNS if width >= 128 and width // COLUMNS % 2 == 0 else width


def _plane(tiles: int, channels: int) -> int:
    return tiles * _width(channels) + PLANE_GAP


@kernel
def _weight_planes(weight, base, row, column, down, right, rows, columns, first, last, planes):
    """planes[p][block of 16 columns][row][column in block] = (G g G^T)[p].

    Element (a, b) of g for row r and column n lies at base + r * row + n * column + a * down + b * right.
    """
    blocks = (columns + 15) // 16
    size = blocks * rows * 16
    half = np.float32(0.5)
    for block in range(first, last):
        for r in range(rows):
            for lane in range(16):
                n = block * 16 + lane
                at = (block * rows + r) * 16 + lane
                if n >= columns:
                    for p in range(16):
                        planes[p * size + at] = 0
                    continue
                start = base + r * row + n * column
                for b in range(3):
                    g0 = weight[start + b * right]
                    g1 = weight[start + down + b * right]
                    g2 = weight[start + 2 * down + b * right]
                    # G g first, in the places that its rows are then replaced in
                    outer = half * (g0 + g2)
                    inner = half * g1
                    planes[b * size + at] = g0
                    planes[(4 + b) * size + at] = outer + inner
                    planes[(8 + b) * size + at] = outer - inner
                    planes[(12 + b) * size + at] = g2
                for a in range(4):
                    g0 = planes[4 * a * size + at]
                    g1 = planes[(4 * a + 1) * size + at]
                    g2 = planes[(4 * a + 2) * size + at]
                    outer = half * (g0 + g2)
                    inner = half * g1
                    planes[(4 * a + 1) * size + at] = outer + inner
                    planes[(4 * a + 2) * size + at] = outer - inner
                    planes[(4 * a + 3) * size + at] = g2


@kernel
def _input_planes(source, shape, padding, across, down, first, last, planes, plane, width):
    """planes[p][tile] = (B^T d B)[p] for tiles first..last, counted over images, rows and columns of tiles."""
    _, height, breadth, channels = shape
    for tile in range(first, last):
        image = tile // (across * down)
        top = tile // across % down * 2 - padding
        left = tile % across * 2 - padding
        to = (tile - first) * width
        for c in range(0, channels, LANES):
            for column in range(4):
                x = left + column
                inside = x >= 0 and x < breadth
                at = ((image * height + top) * breadth + x) * channels + c
                below = breadth * channels
                end = channels - c
                d0 = load_until(source, at, at + end) if inside and top >= 0 and top < height else splat(np.float32(0))
                at += below
                d1 = (
                    load_until(source, at, at + end)
                    if inside and top + 1 >= 0 and top + 1 < height
                    else splat(np.float32(0))
                )
                at += below
                d2 = (
                    load_until(source, at, at + end)
                    if inside and top + 2 >= 0 and top + 2 < height
                    else splat(np.float32(0))
                )
                at += below
                d3 = load_until(source, at, at + end) if inside and top + 3 < height else splat(np.float32(0))
                here = column * plane + to + c
                store(planes, here, d0 - d2)
                store(planes, here + 4 * plane, d1 + d2)
                store(planes, here + 8 * plane, d2 - d1)
                store(planes, here + 12 * plane, d1 - d3)
            for a in range(4):
                here = 4 * a * plane + to + c
                d0 = load(planes, here)
                d1 = load(planes, here + plane)
                d2 = load(planes, here + 2 * plane)
                d3 = load(planes, here + 3 * plane)
                store(planes, here, d0 - d2)
                store(planes, here + plane, d1 + d2)
                store(planes, here + 2 * plane, d2 - d1)
                store(planes, here + 3 * plane, d1 - d3)


@kernel
def _store_tiles(planes, plane, width, bias, out, shape, across, down, first, last):
    """The 2x2 outputs A^T m A of each tile, plus the bias."""
    _, height, breadth, channels = shape
    for tile in range(first, last):
        image = tile // (across * down)
        top = tile // across % down * 2
        left = tile % across * 2
        for c in range(0, channels, LANES):
            here = (tile - first) * width + c
            offset = load_until(bias, c, channels) if bias.size else splat(np.float32(0))
            at = ((image * height + top) * breadth + left) * channels + c
            end = channels - c
            m0 = load(planes, here) + load(planes, here + 4 * plane) + load(planes, here + 8 * plane)
            m1 = load(planes, here + plane) + load(planes, here + 5 * plane) + load(planes, here + 9 * plane)
            m2 = load(planes, here + 2 * plane) + load(planes, here + 6 * plane) + load(planes, here + 10 * plane)
            m3 = load(planes, here + 3 * plane) + load(planes, here + 7 * plane) + load(planes, here + 11 * plane)
            store_until(out, at, at + end, m0 + m1 + m2 + offset)
            if left + 1 < breadth:
                store_until(out, at + channels, at + channels + end, m1 - m2 - m3 + offset)
            if top + 1 < height:
                at += breadth * channels
                m0 = load(planes, here + 4 * plane) - load(planes, here + 8 * plane) - load(planes, here + 12 * plane)
                m1 = load(planes, here + 5 * plane) - load(planes, here + 9 * plane) - load(planes, here + 13 * plane)
                m2 = load(planes, here + 6 * plane) - load(planes, here + 10 * plane) - load(planes, here + 14 * plane)
                m3 = load(planes, here + 7 * plane) - load(planes, here + 11 * plane) - load(planes, here + 15 * plane)
                store_until(out, at, at + end, m0 + m1 + m2 + offset)
                if left + 1 < breadth:
                    store_until(out, at + channels, at + channels + end, m1 - m2 - m3 + offset)


@kernel
def _gradient_planes(grad, shape, across, down, first, last, planes, plane, width):
    """planes[p][tile] = (A dy A^T)[p]."""
    _, height, breadth, channels = shape
    for tile in range(first, last):
        image = tile // (across * down)
        top = tile // across % down * 2
        left = tile % across * 2
        right, bottom = left + 1 < breadth, top + 1 < height
        for c in range(0, channels, LANES):
            at = ((image * height + top) * breadth + left) * channels + c
            end = channels - c
            below = breadth * channels
            y00 = load_until(grad, at, at + end)
            y01 = load_until(grad, at + channels, at + channels + end) if right else splat(np.float32(0))
            at += below
            y10 = load_until(grad, at, at + end) if bottom else splat(np.float32(0))
            y11 = load_until(grad, at + channels, at + channels + end) if right and bottom else splat(np.float32(0))
            here = (tile - first) * width + c
            none = splat(np.float32(0))
            for a in range(4):
                if a == 0:
                    left_column, right_column = y00, y01
                elif a == 1:
                    left_column, right_column = y00 + y10, y01 + y11
                elif a == 2:
                    left_column, right_column = y00 - y10, y01 - y11
                else:
                    left_column, right_column = none - y10, none - y11
                store(planes, here, left_column)
                store(planes, here + plane, left_column + right_column)
                store(planes, here + 2 * plane, left_column - right_column)
                store(planes, here + 3 * plane, none - right_column)
                here += 4 * plane


@kernel
def _correlate(
    source, source_shape, padding, weights, bias, out, out_shape, first, last,
    tiles, source_width, product_width, sources, products,
):  # fmt: skip
    """Tiles first..last of the output, `tiles` at a time."""
    inputs, outputs = source_shape[3], out_shape[3]
    down, across = (out_shape[1] + 1) // 2, (out_shape[2] + 1) // 2
    columns = (outputs + 15) // 16 * 16
    source_plane, product_plane = tiles * source_width + PLANE_GAP, tiles * product_width + PLANE_GAP
    for start in range(first, last, tiles):
        stop = min(start + tiles, last)
        _input_planes(source, source_shape, padding, across, down, start, stop, sources, source_plane, source_width)
        for p in range(16):
            for n in range(0, columns, 16):
                panel = (p * columns + n) * inputs
                for row in range(0, stop - start, 6):
                    at = p * source_plane + row * source_width
                    to = p * product_plane + row * product_width + n
                    multiply_six(
                        sources, at, source_width, 1, weights, panel, 16, products, to, product_width, inputs, False
                    )
        _store_tiles(products, product_plane, product_width, bias, out, out_shape, across, down, start, stop)


@kernel
def _accumulate(
    source, source_shape, padding, grad, grad_shape, first, last,
    tiles, source_width, grad_width, sources, gradients, sums,
):  # fmt: skip
    """sums[p][block of 16 inputs][output][input in block] = over tiles first..last, gradient plane^T @ input plane."""
    inputs, outputs = source_shape[3], grad_shape[3]
    down, across = (grad_shape[1] + 1) // 2, (grad_shape[2] + 1) // 2
    rows, columns = (outputs + 15) // 16 * 16, (inputs + 15) // 16 * 16
    source_plane, grad_plane = tiles * source_width + PLANE_GAP, tiles * grad_width + PLANE_GAP
    for start in range(first, last, tiles):
        stop = min(start + tiles, last)
        _input_planes(source, source_shape, padding, across, down, start, stop, sources, source_plane, source_width)
        _gradient_planes(grad, grad_shape, across, down, start, stop, gradients, grad_plane, grad_width)
        for p in range(16):
            for n in range(0, columns, 16):
                for row in range(0, outputs, 4):
                    at = p * grad_plane + row
                    to = (p * columns + n) * rows + row * 16
                    multiply_four(
                        gradients, at, 1, grad_width, sources, p * source_plane + n, source_width,
                        sums, to, 16, stop - start, start > first,
                    )  # fmt: skip


@kernel
def _weight_gradient(sums, parts, part_size, inputs, outputs, first, last, weight_grad):
    """weight_grad += G^T (sums of all parts) G for outputs first..last."""
    rows, columns = (outputs + 15) // 16 * 16, (inputs + 15) // 16 * 16
    plane = rows * columns
    half = splat(np.float32(0.5))
    for part in range(1, parts):
        for block in range(0, 16 * columns, 16):
            for at in range((block * rows + first * 16), block * rows + last * 16, LANES):
                store(sums, at, load(sums, at) + load(sums, part * part_size + at))
    for o in range(first, last):
        for c in range(0, inputs, LANES):
            here = (c // 16 * rows + o) * 16 + c % 16
            for a in range(4):
                at = here + 4 * a * plane
                outer = half * (load(sums, at + plane) + load(sums, at + 2 * plane))
                inner = half * (load(sums, at + plane) - load(sums, at + 2 * plane))
                store(sums, at, load(sums, at) + outer)
                store(sums, at + plane, inner)
                store(sums, at + 2 * plane, load(sums, at + 3 * plane) + outer)
            for b in range(3):
                at = here + b * plane
                outer = half * (load(sums, at + 4 * plane) + load(sums, at + 8 * plane))
                inner = half * (load(sums, at + 4 * plane) - load(sums, at + 8 * plane))
                to = (o * 9 + b) * inputs + c
                end = inputs - c
                store_until(weight_grad, to, to + end, load_until(weight_grad, to, to + end) + load(sums, at) + outer)
                to += 3 * inputs
                store_until(weight_grad, to, to + end, load_until(weight_grad, to, to + end) + inner)
                to += 3 * inputs
                store_until(
                    weight_grad,
                    to,
                    to + end,
                    load_until(weight_grad, to, to + end) + load(sums, at + 12 * plane) + outer,
                )


def _tile_count(out: Array) -> int:
    batch, height, width, _ = out.shape
    return batch * ((height + 1) // 2) * ((width + 1) // 2)


def correlation_workspace(source: Array, out: Array) -> list[ArraySpec]:
    """The kernel's planes; for each thread the planes of a piece of tiles and of its products."""
    inputs, outputs = source.shape[3], out.shape[3]
    tiles = _piece_tiles(inputs, outputs)
    floats = np.dtype(np.float32)
    return [
        ArraySpec((PRODUCTS * rounded(outputs) * inputs,), floats),
        ArraySpec((THREADS, PRODUCTS * _plane(tiles, inputs)), floats),
        ArraySpec((THREADS, PRODUCTS * _plane(tiles, outputs)), floats),
    ]


def correlate(
    source: Array, weight: Array, bias: Array | None, out: Array, *, padding: int, backward: bool, work: list[Array]
) -> None:
    """out = source correlated with weight, plus bias; backward: with the kernel flipped and its channels exchanged."""
    planes, sources, products = work
    inputs, outputs = source.shape[3], out.shape[3]
    tap = weight.shape[3]
    row, column = (9 * tap, 1) if backward else (1, 9 * tap)
    base, down, right = (8 * tap, -3 * tap, -tap) if backward else (0, 3 * tap, tap)
    blocks = shares(rounded(outputs) // COLUMNS, least=max(1, (1 << 14) // (inputs * COLUMNS)))

    def transform(part: int) -> None:
        _weight_planes(flat(weight), base, row, column, down, right, inputs, outputs, *blocks[part], planes)

    in_parallel(transform, len(blocks))
    tiles = _piece_tiles(inputs, outputs)
    ranges = shares(_tile_count(out), step=STEP)
    constant = NOTHING if bias is None else bias

    def compute(part: int) -> None:
        _correlate(
            flat(source), source.shape, padding, planes, constant, flat(out), out.shape, *ranges[part],
            tiles, _width(inputs), _width(outputs), sources[part], products[part],
        )  # fmt: skip

    in_parallel(compute, len(ranges))


def weight_gradient_workspace(source: Array, grad: Array) -> list[ArraySpec]:
    """For each thread the planes of a piece of inputs and gradients, and the sums of their products."""
    inputs, outputs = source.shape[3], grad.shape[3]
    tiles = _gradient_tiles(inputs, outputs)
    floats = np.dtype(np.float32)
    return [
        ArraySpec((THREADS, PRODUCTS * _plane(tiles, inputs)), floats),
        ArraySpec((THREADS, PRODUCTS * _plane(tiles, outputs)), floats),
        ArraySpec((THREADS, PRODUCTS * rounded(outputs) * rounded(inputs)), floats),
    ]


def add_weight_gradient(source: Array, grad: Array, weight_grad: Array, *, padding: int, work: list[Array]) -> None:
    """weight_grad += d loss / d weight."""
    sources, gradients, sums = work
    inputs, outputs = source.shape[3], grad.shape[3]
    tiles = _gradient_tiles(inputs, outputs)
    ranges = shares(_tile_count(grad), step=STEP)

    def accumulate(part: int) -> None:
        _accumulate(
            flat(source), source.shape, padding, flat(grad), grad.shape, *ranges[part],
            tiles, _width(inputs), _width(outputs), sources[part], gradients[part], sums[part],
        )  # fmt: skip

    in_parallel(accumulate, len(ranges))
    rows = shares(outputs, least=max(1, (1 << 14) // inputs))

    def finish(part: int) -> None:
        _weight_gradient(sums.reshape(-1), len(ranges), sums.shape[1], inputs, outputs, *rows[part], flat(weight_grad))

    in_parallel(finish, len(rows))
