"""The product of two small matrices with its result held in registers: the inner loop of every convolution."""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from engine.ops.cpu.lanes import LANES, VECTOR, pointer, splat_vector, vector_function

COLUMNS = 2 * LANES


def _tile(rows: int):
    """The product for `rows` rows of the result: 2 * rows sums, 2 columns and 1 factor fit 16 vector registers."""

    @intrinsic
    def multiply(typing, a, a_at, a_row, a_step, b, b_at, b_step, c, c_at, c_row, depth, add):
        def emit(context, builder, signature, arguments):
            a_held, a_at, a_row, a_step, b_held, b_at, b_step, c_held, c_at, c_row, depth, add = arguments
            fused = vector_function(builder, "fmuladd", 3)
            first_a = pointer(context, builder, a, a_held, a_at)
            first_b = pointer(context, builder, b, b_held, b_at)
            first_c = pointer(context, builder, c, c_held, c_at)
            zero = ir.Constant(VECTOR, None)
            sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(2)] for _ in range(rows)]

            def vector_at(base, offset):
                return builder.bitcast(builder.gep(base, [offset]), VECTOR.as_pointer())

            def read(address):
                value = builder.load(address)
                value.align = 4
                return value

            half = ir.Constant(b_at.type, LANES)
            row_starts = [
                builder.gep(first_a, [builder.mul(a_row, ir.Constant(a_row.type, row))]) for row in range(rows)
            ]
            with cgutils.for_range(builder, depth) as loop:
                b_offset = builder.mul(loop.index, b_step)
                left = read(vector_at(first_b, b_offset))
                right = read(vector_at(first_b, builder.add(b_offset, half)))
                a_offset = builder.mul(loop.index, a_step)
                for row in range(rows):
                    factor = splat_vector(builder, builder.load(builder.gep(row_starts[row], [a_offset])))
                    for column, values in enumerate((left, right)):
                        held = sums[row][column]
                        builder.store(builder.call(fused, [factor, values, builder.load(held)]), held)
            for row in range(rows):
                row_offset = builder.mul(c_row, ir.Constant(c_row.type, row))
                for column in range(2):
                    address = vector_at(first_c, builder.add(row_offset, ir.Constant(c_row.type, column * LANES)))
                    value = builder.load(sums[row][column])
                    with builder.if_then(add):
                        builder.store(builder.fadd(value, read(address)), address).align = 4
                    with builder.if_then(builder.not_(add)):
                        builder.store(value, address).align = 4

        flat, size = types.float32[::1], types.intp
        return types.void(flat, size, size, size, flat, size, size, flat, size, size, size, types.boolean), emit

    return multiply


multiply_six = _tile(6)
multiply_four = _tile(4)
