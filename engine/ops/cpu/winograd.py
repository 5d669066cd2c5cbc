"""3x3 convolution of stride 1 by minimal filtering (Winograd 1980; Lavin and Gray 2016), F(2x2, 3x3).

A tile of 4x4 inputs gives 2x2 outputs with 16 multiplications instead of 36. With g the kernel and d the tile, the
output is A^T [(G g G^T) * (B^T d B)] A. Over all tiles and channels each of the 16 products is a matrix product. The
gradients are the transposed maps: by the kernel, dg = G^T [sum over tiles of (A dy A^T) * (B^T d B)] G.

Planes: 16 matrices of (tiles, channels rounded up to COLUMNS), PLANE_GAP apart so that they do not fall on the same
cache lines.
"""

import numpy as np

from engine.memory import Array, ArraySpec, Scratch
from engine.ops.cpu.channels import fold
from engine.ops.cpu.kernels import kernel
from engine.ops.cpu.lanes import LANES, load, load_if, load_until, splat, store, store_until
from engine.ops.cpu.product import COLUMNS, GRADIENT_ROWS, ROWS, multiply_gradient_rows, multiply_rows, rounded
from engine.ops.cpu.storage import NOTHING, flat, floats
from engine.ops.cpu.threads import THREADS, in_parallel, shares

PRODUCTS = 16
PLANE_GAP = 16
PIECE_FLOATS = 3 << 15  # planes of one piece: 384 KiB, within a core's second-level cache
STEP = 24  # tiles: a multiple of ROWS


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


@kernel()
def _input_transform(d0, d1, d2, d3):
    """B^T d."""
    return d0 - d2, d1 + d2, d2 - d1, d1 - d3


@kernel()
def _output_transform(m0, m1, m2, m3):
    """A^T m."""
    return m0 + m1 + m2, m1 - m2 - m3


@kernel()
def _gradient_transform(y0, y1):
    """A y."""
    return y0, y0 + y1, y0 - y1, splat(np.float32(0)) - y1


@kernel()
def _weight_transform(g0, g1, g2):
    """G g."""
    outer, inner = np.float32(0.5) * (g0 + g2), np.float32(0.5) * g1
    return g0, outer + inner, outer - inner, g2


@kernel()
def _weight_gradient_transform(m0, m1, m2, m3):
    """G^T m."""
    half = splat(np.float32(0.5))
    outer = half * (m1 + m2)
    return m0 + outer, half * (m1 - m2), m3 + outer


@kernel()
def _load_four(planes, at, step):
    return load(planes, at), load(planes, at + step), load(planes, at + 2 * step), load(planes, at + 3 * step)


@kernel()
def _store_four(planes, at, step, values):
    for number in range(4):
        store(planes, at + number * step, values[number])


@kernel("FiiiiiiiFii")
def _weight_planes(weight, base, row, column, down, right, rows, columns, planes, first, last):
    """planes[p][block of 16 columns][row][column in block] = (G g G^T)[p].

    Element (a, b) of g for row r and column n lies at base + r * row + n * column + a * down + b * right.
    """
    size = (columns + 15) // 16 * rows * 16
    for block in range(first, last):
        for r in range(rows):
            for lane in range(16):
                n = block * 16 + lane
                to = (block * rows + r) * 16 + lane
                if n >= columns:
                    for p in range(16):
                        planes[p * size + to] = 0
                    continue
                at = base + r * row + n * column
                g0 = _weight_transform(weight[at], weight[at + down], weight[at + 2 * down])
                at += right
                g1 = _weight_transform(weight[at], weight[at + down], weight[at + 2 * down])
                at += right
                g2 = _weight_transform(weight[at], weight[at + down], weight[at + 2 * down])
                for a in range(4):
                    values = _weight_transform(g0[a], g1[a], g2[a])
                    for b in range(4):
                        planes[(4 * a + b) * size + to] = values[b]


@kernel()
def _input_column(source, at, channels, below, inside, top, height):
    """B^T d for the column of a tile whose first element lies at `at`; 0 beyond the image."""
    end = at + channels
    d0 = load_if(source, at, end, inside and top >= 0 and top < height)
    d1 = load_if(source, at + below, end + below, inside and top + 1 >= 0 and top + 1 < height)
    at, end = at + 2 * below, end + 2 * below
    d2 = load_if(source, at, end, inside and top + 2 >= 0 and top + 2 < height)
    d3 = load_if(source, at + below, end + below, inside and top + 3 < height)
    return _input_transform(d0, d1, d2, d3)


@kernel()
def _input_planes(source, shape, padding, across, down, first, last, planes, plane, width):
    """planes[p][tile] = (B^T d B)[p] for tiles first..last, counted over images, rows and columns of tiles."""
    _, height, breadth, channels = shape
    below = breadth * channels
    for tile in range(first, last):
        image = tile // (across * down)
        top = tile // across % down * 2 - padding
        x = tile % across * 2 - padding
        begin = ((image * height + top) * breadth + x) * channels
        for c in range(0, channels, LANES):
            at, left = begin + c, channels - c
            d0 = _input_column(source, at, left, below, x >= 0 and x < breadth, top, height)
            at += channels
            d1 = _input_column(source, at, left, below, x + 1 >= 0 and x + 1 < breadth, top, height)
            at += channels
            d2 = _input_column(source, at, left, below, x + 2 >= 0 and x + 2 < breadth, top, height)
            at += channels
            d3 = _input_column(source, at, left, below, x + 3 < breadth, top, height)
            for row in range(4):
                to = 4 * row * plane + (tile - first) * width + c
                _store_four(planes, to, plane, _input_transform(d0[row], d1[row], d2[row], d3[row]))


@kernel()
def _gather(y, c, sums):
    """Adds channels c.. of an output and their squares to `sums`, unless that is empty."""
    half = sums.size // 2
    if half > 0:
        store(sums, c, load(sums, c) + y)
        store(sums, half + c, load(sums, half + c) + y * y)


@kernel()
def _store_tiles(planes, plane, width, bias, out, shape, across, down, first, last, sums):
    """The 2x2 outputs A^T m A of each tile, plus the bias."""
    _, height, breadth, channels = shape
    for tile in range(first, last):
        image = tile // (across * down)
        top = tile // across % down * 2
        left = tile % across * 2
        for c in range(0, channels, LANES):
            here = (tile - first) * width + c
            m0 = _output_transform(*_load_four(planes, here, 4 * plane))
            m1 = _output_transform(*_load_four(planes, here + plane, 4 * plane))
            m2 = _output_transform(*_load_four(planes, here + 2 * plane, 4 * plane))
            m3 = _output_transform(*_load_four(planes, here + 3 * plane, 4 * plane))
            offset = load_until(bias, c, channels) if bias.size else splat(np.float32(0))
            for row in range(min(2, height - top)):
                at = ((image * height + top + row) * breadth + left) * channels + c
                end = at + channels - c
                y0, y1 = _output_transform(m0[row], m1[row], m2[row], m3[row])
                y0, y1 = y0 + offset, y1 + offset
                store_until(out, at, end, y0)
                _gather(y0, c, sums)
                if left + 1 < breadth:
                    store_until(out, at + channels, end + channels, y1)
                    _gather(y1, c, sums)


@kernel()
def _gradient_planes(grad, shape, across, down, first, last, planes, plane, width):
    """planes[p][tile] = (A dy A^T)[p]."""
    _, height, breadth, channels = shape
    below = breadth * channels
    for tile in range(first, last):
        image = tile // (across * down)
        top = tile // across % down * 2
        left = tile % across * 2
        right, bottom = left + 1 < breadth, top + 1 < height
        for c in range(0, channels, LANES):
            at = ((image * height + top) * breadth + left) * channels + c
            end = at + channels - c
            y00, y01 = load_until(grad, at, end), load_if(grad, at + channels, end + channels, right)
            at, end = at + below, end + below
            y10, y11 = load_if(grad, at, end, bottom), load_if(grad, at + channels, end + channels, right and bottom)
            lefts, rights = _gradient_transform(y00, y10), _gradient_transform(y01, y11)
            for a in range(4):
                to = 4 * a * plane + (tile - first) * width + c
                _store_four(planes, to, plane, _gradient_transform(lefts[a], rights[a]))


@kernel("SNiFFSNiiiiiFFFD")
def _correlate(
    source, source_shape, padding, weights, bias, out, out_shape, tiles, source_width, product_width, first, last,
    sources, products, block, total,
):  # fmt: skip
    """Tiles first..last of the output, `tiles` at a time; total = the sums of the output and of its square."""
    block[:] = 0
    total[:] = 0
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
                for row in range(0, stop - start, ROWS):
                    at = p * source_plane + row * source_width
                    to = p * product_plane + row * product_width + n
                    multiply_rows(
                        sources, at, source_width, 1, weights, panel, 16, products, to, product_width, inputs, False
                    )
        _store_tiles(products, product_plane, product_width, bias, out, out_shape, across, down, start, stop, block)
        fold(block, total)


@kernel("SNiSNiiiiiFFF")
def _accumulate(
    source, source_shape, padding, grad, grad_shape, tiles, source_width, grad_width, first, last,
    sources, gradients, sums,
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
                for row in range(0, outputs, GRADIENT_ROWS):
                    at = p * grad_plane + row
                    to = (p * columns + n) * rows + row * 16
                    multiply_gradient_rows(
                        gradients, at, 1, grad_width, sources, p * source_plane + n, source_width,
                        sums, to, 16, stop - start, start > first,
                    )  # fmt: skip


@kernel("FiiiiFii")
def _weight_gradient(sums, parts, part_size, inputs, outputs, weight_grad, first, last):
    """weight_grad += G^T (sums of all parts) G for outputs first..last."""
    rows, columns = (outputs + 15) // 16 * 16, (inputs + 15) // 16 * 16
    plane = rows * columns
    for part in range(1, parts):
        for block in range(0, 16 * columns, 16):
            for at in range((block * rows + first * 16), block * rows + last * 16, LANES):
                store(sums, at, load(sums, at) + load(sums, part * part_size + at))
    for o in range(first, last):
        for c in range(0, inputs, LANES):
            here = (c // 16 * rows + o) * 16 + c % 16
            for at in range(here, here + 16 * plane, 4 * plane):
                values = _weight_gradient_transform(*_load_four(sums, at, plane))
                for b in range(3):
                    store(sums, at + b * plane, values[b])
            for b in range(3):
                values = _weight_gradient_transform(*_load_four(sums, here + b * plane, 4 * plane))
                for a in range(3):
                    to = ((o * 3 + a) * 3 + b) * inputs + c
                    end = to + inputs - c
                    store_until(weight_grad, to, end, load_until(weight_grad, to, end) + values[a])


def _tile_count(out: Array) -> int:
    batch, height, width, _ = out.shape
    return batch * ((height + 1) // 2) * ((width + 1) // 2)


def forward_workspace(source: Array, weight: Array, out: Array, *gathered: Array | None, **_: int) -> list[ArraySpec]:
    """The kernel's planes; for each thread the planes of a piece of tiles and of its products, and sums of these."""
    inputs, outputs = source.shape[3], out.shape[3]
    tiles = _piece_tiles(inputs, outputs)
    sums = (THREADS, 2 * rounded(outputs) if gathered and gathered[0] is not None else 0)
    return [
        floats(PRODUCTS * rounded(outputs) * inputs),
        floats(THREADS, PRODUCTS * _plane(tiles, inputs)),
        floats(THREADS, PRODUCTS * _plane(tiles, outputs)),
        floats(*sums), ArraySpec(sums, np.dtype(np.float64)),
    ]  # fmt: skip


def forward(
    source: Array, weight: Array, bias: Array | None, out: Array, gathered: Array | None = None, *, padding: int,
    work: Scratch, **_: int,
) -> None:  # fmt: skip
    """As convolve of the reference, for a stride of 1; mean and variance of the channels go to `gathered`."""
    tap = weight.shape[3]
    totals = _correlate_with(flat(weight), (0, 1, 9 * tap, 3 * tap, tap), source, bias, out, padding, work)
    if gathered is not None:
        first, second = totals.sum(axis=0).reshape(2, -1)[:, : len(weight)] / (out.size // len(weight))
        gathered[...] = first, np.maximum(second - first * first, 0.0)


input_gradient_workspace = forward_workspace


def input_gradient(grad: Array, weight: Array, out: Array, *, stride: int, padding: int, work: Scratch) -> None:
    """As convolve_input_gradient of the reference: with the kernel flipped and its channels exchanged."""
    tap = weight.shape[3]
    _correlate_with(flat(weight), (8 * tap, 9 * tap, 1, -3 * tap, -tap), grad, None, out, 2 - padding, work)


def _correlate_with(
    weight: Array, places: tuple[int, ...], source: Array, bias: Array | None, out: Array, padding: int, work: Scratch
) -> Array:
    """out = source correlated with weight, whose elements lie as `places` says, plus bias. Returns the threads' sums
    of it and of its square, where there is room for them.
    """
    planes, *own = work
    inputs, outputs = source.shape[3], out.shape[3]
    blocks = shares(rounded(outputs) // COLUMNS, least=max(1, (1 << 14) // (inputs * COLUMNS)))
    in_parallel(_weight_planes, blocks, weight, *places, inputs, outputs, planes)
    constant = NOTHING if bias is None else bias
    sizes = (_piece_tiles(inputs, outputs), _width(inputs), _width(outputs))
    ranges = shares(_tile_count(out), step=STEP)
    in_parallel(
        _correlate, ranges, flat(source), source.shape, padding, planes, constant, flat(out), out.shape, *sizes, own=own
    )
    return own[-1][: len(ranges)]


def weight_gradient_workspace(source: Array, grad: Array, weight_grad: Array, **geometry: int) -> list[ArraySpec]:
    """For each thread the planes of a piece of inputs and gradients, and the sums of their products."""
    inputs, outputs = source.shape[3], grad.shape[3]
    tiles = _gradient_tiles(inputs, outputs)
    return [
        floats(THREADS, PRODUCTS * _plane(tiles, inputs)),
        floats(THREADS, PRODUCTS * _plane(tiles, outputs)),
        floats(THREADS, PRODUCTS * rounded(outputs) * rounded(inputs)),
    ]


def add_weight_gradient(
    source: Array, grad: Array, weight_grad: Array, *, stride: int, padding: int, work: Scratch
) -> None:
    """weight_grad += d loss / d weight, for a stride of 1."""
    sums = work[2]
    inputs, outputs = source.shape[3], grad.shape[3]
    sizes = (_gradient_tiles(inputs, outputs), _width(inputs), _width(outputs))
    ranges = shares(_tile_count(grad), step=STEP)
    in_parallel(_accumulate, ranges, flat(source), source.shape, padding, flat(grad), grad.shape, *sizes, own=work)
    rows = shares(outputs, least=max(1, (1 << 14) // inputs))
    arguments = (sums.reshape(-1), len(ranges), sums.shape[1], inputs, outputs, flat(weight_grad))
    in_parallel(_weight_gradient, rows, *arguments)
