"""The product of two small matrices with its result held in registers: the inner loop of every convolution."""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from engine.ops.cpu.lanes import pointer, splat_vector, vector_function
from engine.ops.cpu.storage import FEATURES

COLUMNS = 16
# Floats of a vector register, and rows: 12 or 8 registers hold sums, so that none waits for its last multiplication.
_WIDTH, ROWS, GRADIENT_ROWS = (16, 12, 8) if "+avx512f" in FEATURES else (8, 6, 4)
_VECTOR = ir.VectorType(ir.FloatType(), _WIDTH)


def rounded(size: int, step: int = COLUMNS) -> int:
    """`size` rounded up to a multiple of `step`."""
    return -(-size // step) * step


def _tile(rows: int):
    """The product for `rows` rows of the result, of COLUMNS columns."""
    parts = COLUMNS // _WIDTH

    @intrinsic
    def multiply(typing, a, a_at, a_row, a_step, b, b_at, b_step, c, c_at, c_row, depth, add):
        def emit(context, builder, signature, arguments):
            a_held, a_at, a_row, a_step, b_held, b_at, b_step, c_held, c_at, c_row, depth, add = arguments
            fused = vector_function(builder, "fmuladd", 3, _VECTOR)
            first_a = pointer(context, builder, a, a_held, a_at)
            first_b = pointer(context, builder, b, b_held, b_at)
            first_c = pointer(context, builder, c, c_held, c_at)
            zero = ir.Constant(_VECTOR, None)
            sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(parts)] for _ in range(rows)]

            def addresses(base, offset):
                starts = (builder.add(offset, ir.Constant(offset.type, part * _WIDTH)) for part in range(parts))
                return [builder.bitcast(builder.gep(base, [start]), _VECTOR.as_pointer()) for start in starts]

            def read(address):
                value = builder.load(address)
                value.align = 4
                return value

            starts = [builder.gep(first_a, [builder.mul(a_row, ir.Constant(a_row.type, row))]) for row in range(rows)]
            with cgutils.for_range(builder, depth) as loop:
                columns = [read(address) for address in addresses(first_b, builder.mul(loop.index, b_step))]
                a_offset = builder.mul(loop.index, a_step)
                for row, held in zip(starts, sums, strict=True):
                    factor = splat_vector(builder, builder.load(builder.gep(row, [a_offset])), _VECTOR)
                    for total, values in zip(held, columns, strict=True):
                        builder.store(builder.call(fused, [factor, values, builder.load(total)]), total)
            for row, held in enumerate(sums):
                row_offset = builder.mul(c_row, ir.Constant(c_row.type, row))
                for total, address in zip(held, addresses(first_c, row_offset), strict=True):
                    value = builder.load(total)
                    with builder.if_then(add):
                        builder.store(builder.fadd(value, read(address)), address).align = 4
                    with builder.if_then(builder.not_(add)):
                        builder.store(value, address).align = 4

        flat, size = types.float32[::1], types.intp
        return types.void(flat, size, size, size, flat, size, size, flat, size, size, size, types.boolean), emit

    return multiply


multiply_rows = _tile(ROWS)
multiply_gradient_rows = _tile(GRADIENT_ROWS)
