"""Eight float32 numbers at a time inside compiled kernels: loads and stores as float32 or float16, and arithmetic.

Kernels see arrays as flat memory of float32, or of uint16 that holds the bits of float16; what they compute with is
always float32. Written out as vectors because the compiler does not find them by itself in loops over channels with
several sums.
"""

import operator
from functools import wraps

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

LANES = 8

_FLOAT = ir.FloatType()
_HALF = ir.HalfType()
_BYTE = ir.IntType(8)
_INT = ir.IntType(32)
_SIZE = ir.IntType(types.intp.bitwidth)
VECTOR = ir.VectorType(_FLOAT, LANES)
_HALVES = ir.VectorType(_HALF, LANES)
_BYTES = ir.VectorType(_BYTE, LANES)
_NOUGHTS = ir.Constant(VECTOR, None)


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


def _masked(builder, name, result, kind, *arguments):
    """LLVM's load or store of some lanes alone; the others of what is loaded are 0, and are not looked at in memory."""
    vector = f"v{LANES}{'f32' if kind == VECTOR else 'f16'}"
    signature = ir.FunctionType(result, [each.type for each in arguments])
    function = f"llvm.masked.{name}.{vector}.p0{vector}"
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, function), arguments)


def read_vector(builder, address, dtype, mask=None):
    """Eight neighbouring elements as float32, or those in `mask` and zeros."""
    kind, align = VECTOR if dtype == types.float32 else _HALVES, dtype.bitwidth // 8
    place = builder.bitcast(address, kind.as_pointer())
    if mask is None:
        loaded = builder.load(place, align=align)
    else:
        loaded = _masked(builder, "load", kind, kind, place, ir.Constant(_INT, align), mask, ir.Constant(kind, None))
    return loaded if dtype == types.float32 else builder.fpext(loaded, VECTOR)


def write_vector(builder, address, dtype, value, mask=None) -> None:
    """Rounds to nearest even where the elements are float16."""
    if dtype != types.float32:
        value = builder.fptrunc(value, _HALVES)
    place, align = builder.bitcast(address, value.type.as_pointer()), dtype.bitwidth // 8
    if mask is None:
        builder.store(value, place, align=align)
    else:
        _masked(builder, "store", ir.VoidType(), value.type, value, place, ir.Constant(_INT, align), mask)


def vector_function(builder, name, arguments, vector):
    """One of LLVM's own functions on vectors of float32."""
    kind = ir.FunctionType(vector, [vector] * arguments)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{vector.count}f32")


def splat_vector(builder, scalar, kind=VECTOR):
    """The same number in every lane."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(_INT, 0))
    zeros = ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count)
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


def _before(builder, index, end):
    """The lanes that lie before `end`."""
    sizes = ir.VectorType(_SIZE, LANES)
    left = splat_vector(builder, builder.sub(end, index), sizes)
    return builder.icmp_signed("<", ir.Constant(sizes, [*range(LANES)]), left)


def _read_until(context, builder, array, held, index, end, inside):
    """array[index : min(index + 8, end)] where `inside`, the lanes beyond being 0."""
    address = pointer(context, builder, array, held, index)
    result = cgutils.alloca_once_value(builder, ir.Constant(VECTOR, None))
    with builder.if_then(inside, likely=True), builder.if_else(_fits(builder, index, end), likely=True) as parts:
        with parts[0]:
            builder.store(read_vector(builder, address, array.dtype), result)
        with parts[1]:
            builder.store(read_vector(builder, address, array.dtype, _before(builder, index, end)), result)
    return builder.load(result)


@intrinsic
def load_until(typing, array, index, end):
    """array[index : min(index + 8, end)], the lanes beyond being 0."""

    def emit(context, builder, signature, arguments):
        return _read_until(context, builder, array, *arguments, ir.Constant(ir.IntType(1), 1))

    return lanes(array, types.intp, types.intp), emit


@intrinsic
def load_if(typing, array, index, end, inside):
    """As load_until where `inside`, else 0."""

    def emit(context, builder, signature, arguments):
        return _read_until(context, builder, array, *arguments)

    return lanes(array, types.intp, types.intp, types.boolean), emit


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
                write_vector(builder, address, array.dtype, value, _before(builder, index, end))

    return types.void(array, types.intp, types.intp, lanes), emit


def _emitted(result, *arguments):
    """Declares a function of kernels, of the types given, by what it emits: def name(builder, *values)."""

    def declare(emit):
        @wraps(emit)  # so that it has as many arguments
        def typed(typing, *given):
            return result(*arguments), lambda context, builder, signature, values: emit(builder, *values)

        return intrinsic(typed)

    return declare


@_emitted(lanes, types.float32)
def splat(builder, number):
    """The number in all eight lanes."""
    return splat_vector(builder, number)


@_emitted(lanes, lanes, lanes, lanes, lanes)
def choose_greater(builder, left, right, value, otherwise):
    """value where left > right, else otherwise."""
    return builder.select(builder.fcmp_ordered(">", left, right), value, otherwise)


@_emitted(lanes, lanes)
def positive_part(builder, value):
    """max(value, 0); NaN stays NaN."""
    return builder.select(builder.fcmp_ordered("<", value, _NOUGHTS), _NOUGHTS, value)


@_emitted(types.uint8, lanes)
def positive_bits(builder, value):
    """A byte with a bit for each lane above 0, the first lane in the highest bit as numpy.packbits has it."""
    flags = builder.fcmp_ordered(">", value, _NOUGHTS)
    order = ir.Constant(ir.VectorType(_INT, LANES), list(reversed(range(LANES))))
    return builder.bitcast(builder.shuffle_vector(flags, flags, order), _BYTE)


@_emitted(lanes, lanes, lanes)
def keep_positive(builder, value, other):
    """value * 1 where other > 0, value * 0 elsewhere, so that NaN stays NaN."""
    return builder.fmul(value, builder.uitofp(builder.fcmp_ordered(">", other, _NOUGHTS), VECTOR))


@_emitted(lanes, lanes, types.uint8)
def keep_bits(builder, value, bits):
    """value * 1 where the lane's bit is set, value * 0 elsewhere."""
    places = ir.Constant(_BYTES, [1 << (LANES - 1 - lane) for lane in range(LANES)])
    chosen = builder.and_(splat_vector(builder, bits, _BYTES), places)
    return builder.fmul(value, builder.uitofp(builder.icmp_unsigned("!=", chosen, ir.Constant(_BYTES, None)), VECTOR))


@_emitted(lanes, lanes, lanes)
def maximum(builder, left, right):
    """The larger of each lane; NaN wins."""
    wins = builder.or_(builder.fcmp_ordered(">", left, right), builder.fcmp_unordered("uno", left, left))
    return builder.select(wins, left, right)


@_emitted(lanes, lanes, lanes)
def equal(builder, left, right):
    """1 where left = right, else 0."""
    return builder.uitofp(builder.fcmp_ordered("==", left, right), VECTOR)


_SHORT = ir.IntType(16)
_SHORTS = ir.VectorType(_SHORT, LANES)
_PAIRS = ir.Constant(_SHORTS, [2 * lane for lane in range(LANES)])


@_emitted(types.uint16, lanes)
def pack_pairs(builder, value):
    """The lanes, whole numbers from 0 to 3, in two bits each; the first lane lowest."""
    shifted = builder.shl(builder.fptoui(value, _SHORTS), _PAIRS)
    kind = ir.FunctionType(_SHORT, [_SHORTS])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.or.v{LANES}i16")
    return builder.call(function, [shifted])


@_emitted(lanes, types.uint16)
def unpack_pairs(builder, bits):
    """The lanes that pack_pairs packed."""
    shifted = builder.lshr(splat_vector(builder, bits, _SHORTS), _PAIRS)
    return builder.uitofp(builder.and_(shifted, ir.Constant(_SHORTS, [3] * LANES)), VECTOR)


@_emitted(types.uint64, types.uint64, types.uint64)
def high_product(builder, left, right):
    """The upper half of the product of two whole numbers of 64 bits."""
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(left, wide), builder.zext(right, wide))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), left.type)
