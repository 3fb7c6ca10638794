# SPDX-License-Identifier: Apache-2.0
"""What the Numba adapter compiles, called as a foreign host would: by the structs alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import opabi
import pytest
from opabi import _abi
from opabi.adapters import numba_function, numba_ports
from opabi.adapters.numba_specialize import Specializer
from opabi.kernel import Functions, TensorType

ffi = _abi.ffi
OK = _abi.constants["OPABI_OK"]
UNSET = _abi.constants["OPABI_UNSET"]
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


def functions(signature: str, function: Any, *types: TensorType, rule: Any = None) -> Functions:
    source = numba_function.read(function)
    setup = numba_function.read(rule, what="setup") if rule else None
    ports = numba_ports.read(signature)
    assert ports is not None
    definition = numba_function.Definition(source, setup, ports, None, {})
    return Specializer(definition, cache=True)(types, ())


class Call:
    """An opabi_call for rows of arrays; err has ``cap`` bytes between guards."""

    def __init__(self, inputs: Sequence[Any], outputs: Sequence[Any], cap: int = 64) -> None:
        self._alive: list[Any] = [inputs, outputs]
        self.struct = ffi.new("opabi_call *")
        self.guarded = ffi.new("char[]", b"\xa5" * (cap + 16))
        self.where = ffi.new("int64_t[4]", [UNSET] * 4)
        call = self.struct
        call.struct_size, call.abi = ffi.sizeof("opabi_call"), _abi.constants["OPABI_VERSION"]
        call.n_samples = call.batch_size = len(inputs)
        call.inputs, call.n_in = self._table(inputs), len(inputs[0])
        call.outputs, call.n_out = self._table(outputs), len(outputs[0])
        call.max_ndim, call.device_type = 15, 1
        call.err = self.guarded + 8 if cap else ffi.NULL
        call.err_cap, call.err_where = cap, self.where
        self.cap = cap

    def _table(self, rows: Sequence[Sequence[np.ndarray]]) -> Any:
        arrays = [array for row in rows for array in row]
        table = ffi.new("opabi_tensor[]", max(len(arrays), 1))
        for tensor, array in zip(table, arrays, strict=False):
            shape = ffi.new("int64_t[]", list(array.shape) or [0])
            strides = ffi.new("int64_t[]", [s // array.itemsize for s in array.strides] or [0])
            self._alive += [shape, strides]
            tensor.data = ffi.cast("void *", array.ctypes.data)
            tensor.device_type, tensor.ndim = 1, array.ndim
            tensor.dtype = CODES[array.dtype.kind] | array.itemsize << 11 | 1 << 16
            tensor.shape, tensor.strides = shape, strides
        self._alive.append(table)
        return table

    def run(self, made: Functions) -> int:
        self.struct.user_data = ffi.cast("void *", made.user_data)
        status: int = ffi.cast("opabi_run_fn", made.run)(self.struct)
        guards = ffi.buffer(self.guarded, self.cap + 16)
        assert guards[:8] == b"\xa5" * 8
        assert guards[8 + self.cap : 16 + self.cap] == b"\xa5" * 8
        return status

    def message(self) -> str:
        return ffi.string(self.struct.err).decode()


def face(x, out):
    if x[0] == 1:
        raise ValueError("näive — no face")
    out[:] = x + np.uint8(10)


@pytest.fixture(scope="module")
def made() -> Functions:
    return functions("uint8[n] -> uint8[n]", face, TensorType("uint8", 1))


def rows(*values: int) -> list[list[np.ndarray]]:
    return [[np.array([value], np.uint8)] for value in values]


def test_run_returns_the_success_code(made: Functions) -> None:
    outputs = rows(0, 0, 0)
    assert Call(rows(2, 3, 4), outputs).run(made) == OK
    assert [int(row[0][0]) for row in outputs] == [12, 13, 14]


def test_failing_sample_gives_status_place_and_message(made: Functions) -> None:
    call = Call(rows(2, 1, 4), rows(0, 0, 0))
    assert call.run(made) == _abi.constants["OPABI_ERROR_VALUE"]
    assert list(call.where) == [UNSET, UNSET, 1, UNSET]
    line = face.__code__.co_firstlineno + 2
    assert call.message() == f"näive — no face (test_numba_abi.py, line {line})"


@pytest.mark.parametrize("cap", range(12))
def test_message_is_cut_at_a_character(made: Functions, cap: int) -> None:
    call = Call(rows(1), rows(0), cap)
    assert call.run(made) == _abi.constants["OPABI_ERROR_VALUE"]
    if cap:
        text = "näive — no face".encode()[: cap - 1].decode(errors="ignore")
        assert call.message() == text


def test_sample_without_elements_has_no_data(made: Functions) -> None:
    same = functions("uint8[n] -> uint8[n]", copied, TensorType("uint8", 1))
    call = Call([[np.empty(0, np.uint8)]], [[np.empty(0, np.uint8)]])
    call.struct.inputs[0].data = ffi.cast("void *", 1)
    call.struct.outputs[0].data = ffi.NULL
    assert call.run(same) == OK


def copied(x, out):
    for i in range(x.size):
        out[i] = x[i]


@pytest.mark.parametrize("shift", [1, 4])
def test_data_may_lie_at_any_multiple_of_the_element(shift: int) -> None:
    same = functions("float32[n] -> float32[n]", copied, TensorType("float32", 1))
    x = np.arange(100, dtype=np.float32)[shift:]
    out = np.zeros(110, np.float32)[shift + 1 :][: x.size]
    assert Call([[x]], [[out]]).run(same) == OK
    assert np.array_equal(out, x)


def test_split_calls_give_what_one_call_gives(made: Functions) -> None:
    inputs, whole, parts = rows(*range(2, 9)), rows(*[0] * 7), rows(*[0] * 7)
    assert Call(inputs, whole).run(made) == OK
    for begin, end in ((0, 1), (1, 4), (4, 7)):
        assert Call(inputs[begin:end], parts[begin:end]).run(made) == OK
    assert np.array_equal(whole, parts)


def test_setup_fills_shape_rank_and_dtype_of_each_sample() -> None:
    made = functions(
        "uint8[n] -> uint8[...?]", copied, TensorType("uint8", 1), rule=lambda x: (2 * x[0],)
    )
    call = Call([[np.zeros(3, np.uint8)], [np.zeros(0, np.uint8)]], [[], []])
    setup = ffi.new("opabi_setup *")
    setup.n_in, setup.n_out, setup.n_samples, setup.max_ndim = 1, 1, 2, 15
    setup.inputs, setup.user_data = call.struct.inputs, ffi.cast("void *", made.user_data)
    shapes = ffi.new("int64_t[]", [UNSET] * 30)
    dtypes, ndims = ffi.new("uint32_t[]", [0x7FFFFFFF]), ffi.new("int32_t[]", [-1])
    setup.out_shape, setup.out_dtype, setup.out_ndim = shapes, dtypes, ndims
    assert ffi.cast("opabi_setup_fn", made.setup)(setup) == OK
    assert (shapes[0], shapes[15]) == (6, 0)
    assert [shapes[d] for d in (1, 14, 16, 29)] == [UNSET] * 4
    assert (dtypes[0], ndims[0]) == (_abi.constants["OPABI_UINT8"], 1)


def test_specializations_are_made_once() -> None:
    source = numba_function.read(copied)
    ports = numba_ports.read("T[n] -> T[n]")
    assert ports is not None
    definition = numba_function.Definition(source, None, ports, None, {})
    specialize = Specializer(definition, cache=False)
    types = (TensorType("int8", 1),)
    assert specialize(types, ()) is specialize(types, ())


def test_errors_are_opabis_own() -> None:
    with pytest.raises(opabi.OpabiTypeError, match="float16"):
        functions("T[n] -> T[n]", copied, TensorType("float16", 1))
