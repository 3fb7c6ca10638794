# SPDX-License-Identifier: Apache-2.0
"""Calls with arrays: NumPy arrays go a shorter way to the core than all else, to the same end."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from typing import Any

import numpy as np
import opabi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]
ARRAYS = hnp.arrays(
    st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
)
STEPS = st.sampled_from([1, -1, 2])


class Wrapped:
    """An array that only its interface shows."""

    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__
        self._array = array


@given(array=ARRAYS, steps=st.lists(STEPS, min_size=4, max_size=4), swapped=st.booleans())
def test_array_and_its_interface_give_the_same(
    c_kernels: Any, array: np.ndarray, steps: list[int], swapped: bool
) -> None:
    view = array[tuple(slice(None, None, step) for step in steps[: array.ndim])]
    view = view.T if swapped else view
    direct, general = c_kernels.identity(view), c_kernels.identity(Wrapped(view))
    assert direct.dtype == general.dtype == array.dtype
    assert direct.shape == general.shape == view.shape
    assert direct.tobytes() == general.tobytes() == view.tobytes()


@pytest.mark.parametrize("options", [{}, {"checked": True}, {"num_threads": 2}])
def test_argument_by_name_reaches_the_kernel(c_kernels: Any, options: dict[str, Any]) -> None:
    x, out = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    assert c_kernels.affine(x, gain=2, bias=np.float32(1), out=out, **options) is out
    np.testing.assert_array_equal(out, 2 * x + 1)


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}])
@pytest.mark.parametrize(
    ("inputs", "keywords", "error", "message"),
    [
        ((np.zeros(3, np.float32),), {"gian": 1}, opabi.OpabiTypeError, "no argument 'gian'"),
        ((np.zeros(3, np.float32),), {}, opabi.OpabiTypeError, "needs the argument 'gain'"),
        ((np.zeros(3, np.float32),) * 2, {"gain": 1}, opabi.OpabiTypeError, "expected 1 inputs"),
        ((), {"gain": 1}, opabi.OpabiTypeError, "expected 1 inputs"),
        ((np.zeros(3, ">f4"),), {"gain": 1}, opabi.OpabiTypeError, "native byte order"),
        ((np.zeros(3, "c8"),), {"gain": 1}, opabi.OpabiTypeError, "expected bool, an integer"),
        ((np.zeros(3, np.float64),), {"gain": 1}, opabi.OpabiTypeError, "OPABI-S-031"),
        (
            (np.zeros(3, np.float32),),
            {"gain": "12"},
            opabi.OpabiTypeError,
            r"argument 'gain': expected float32, found a string",
        ),
        (
            (np.zeros(3, np.float32),),
            {"gain": 1, "bias": "2"},
            opabi.OpabiTypeError,
            r"argument 'bias': expected float32 of rank 0, found a string",
        ),
        (
            ([np.zeros(3, np.float32)] * 2,),
            {"gain": [np.uint8([1, 2]), "12"]},
            opabi.OpabiTypeError,
            r"argument 'gain': expected float32, found a string",
        ),
    ],
)
def test_wrong_call_is_refused_on_either_way(
    c_kernels: Any,
    options: dict[str, Any],
    inputs: tuple[Any, ...],
    keywords: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        c_kernels.affine(*inputs, **keywords, **options)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.zeros(4, np.uint8), opabi.OpabiValueError, r"expected out= of uint8 \(3,\)"),
        (np.zeros(3, np.int8), opabi.OpabiTypeError, "expected out= of uint8"),
        (np.zeros(6, np.uint8)[::2], opabi.OpabiValueError, "contiguous"),
        (np.broadcast_to(np.zeros((), np.uint8), 3), opabi.OpabiTypeError, "read-only"),
        ([0, 0, 0], opabi.OpabiTypeError, "writable array"),
    ],
)
def test_unfit_out_is_refused(
    c_kernels: Any, out: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        c_kernels.invert(np.zeros(3, np.uint8), out=out)


def test_out_that_is_the_input_is_refused(c_kernels: Any) -> None:
    x = np.zeros(3, np.uint8)
    with pytest.raises(opabi.OpabiValueError, match="OPABI-H-006"):
        c_kernels.invert(x, out=x)


def test_call_frees_what_it_held(c_kernels: Any) -> None:
    x, out = np.zeros(3, np.uint8), np.zeros(3, np.uint8)
    before = sys.getrefcount(x), sys.getrefcount(out)
    for _ in range(3):
        c_kernels.invert(x, out=out)
        with pytest.raises(opabi.OpabiTypeError):
            c_kernels.invert(x, x, out=out)
    assert (sys.getrefcount(x), sys.getrefcount(out)) == before


def test_call_shows_its_signature(c_kernels: Any) -> None:
    parameters = inspect.signature(c_kernels.invert).parameters
    assert list(parameters) == ["inputs", "out", "checked", "num_threads", "arguments"]


def test_subclass_that_redefines_the_call_is_obeyed(c_kernels: Any) -> None:
    class Loud(opabi.Kernel):
        def __call__(self, *inputs: Any, **keywords: Any) -> Any:
            return "called", super().__call__(*inputs, **keywords)

    loud = Loud.from_library(c_kernels.path, "invert")
    called, result = loud(np.zeros(3, np.uint8))
    assert called == "called"
    assert result.tolist() == [255, 255, 255]


def test_environment_turns_checked_mode_on(hostile: Any) -> None:
    script = (
        "import numpy, opabi, sys\n"
        "kernel = opabi.load(sys.argv[1]).writes_half\n"
        "try:\n"
        "    kernel(numpy.zeros(64, numpy.uint8))\n"
        "except opabi.OpabiRuntimeError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, hostile.path],
        env=os.environ | {"OPABI_CHECKED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "OPABI-K-020" in done.stdout
