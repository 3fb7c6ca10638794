# SPDX-License-Identifier: Apache-2.0
"""``Kernel.make`` with what is no descriptor: refused by name, never changed on the way."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import opabi
import pytest
from opabi.kernel import Argument, Functions, Kernel

RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(lambda _: 0x600D)
ADDRESS = ctypes.cast(RUN, ctypes.c_void_p).value


def make(**fields: Any) -> Kernel:
    return Kernel.make(
        **{"name": "k", "signature": "T[...] -> T[...]", "run": ADDRESS, "keep": RUN, **fields}
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": "a\0b"}, "name: expected text without a NUL"),
        ({"signature": "T[n]\0 -> T[n]"}, "signature: expected text without a NUL"),
        ({"doc": "\ud800"}, "doc: expected text that UTF-8 can write"),
        ({"run": -1}, "run: expected an address"),
        ({"create": 2**64}, "create: expected an address"),
        ({"specialize": -1, "run": 0}, "specialize: expected an address"),
        ({"arguments": [Argument("a\0")]}, "an argument's name: expected text without a NUL"),
        ({"arguments": [Argument("a", ndim=2**40)]}, "argument 'a', ndim: expected 0 to 15"),
        ({"arguments": [Argument("a", ndim=-5)]}, "argument 'a', ndim: expected 0 to 15"),
    ],
    ids=str,
)
def test_make_with_a_field_that_cannot_be_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(opabi.OpabiValueError) as raised:
        make(**fields)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": b"k"}, "name: expected a str, found bytes"),
        ({"signature": None}, "signature: expected a str, found NoneType"),
        ({"setup": "x"}, "setup: expected an address"),
        ({"run": 2.5}, "run: expected an address"),
        ({"specialize": True, "run": 0}, "expected specialize to be a function or an address"),
        ({"specialize": "x", "run": 0}, "expected specialize to be a function or an address"),
        ({"arguments": [3]}, "expected arguments to be a list of opabi.Argument, found int"),
        ({"arguments": "ab"}, "expected arguments to be a list of opabi.Argument, found str"),
        ({"arguments": [Argument("a", doc=None)]}, "argument 'a', doc: expected a str"),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_make_with_a_field_of_another_type_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(opabi.OpabiTypeError) as raised:
        make(**fields)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("default", "dtype", "error"),
    [
        (300, "uint8", opabi.OpabiValueError),
        (-1, "uint64", opabi.OpabiValueError),
        ([1, 300], "uint8", opabi.OpabiValueError),
        (1e300, "float32", opabi.OpabiValueError),
        (2**64, None, opabi.OpabiValueError),
        ("\ud800", None, opabi.OpabiValueError),
        (1.5, "int32", opabi.OpabiTypeError),
        (float("nan"), "int32", opabi.OpabiTypeError),
        (70000, "float16", opabi.OpabiTypeError),
        (np.int64(5), "int8", opabi.OpabiTypeError),
        ("12", "float32", opabi.OpabiTypeError),
    ],
    ids=str,
)
def test_default_that_does_not_fit_is_refused(default: Any, dtype: Any, error: Any) -> None:
    with pytest.raises(error, match="argument 'a'"):
        make(arguments=[Argument("a", dtype=dtype, default=default)])


@pytest.mark.parametrize(
    ("default", "dtype"),
    [
        (255, "uint8"),
        ([1, 2], "float32"),
        (True, "int16"),
        (2**63, "uint64"),
        (np.float16(2), "float16"),
        (np.arange(6, dtype=np.uint8).reshape(2, 3).T, "int32"),
    ],
    ids=str,
)
def test_default_that_fits_keeps_its_value(default: Any, dtype: str) -> None:
    (argument,) = make(arguments=[Argument("a", dtype=dtype, default=default)]).arguments
    assert argument.default.dtype == dtype
    assert np.array_equal(argument.default, np.asarray(default))


@pytest.mark.parametrize("functions", [None, Functions(-1), Functions("x")], ids=str)  # type: ignore[arg-type]
def test_specialize_that_returns_no_functions_is_an_error_of_the_call(functions: Any) -> None:
    kernel = make(run=0, specialize=lambda *_: functions)
    with pytest.raises(opabi.OpabiError, match="specialize for uint8 of rank 1 failed"):
        kernel(np.zeros(2, np.uint8))


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("raised", "text"),
    [(ValueError("\ud800"), r"\\ud800"), (SilentError(), "SilentError")],
    ids=repr,
)
def test_specialize_that_raises_what_has_no_text_is_reported(raised: Any, text: str) -> None:
    def specialize(*_: Any) -> Functions:
        raise raised

    with pytest.raises(opabi.OpabiError, match=text):
        make(run=0, specialize=specialize)(np.zeros(2, np.uint8))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interrupt_of_specialize_goes_on(kind: Any) -> None:
    interrupts = [True]

    def specialize(*_: Any) -> Functions:
        if interrupts.pop():
            raise kind
        return Functions(ADDRESS or 0)

    kernel = make(run=0, specialize=specialize)
    with pytest.raises(kind):
        kernel(np.zeros(2, np.uint8))
    interrupts.append(False)
    assert kernel(np.zeros(2, np.uint8)).shape == (2,)
