"""Eight float32 numbers at a time inside compiled kernels: loads and stores as float32 or float16, and arithmetic.

Kernels see arrays as flat memory of float32, or of uint16 that holds the bits of float16; what they compute with is
always float32. Written out as vectors because the compiler does not find them by itself in loops over channels with
several sums.
"""

import operator

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

LANES = 8

_FLOAT = ir.FloatType()
_HALF = ir.HalfType()
_BYTE = ir.IntType(8)
_SIZE = ir.IntType(types.intp.bitwidth)
VECTOR = ir.VectorType(_FLOAT, LANES)
_HALVES = ir.VectorType(_HALF, LANES)
_BYTES = ir.VectorType(_BYTE, LANES)
_FLAGS = ir.VectorType(ir.IntType(1), LANES)


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name="float32x8")


lanes = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type) -> None:
        super().__init__(manager, numba_type, VECTOR)


def _arithmetic(function, emit) -> None:
    @type_callable(function)
    def typed(context):
        return lambda left, right: lanes if left is lanes and right is lanes else None

    @lower_builtin(function, _Lanes, _Lanes)
    def lowered(context, builder, signature, arguments):
        return emit(builder, *arguments)


_arithmetic(operator.add, lambda builder, left, right: builder.fadd(left, right))
_arithmetic(operator.sub, lambda builder, left, right: builder.fsub(left, right))
_arithmetic(operator.mul, lambda builder, left, right: builder.fmul(left, right))
_arithmetic(operator.truediv, lambda builder, left, right: builder.fdiv(left, right))


def pointer(context, builder, array_type, array, index):
    """The address of an element of a flat array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def read_vector(builder, address, dtype):
    """Eight neighbouring elements as float32."""
    stored = VECTOR if dtype == types.float32 else _HALVES
    loaded = builder.load(builder.bitcast(address, stored.as_pointer()))
    loaded.align = dtype.bitwidth // 8
    return loaded if dtype == types.float32 else builder.fpext(loaded, VECTOR)


def write_vector(builder, address, dtype, value) -> None:
    """Rounds to nearest even where the elements are float16."""
    if dtype != types.float32:
        value = builder.fptrunc(value, _HALVES)
    builder.store(value, builder.bitcast(address, value.type.as_pointer())).align = dtype.bitwidth // 8


def _read_one(builder, address, dtype):
    stored = builder.load(address)
    return stored if dtype == types.float32 else builder.fpext(builder.bitcast(stored, _HALF), _FLOAT)


def _write_one(builder, address, dtype, value) -> None:
    if dtype != types.float32:
        value = builder.bitcast(builder.fptrunc(value, _HALF), ir.IntType(16))
    builder.store(value, address)


def vector_function(builder, name, arguments):
    """One of LLVM's own functions on vectors."""
    kind = ir.FunctionType(VECTOR, [VECTOR] * arguments)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32")


def splat_vector(builder, scalar, kind=VECTOR):
    """The same number in every lane."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)


@intrinsic
def load(typing, array, index):
    """array[index : index + 8]."""

    def emit(context, builder, signature, arguments):
        return read_vector(builder, pointer(context, builder, array, *arguments), array.dtype)

    return lanes(array, types.intp), emit


@intrinsic
def store(typing, array, index, value):
    """array[index : index + 8] = value."""

    def emit(context, builder, signature, arguments):
        address = pointer(context, builder, array, *arguments[:2])
        write_vector(builder, address, array.dtype, arguments[2])

    return types.void(array, types.intp, lanes), emit


def _fits(builder, index, end):
    return builder.icmp_signed("<=", builder.add(index, ir.Constant(index.type, LANES)), end)


def _part_reader(module, dtype):
    """A function that reads fewer than eight elements; out of line, since it runs once a pass and swells a loop."""
    address = ir.IntType(dtype.bitwidth).as_pointer() if dtype != types.float32 else _FLOAT.as_pointer()
    kind = ir.FunctionType(VECTOR, [address, _SIZE])
    function = cgutils.get_or_insert_function(module, kind, f"fnwork_read_part_{dtype}")
    if function.is_declaration:
        builder = _body(function)
        result = cgutils.alloca_once_value(builder, ir.Constant(VECTOR, None))
        with cgutils.for_range(builder, function.args[1]) as loop:
            one = _read_one(builder, builder.gep(function.args[0], [loop.index]), dtype)
            builder.store(builder.insert_element(builder.load(result), one, loop.index), result)
        builder.ret(builder.load(result))
    return function


def _part_writer(module, dtype):
    """A function that writes fewer than eight elements."""
    address = ir.IntType(dtype.bitwidth).as_pointer() if dtype != types.float32 else _FLOAT.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [address, _SIZE, VECTOR])
    function = cgutils.get_or_insert_function(module, kind, f"fnwork_write_part_{dtype}")
    if function.is_declaration:
        builder = _body(function)
        with cgutils.for_range(builder, function.args[1]) as loop:
            one = builder.extract_element(function.args[2], loop.index)
            _write_one(builder, builder.gep(function.args[0], [loop.index]), dtype, one)
        builder.ret_void()
    return function


def _body(function):
    function.linkage = "internal"
    function.attributes.add("noinline")
    return ir.IRBuilder(function.append_basic_block())


@intrinsic
def load_until(typing, array, index, end):
    """array[index : min(index + 8, end)], the lanes beyond being 0."""

    def emit(context, builder, signature, arguments):
        held, index, end = arguments
        address = pointer(context, builder, array, held, index)
        result = cgutils.alloca_once(builder, VECTOR)
        with builder.if_else(_fits(builder, index, end), likely=True) as (whole, part):
            with whole:
                builder.store(read_vector(builder, address, array.dtype), result)
            with part:
                reader = _part_reader(builder.module, array.dtype)
                builder.store(builder.call(reader, [address, builder.sub(end, index)]), result)
        return builder.load(result)

    return lanes(array, types.intp, types.intp), emit


@intrinsic
def store_until(typing, array, index, end, value):
    """array[index : min(index + 8, end)] = as many lanes of value."""

    def emit(context, builder, signature, arguments):
        held, index, end, value = arguments
        address = pointer(context, builder, array, held, index)
        with builder.if_else(_fits(builder, index, end), likely=True) as (whole, part):
            with whole:
                write_vector(builder, address, array.dtype, value)
            with part:
                writer = _part_writer(builder.module, array.dtype)
                builder.call(writer, [address, builder.sub(end, index), value])

    return types.void(array, types.intp, types.intp, lanes), emit


@intrinsic
def splat(typing, number):
    """The number in all eight lanes."""

    def emit(context, builder, signature, arguments):
        return splat_vector(builder, arguments[0])

    return lanes(types.float32), emit


@intrinsic
def choose_greater(typing, left, right, value, otherwise):
    """value where left > right, else otherwise."""

    def emit(context, builder, signature, arguments):
        left, right, value, otherwise = arguments
        return builder.select(builder.fcmp_ordered(">", left, right), value, otherwise)

    return lanes(lanes, lanes, lanes, lanes), emit


@intrinsic
def positive_part(typing, value):
    """max(value, 0); NaN stays NaN."""

    def emit(context, builder, signature, arguments):
        zero = ir.Constant(VECTOR, None)
        return builder.select(builder.fcmp_ordered("<", arguments[0], zero), zero, arguments[0])

    return lanes(lanes), emit


@intrinsic
def positive_bits(typing, value):
    """A byte with a bit for each lane above 0, the first lane in the highest bit as numpy.packbits has it."""

    def emit(context, builder, signature, arguments):
        flags = builder.fcmp_ordered(">", arguments[0], ir.Constant(VECTOR, None))
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(reversed(range(LANES))))
        return builder.bitcast(builder.shuffle_vector(flags, flags, order), _BYTE)

    return types.uint8(lanes), emit


@intrinsic
def keep_bits(typing, value, bits):
    """value * 1 where the lane's bit is set, value * 0 elsewhere, so that NaN stays NaN."""

    def emit(context, builder, signature, arguments):
        value, bits = arguments
        places = ir.Constant(_BYTES, [1 << (LANES - 1 - lane) for lane in range(LANES)])
        chosen = builder.and_(splat_vector(builder, bits, _BYTES), places)
        flags = builder.icmp_unsigned("!=", chosen, ir.Constant(_BYTES, None))
        return builder.fmul(value, builder.uitofp(flags, VECTOR))

    return lanes(lanes, types.uint8), emit


@intrinsic
def maximum(typing, left, right):
    """The larger of each lane; NaN wins."""

    def emit(context, builder, signature, arguments):
        return builder.call(vector_function(builder, "maximum", 2), arguments)

    return lanes(lanes, lanes), emit


@intrinsic
def equal(typing, left, right):
    """1 where left = right, else 0."""

    def emit(context, builder, signature, arguments):
        return builder.uitofp(builder.fcmp_ordered("==", *arguments), VECTOR)

    return lanes(lanes, lanes), emit


_SHORT = ir.IntType(16)
_SHORTS = ir.VectorType(_SHORT, LANES)
_PAIRS = ir.Constant(_SHORTS, [2 * lane for lane in range(LANES)])


@intrinsic
def pack_pairs(typing, value):
    """The lanes, whole numbers from 0 to 3, in two bits each; the first lane lowest."""

    def emit(context, builder, signature, arguments):
        shifted = builder.shl(builder.fptoui(arguments[0], _SHORTS), _PAIRS)
        kind = ir.FunctionType(_SHORT, [_SHORTS])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.or.v{LANES}i16")
        return builder.call(function, [shifted])

    return types.uint16(lanes), emit


@intrinsic
def unpack_pairs(typing, bits):
    """The lanes that pack_pairs packed."""

    def emit(context, builder, signature, arguments):
        shifted = builder.lshr(splat_vector(builder, arguments[0], _SHORTS), _PAIRS)
        return builder.uitofp(builder.and_(shifted, ir.Constant(_SHORTS, [3] * LANES)), VECTOR)

    return lanes(types.uint16), emit
