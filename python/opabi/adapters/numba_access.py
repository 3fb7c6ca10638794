# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-defs, allow-untyped-calls
"""Typed arrays out of ``opabi_call`` and ``opabi_setup``, inside of compiled code.

Numba's records cannot hold pointers, so that the structs' pointers are read as 64-bit words and
turned into arrays by the intrinsics below. The words at the end, ``input`` to ``fail``, are for
hand-written cfuncs;
``numba_compile`` writes its own calls of the intrinsics, which compile faster.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import overload

from opabi import _abi

carray: Any = numba.carray
intrinsic: Any = numba.extending.intrinsic

TENSOR = _abi.record("opabi_tensor")
_STRUCTS = {"opabi_call": _abi.record("opabi_call"), "opabi_setup": _abi.record("opabi_setup")}
_POINTERS = {types.CPointer(numba.from_dtype(dtype)): dtype for dtype in _STRUCTS.values()}
_WORD = ir.IntType(64)

call_type, setup_type = _POINTERS
run_signature = types.int32(call_type)
setup_signature = types.int32(setup_type)


def offset(struct: Any, field: str) -> int:
    """Where a field stands in a struct of the header, given by its record type."""
    return int(struct.fields[field][1])


CALL, SETUP = _STRUCTS["opabi_call"], _STRUCTS["opabi_setup"]
DATA, NDIM, SHAPE = (offset(TENSOR, field) for field in ("data", "ndim", "shape"))
TENSOR_SIZE = TENSOR.itemsize
OK = _abi.constants["OPABI_OK"]
WHERE_SAMPLE = _abi.constants["OPABI_WHERE_SAMPLE"]


# ---- Intrinsics: from addresses to values and arrays, and back -----------------------------------


@intrinsic
def address(typing: Any, pointer: Any) -> Any:
    """A pointer as a number."""
    return types.int64(pointer), lambda context, builder, signature, args: builder.ptrtoint(
        args[0], _WORD
    )


@intrinsic
def load(typing: Any, at: Any) -> Any:
    """The 64-bit word at an address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _WORD.as_pointer()))

    return types.int64(types.int64), code


@intrinsic
def pointer(typing: Any, at: Any, dtype: Any) -> Any:
    """An address as a pointer to elements: pointer(a, dtype)[i], or for carray."""
    kind = types.CPointer(dtype.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64, dtype), code


@intrinsic(prefer_literal=True)
def extents(typing: Any, at: Any, count: Any) -> Any:
    """The tuple of ``count`` 64-bit words at an address."""
    n = count.literal_value
    kind = types.UniTuple(types.int64, n) if n else types.Tuple(())

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = context.get_value_type(kind)
        if not n:
            return ir.Constant(value, ir.Undefined)
        return builder.load(builder.inttoptr(args[0], value.as_pointer()), align=8)

    return kind(types.int64, count), code


@intrinsic
def readonly(typing: Any, array: Any) -> Any:
    """The same array, of a type that cannot be written to."""
    kind = types.Array(array.dtype, array.ndim, array.layout, readonly=True)
    return kind(array), lambda context, builder, signature, args: args[0]


@intrinsic(prefer_literal=True)
def explain(typing: Any, struct: Any, sample: Any, slot: Any) -> Any:
    """Calls the function number ``slot`` of the table at user_data: see numba_errors.Explainer."""
    user_data = offset(_POINTERS[struct], "user_data")
    place = slot.literal_value

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def word(at: Any, bytes_on: int) -> Any:
            return builder.load(
                builder.inttoptr(builder.add(at, _WORD(bytes_on)), _WORD.as_pointer())
            )

        at = builder.ptrtoint(args[0], _WORD)
        kind = ir.FunctionType(ir.IntType(32), [_WORD, _WORD])
        function = builder.inttoptr(word(word(at, user_data), 8 * place), kind.as_pointer())
        return builder.call(function, [at, args[1]])

    return types.int32(struct, types.int64, slot), code


# ---- For hand-written cfuncs ---------------------------------------------------------------------


def fields(struct: Any) -> Any:
    """The struct with its fields: ``fields(call).n_samples``. Pointers are integers."""
    raise _only_compiled("fields")


def input(struct: Any, sample: int, port: int, dtype: Any, ndim: int) -> Any:
    """Input ``port`` of a sample as a read-only array of this dtype and rank (a literal)."""
    raise _only_compiled("input")


def output(call: Any, sample: int, port: int, dtype: Any, ndim: int) -> Any:
    """Output ``port`` of a sample as an array of this dtype and rank (a literal)."""
    raise _only_compiled("output")


def argument(struct: Any, sample: int, index: int, dtype: Any, ndim: int) -> Any:
    """Argument ``index`` for a sample: a number if ``ndim`` is 0, else a read-only array."""
    raise _only_compiled("argument")


def input_shape(struct: Any, sample: int, port: int, ndim: int) -> Any:
    """The shape of input ``port`` of a sample, a tuple; in setup too, where there is no data."""
    raise _only_compiled("input_shape")


def layout(struct: Any, port: int) -> Any:
    """The layout of input ``port`` as an array of bytes, b"HWC"; empty if it has none."""
    raise _only_compiled("layout")


def set_shape(setup: Any, sample: int, port: int, shape: Any) -> None:
    """In setup: the shape of output ``port`` of a sample, a tuple of integers, and so its rank."""
    raise _only_compiled("set_shape")


def set_actual(call: Any, sample: int, port: int, dim: int, extent: int) -> None:
    """In run: how many of an output's bounded extent ("<=n") were written."""
    raise _only_compiled("set_actual")


def fail(struct: Any, sample: int, status: int, message: str) -> int:
    """Writes the message (a literal) and the sample and returns the status: ``return fail(...)``"""
    raise _only_compiled("fail")


def _only_compiled(name: str) -> Exception:
    return TypeError(f"opabi.numba.{name} is for functions that Numba compiles.")


def _struct(kind: Any, only: str | None = None) -> Any:
    """The record of a helper's first parameter. Raises Numba's error for anything else."""
    dtype = _POINTERS.get(kind)
    if dtype is None or (only and dtype is not _STRUCTS[only]):
        expected = f"an {only}" if only else "an opabi_call or opabi_setup"
        raise TypingError(f"opabi.numba: expected {expected} as the first parameter, found {kind}.")
    return dtype


def _rank(ndim: Any) -> int:
    if not isinstance(ndim, types.IntegerLiteral):
        raise TypingError(
            "opabi.numba: the rank has to be a literal such as 3, for it is a part of the type."
        )
    return int(ndim.literal_value)


# No annotations below: Numba wants those of an overload and of what it returns to be equal.


@overload(fields)
def _fields(struct):
    _struct(struct)
    return lambda struct: carray(struct, 1)[0]


def _tensor(struct: Any, table: str, ports: str) -> Any:
    """Compiled code for the address of a tensor in one of a struct's tables."""
    dtype = _struct(struct)
    table_at, ports_at, size = offset(dtype, table), offset(dtype, ports), TENSOR_SIZE

    def tensor(struct, sample, port):
        base = address(struct)
        return load(base + table_at) + size * (
            sample * pointer(base + ports_at, np.int32)[0] + port
        )

    return numba.njit(tensor)


@overload(input, prefer_literal=True)
def _input(struct, sample, port, dtype, ndim):
    tensor, _ = _tensor(struct, "inputs", "n_in"), _rank(ndim)

    def run(struct, sample, port, dtype, ndim):
        at = tensor(struct, sample, port)
        return readonly(carray(pointer(load(at + DATA), dtype), extents(load(at + SHAPE), ndim)))

    return run


@overload(output, prefer_literal=True)
def _output(call, sample, port, dtype, ndim):
    _struct(call, "opabi_call")
    tensor, _ = _tensor(call, "outputs", "n_out"), _rank(ndim)

    def run(call, sample, port, dtype, ndim):
        at = tensor(call, sample, port)
        return carray(pointer(load(at + DATA), dtype), extents(load(at + SHAPE), ndim))

    return run


@overload(argument, prefer_literal=True)
def _argument(struct, sample, index, dtype, ndim):
    tensor = _tensor(struct, "args", "n_args")

    def number(struct, sample, index, dtype, ndim):
        return pointer(load(tensor(struct, sample, index) + DATA), dtype)[0]

    def array(struct, sample, index, dtype, ndim):
        at = tensor(struct, sample, index)
        return readonly(carray(pointer(load(at + DATA), dtype), extents(load(at + SHAPE), ndim)))

    return array if _rank(ndim) else number


@overload(input_shape, prefer_literal=True)
def _input_shape(struct, sample, port, ndim):
    tensor, _ = _tensor(struct, "inputs", "n_in"), _rank(ndim)

    def run(struct, sample, port, ndim):
        return extents(load(tensor(struct, sample, port) + SHAPE), ndim)

    return run


@overload(layout)
def _layout(struct, port):
    layouts_at = offset(_struct(struct), "in_layouts")

    def run(struct, port):
        text = load(load(address(struct) + layouts_at) + 8 * port)
        length = 0
        while pointer(text + length, np.uint8)[0] != 0:
            length += 1
        return readonly(carray(pointer(text, np.uint8), (length,)))

    return run


@overload(set_shape)
def _set_shape(setup, sample, port, shape):
    dtype = _struct(setup, "opabi_setup")
    shapes_at, ndims_at = offset(dtype, "out_shape"), offset(dtype, "out_ndim")
    ports_at, max_ndim_at = offset(dtype, "n_out"), offset(dtype, "max_ndim")
    if not isinstance(shape, types.UniTuple) or not isinstance(shape.dtype, types.Integer):
        raise TypingError(
            f"opabi.numba.set_shape: expected a tuple of integers of one type, found {shape}."
        )
    ndim = shape.count

    def run(setup, sample, port, shape):
        base = address(setup)
        n_out, max_ndim = (
            pointer(base + ports_at, np.int32)[0],
            pointer(base + max_ndim_at, np.int32)[0],
        )
        row = carray(
            pointer(load(base + shapes_at) + 8 * max_ndim * (sample * n_out + port), np.int64), ndim
        )
        for d in range(ndim):
            row[d] = shape[d]
        carray(pointer(load(base + ndims_at), np.int32), n_out)[port] = ndim

    return run


@overload(set_actual)
def _set_actual(call, sample, port, dim, extent):
    dtype = _struct(call, "opabi_call")
    actual_at, ports_at = offset(dtype, "out_actual"), offset(dtype, "n_out")
    max_ndim_at = offset(dtype, "max_ndim")

    def run(call, sample, port, dim, extent):
        base = address(call)
        n_out, max_ndim = (
            pointer(base + ports_at, np.int32)[0],
            pointer(base + max_ndim_at, np.int32)[0],
        )
        at = load(base + actual_at) + 8 * (max_ndim * (sample * n_out + port) + dim)
        carray(pointer(at, np.int64), 1)[0] = extent

    return run


@overload(fail, prefer_literal=True)
def _fail(struct, sample, status, message):
    dtype = _struct(struct)
    if not isinstance(message, types.StringLiteral):
        raise TypingError("opabi.numba.fail: the message has to be a literal.")
    text_at, cap_at, where_at = (offset(dtype, field) for field in ("err", "err_cap", "err_where"))
    text = np.frombuffer(message.literal_value.encode() + b"\0", np.uint8)
    length = len(text) - 1

    def run(struct, sample, status, message):
        base = address(struct)
        carray(pointer(load(base + where_at), np.int64), WHERE_SAMPLE + 1)[WHERE_SAMPLE] = sample
        room = load(base + cap_at)
        if room > 0:
            n = min(length, room - 1)
            while n > 0 and text[n] & 0xC0 == 0x80:  # not within a character
                n -= 1
            buffer = carray(pointer(load(base + text_at), np.uint8), room)
            buffer[:n] = text[:n]
            buffer[n] = 0
        return np.int32(status)

    return run
