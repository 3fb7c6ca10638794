# SPDX-License-Identifier: Apache-2.0
"""Cfuncs written by hand over opabi_call and opabi_setup, with the helpers for typed arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import opabi
import pytest
from numba import cfunc
from numba.core.errors import TypingError

on = opabi.numba
Argument = opabi.Argument


@cfunc(on.run_signature)
def scaled_run(call):
    "Scales, and adds the first of a table."
    for s in range(on.fields(call).n_samples):
        x = on.input(call, s, 0, np.float32, 1)
        y = on.output(call, s, 0, np.float32, 1)
        gain = on.argument(call, s, 0, np.float32, 0)
        table = on.argument(call, s, 1, np.int64, 1)
        if x.size and x[0] < 0:
            return on.fail(call, s, on.ERROR_VALUE, "negative: naïve")
        for i in range(x.size):
            y[i] = x[i] * gain + table[0]
    return on.OK


@pytest.fixture(scope="module")
def scaled() -> Any:
    arguments = [Argument("gain", "float32", 0, 2.0), Argument("table", "int64", 1)]
    return on.kernel("float32[n] -> float32[n]", name="scaled", arguments=arguments)(scaled_run)


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_arrays_and_arguments_arrive(scaled: Any) -> None:
    found = scaled([vector(1, 2), vector()], gain=[3, 4], table=[[5], [6]])
    assert [out.tolist() for out in found] == [[8, 11], []]
    assert scaled.__doc__ == "Scales, and adds the first of a table."


def test_fail_reports_status_sample_and_message(scaled: Any) -> None:
    with pytest.raises(opabi.OpabiValueError, match=r"sample 1.*negative: naïve"):
        scaled([vector(1), vector(-1)], table=[[5], [5]])


def test_layout_and_set_shape_write_the_inputs_layout() -> None:
    @cfunc(on.run_signature)
    def run(call):
        layout = on.layout(call, 0)
        for s in range(on.fields(call).n_samples):
            on.output(call, s, 0, np.uint8, 1)[:] = layout
        return on.OK

    @cfunc(on.setup_signature)
    def setup(setup):
        for s in range(on.fields(setup).n_samples):
            on.set_shape(setup, s, 0, (on.layout(setup, 0).size,))
        return on.OK

    layout = on.kernel("uint8[h,w,c]@HWC -> uint8[?]", name="layout", setup=setup)(run)
    assert layout(np.ones((4, 5, 3), np.uint8)).tobytes() == b"HWC"


def test_setup_reads_shapes_and_arguments() -> None:
    @cfunc(on.run_signature)
    def run(call):
        for s in range(on.fields(call).n_samples):
            on.output(call, s, 0, np.int64, 2)[:] = 1
        return on.OK

    @cfunc(on.setup_signature)
    def setup(setup):
        for s in range(on.fields(setup).n_samples):
            h, w = on.input_shape(setup, s, 0, 2)
            n = on.argument(setup, s, 0, np.int64, 0)
            if n < 0:
                return on.fail(setup, s, on.ERROR_INDEX, "below zero")
            on.set_shape(setup, s, 0, (h + n, w))
        return on.OK

    arguments = [Argument("n", "int64", 0)]
    padded = on.kernel("T[h,w] -> int64[?,w]", name="padded", arguments=arguments, setup=setup)(run)
    assert [out.shape for out in padded([np.ones((1, 2))] * 2, n=[0, 3])] == [(1, 2), (4, 2)]
    with pytest.raises(opabi.OpabiIndexError, match=r"sample 1.*below zero"):
        padded([np.ones((1, 2))] * 2, n=[0, -1])


def test_set_actual_cuts_an_output() -> None:
    @cfunc(on.run_signature)
    def run(call):
        for s in range(on.fields(call).n_samples):
            x = on.input(call, s, 0, np.int64, 1)
            out = on.output(call, s, 0, np.int64, 1)
            n = 0
            for value in x:
                if value > 4:
                    out[n] = value
                    n += 1
            on.set_actual(call, s, 0, 0, n)
        return on.OK

    keep = on.kernel("int64[n] -> int64[<=n]", name="keep")(run)
    found = keep([np.array([5, 1, 7]), np.array([1, 2]), np.array([], np.int64)])
    assert [out.tolist() for out in found] == [[5, 7], [], []]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_cfunc_that_raises_is_an_error_and_not_a_success() -> None:
    @cfunc(on.run_signature)
    def run(call):
        raise ValueError("lost")

    kernel = on.kernel("int64[n] -> int64[n]", name="raises")(run)
    with pytest.raises(opabi.OpabiRuntimeError, match="raises"):
        kernel(np.array([1]))


@cfunc("int32(int32)")
def not_a_run(x):
    return x


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        (not_a_run, {}, "expected a cfunc of opabi.numba.run_signature"),
        (scaled_run, {"types": ["uint8"]}, "types= has no use"),
        (scaled_run, {"boundscheck": True}, "boundscheck= has no use"),
        (scaled_run, {"setup": lambda x: x}, "its setup is a cfunc too"),
        (scaled_run, {"setup": not_a_run}, "expected a cfunc of opabi.numba.setup_signature"),
    ],
)
def test_cfunc_with_what_does_not_fit_is_refused(function: Any, options: Any, text: str) -> None:
    with pytest.raises(opabi.OpabiTypeError, match=text):
        on.kernel("float32[n] -> float32[n]", **options)(function)


def rank_unknown(call):
    x = on.input(call, 0, 0, np.float32, on.fields(call).n_in)
    return x.size


def struct_unknown(call):
    x = on.input(1, 0, 0, np.float32, 1)
    return x.size


def shape_in_run(call):
    on.set_shape(call, 0, 0, (1,))
    return on.OK


def message_made(call):
    return on.fail(call, 0, 1, str(on.fields(call).n_in))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (rank_unknown, "rank has to be a literal"),
        (struct_unknown, "expected an opabi_call or opabi_setup"),
        (shape_in_run, "expected an opabi_setup"),
        (message_made, "message has to be a literal"),
    ],
)
def test_helper_used_wrongly_is_refused_when_compiled(function: Any, text: str) -> None:
    with pytest.raises(TypingError, match=text):
        cfunc(on.run_signature)(function)


def test_helper_outside_of_compiled_code_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"opabi\.numba\.input is for functions that Numba compiles"
    ):
        on.input(None, 0, 0, np.float32, 1)


def test_writing_to_an_input_is_refused_when_compiled() -> None:
    def run(call):
        on.input(call, 0, 0, np.float32, 1)[0] = 1
        return on.OK

    with pytest.raises(TypingError, match="readonly"):
        cfunc(on.run_signature)(run)


def test_unknown_name_of_the_module_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="inputs"):
        _ = on.inputs
