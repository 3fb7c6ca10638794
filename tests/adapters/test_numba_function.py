# SPDX-License-Identifier: Apache-2.0
"""What opabi.numba.kernel takes, and how it refuses what it does not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import opabi
import pytest
from opabi.adapters import numba_ports
from opabi.kernel import TensorType

SAME = "float64[n] -> float64[n]"
X = np.array([1.0, 2.0])


def double(x, out):
    out[:] = x * 2


class Doubler:
    def method(self, x, out):
        out[:] = x * 2

    def __call__(self, x, out):
        out[:] = x * 2

    @staticmethod
    def static(x, out):
        out[:] = x * 2


def closure(factor: float) -> Callable[..., None]:
    def scaled(x, out):
        out[:] = x * factor

    return scaled


def writes_by_lambda() -> Callable[..., None]:
    return lambda x, out: out.fill(x[0] * 2)


@pytest.mark.parametrize(
    "function",
    [
        double,
        numba.njit(double),
        numba.njit("void(float64[:], float64[:])")(double),
        numba.njit(fastmath=True)(double),
        Doubler.static,
        Doubler().static,
        closure(2),
        numba.njit(closure(2)),
        functools.partial(double),
        functools.partial(numba.njit(double)),
    ],
    ids=repr,
)
def test_functions_of_every_kind_become_kernels(function: Any) -> None:
    assert opabi.numba.kernel(SAME)(function)(X).tolist() == [2, 4]


def test_closures_of_one_factory_stay_apart() -> None:
    twice, thrice = (opabi.numba.kernel(SAME)(closure(k)) for k in (2, 3))
    assert (twice(X).tolist(), thrice(X).tolist()) == ([2, 4], [3, 6])


def test_lambda_needs_a_name() -> None:
    with pytest.raises(opabi.OpabiTypeError, match="Pass name="):
        opabi.numba.kernel(SAME)(writes_by_lambda())
    assert opabi.numba.kernel(SAME, name="filled")(writes_by_lambda())(X).tolist() == [2, 2]


def test_options_of_a_jitted_function_are_kept() -> None:
    checked = opabi.numba.kernel(SAME)(numba.njit(boundscheck=True)(writes_past_its_end))
    with pytest.raises(opabi.OpabiIndexError, match="out of bounds"):
        checked(X)


def writes_past_its_end(x, out):
    out[x.size] = 1
    out[:] = x


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (Doubler().method, "bound method"),
        (Doubler(), "found a Doubler"),
        (Doubler, "is a class"),
        (np.sin, "is a ufunc"),
        (numba.vectorize(lambda x: x), "is a ufunc"),
        (functools.partial(double, X), "sets the first 1 by position"),
        (functools.partial(double, k=1), "sets 'k', which is no parameter"),
        (numba.njit(parallel=True)(double), "parallel=True"),
        (numba.jit(forceobj=True)(double), "forceobj=True"),
        (len, "found a builtin_function_or_method"),
        (7, "expected a function, found a int"),
        (None, "expected a function, found a NoneType"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_a_kernel_is_refused_by_what_it_is(thing: Any, text: str) -> None:
    with pytest.raises(opabi.OpabiTypeError, match=text):
        opabi.numba.kernel(SAME)(thing)


def test_kernel_of_a_kernel_is_refused() -> None:
    kernel = opabi.numba.kernel(SAME)(double)
    with pytest.raises(opabi.OpabiTypeError, match="'double' is a kernel already"):
        opabi.numba.kernel(SAME)(kernel)


def too_few(x): ...


def too_many(x, out, threshold): ...


def starred(*ports): ...


def double_starred(x, out, **arguments): ...


def defaulted(x, out, threshold=3): ...


def generator(x, out):
    yield


async def coroutine(x, out): ...


def annotated(x, out, *, k: list): ...


def annotated_by_name(x, out, *, k: Nothing): ...  # noqa: F821


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (too_few, r"takes 2 by position.* Found 1: x\."),
        (too_many, r"takes 2 by position.* Found 3: x, out, threshold\."),
        (starred, r"'\*ports' does not say"),
        (double_starred, r"'\*\*arguments' does not say"),
        (defaulted, r"'threshold' has a default.*\(\.\.\., \*, threshold=3\)"),
        (generator, "generator or coroutine"),
        (coroutine, "generator or coroutine"),
        (annotated, "annotation .* of 'k'"),
        (annotated_by_name, "annotation 'Nothing' of 'k'"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_parameters_that_fit_no_signature_are_refused(function: Any, text: str) -> None:
    with pytest.raises(opabi.OpabiTypeError, match=text):
        opabi.numba.kernel(SAME)(function)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"signature": double}, opabi.OpabiTypeError, "needs the signature"),
        ({"signature": "T[n] -> U[n]"}, opabi.OpabiValueError, "S-009"),
        ({"signature": "T[n -> T[n]"}, opabi.OpabiValueError, r"(?s)double.*\^"),
        ({"signature": ""}, opabi.OpabiValueError, "S-003"),
        ({"signature": "T[n] -> T[?]"}, opabi.OpabiTypeError, "Pass setup="),
        ({"signature": "T[n] -> ?[n]"}, opabi.OpabiTypeError, "Pass out_dtypes="),
        ({"signature": SAME, "setup": lambda x: x}, opabi.OpabiTypeError, "has no use"),
        ({"signature": SAME, "out_dtypes": "int8"}, opabi.OpabiTypeError, "has none"),
        ({"signature": "T[n] -> T[?]", "setup": 3}, opabi.OpabiTypeError, "setup: expected a func"),
        ({"signature": "T[n] -> T[?]", "setup": lambda: 1}, opabi.OpabiTypeError, "takes 0"),
        (
            {"signature": "T[n] -> T[?]", "setup": lambda x, *, k: x},
            opabi.OpabiTypeError,
            "'k', which is no argument",
        ),
        ({"signature": SAME, "name": "2x"}, opabi.OpabiTypeError, "'2x' cannot be its name"),
        ({"signature": SAME, "arguments": []}, opabi.OpabiTypeError, "for cfuncs"),
        ({"signature": SAME, "types": "string"}, opabi.OpabiValueError, "no element type"),
        ({"signature": SAME, "types": [("int8", "int8")]}, opabi.OpabiTypeError, "expected 1"),
        ({"signature": "T[...] -> T[...]", "types": "int8"}, opabi.OpabiValueError, "any rank"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_options_that_do_not_fit_are_refused(options: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        opabi.numba.kernel(**options)(double)


@pytest.mark.parametrize("given", ["nothing", ("int8", "int8"), lambda dtype: "complex64"])
def test_out_dtypes_that_are_none_are_refused(given: Any) -> None:
    kernel = opabi.numba.kernel("T[n] -> ?[n]", out_dtypes=given)(double)
    with pytest.raises(opabi.OpabiError, match="out_dtypes"):
        kernel(X)


def test_types_compile_at_once() -> None:
    with pytest.raises(opabi.OpabiTypeError, match="sizze"):

        @opabi.numba.kernel("T[n] -> T[n]", types=["uint8", np.float32])
        def typo(x, out):
            out[:] = x.sizze


def test_types_of_any_rank_are_given_by_numba_types() -> None:
    @opabi.numba.kernel("T[...] -> T[...]", types=[numba.uint8[:, :]])
    def zero(x, out, *, k=2, mode="ab", table: "float32[:]" = (1, 2)):  # noqa: F821, UP037
        out[...] = 0

    assert zero(np.ones((1, 1), np.uint8)).tolist() == [[0]]


def test_types_without_an_arguments_type_are_refused() -> None:
    with pytest.raises(opabi.OpabiTypeError, match="type of argument 'k'"):

        @opabi.numba.kernel(SAME, types=["float64"])
        def scaled(x, out, *, k): ...


@pytest.mark.parametrize(
    ("signature", "in_types", "outputs"),
    [
        ("T[h,w] -> T[2*h,(w+1)//2]", [("int8", 2)], [("int8", 2)]),
        ("T[...,c], U[...x] -> U[c,...], T[...x,1]", [("int8", 3), ("bool", 1)],
         [("bool", 3), ("int8", 2)]),
        ("a: T[n]@N, float32 -> ?[...?], T[?,<=n]@AB", [("int8", 1), ("float32", 0)],
         [(None, None), ("int8", 2)]),
        ("->uint8[]", [], [("uint8", 0)]),
    ],
)  # fmt: skip
def test_outputs_are_bound_to_the_inputs_types(
    signature: str, in_types: list[Any], outputs: list[Any]
) -> None:
    ports = numba_ports.read(signature)
    assert ports is not None
    found = ports.bind([TensorType(*t) for t in in_types])
    assert [(t.dtype, t.ndim) for t in found] == outputs


@pytest.mark.parametrize(
    "signature", ["", "T[n]", "T[n -> T[n]", "T[n]] -> T", "T[n] U -> T", ", ->"]
)
def test_signature_that_cannot_be_read_is_left_to_the_core(signature: str) -> None:
    with pytest.raises(opabi.OpabiValueError, match=r"OPABI-S-\d+"):
        opabi.numba.kernel(signature)(double)
