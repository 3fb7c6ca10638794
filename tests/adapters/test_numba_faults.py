# SPDX-License-Identifier: Apache-2.0
"""The faults of DALI's own numba_function do not happen here. The numbers are those of the study
that found them in DALI 2.4.0."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from typing import Any

import numba
import numpy as np
import opabi
import pytest

kernel = opabi.numba.kernel
INT = np.int32


# ---- Setup ---------------------------------------------------------------------------------------


def test_a1_setup_of_two_inputs_and_one_output_sees_both() -> None:
    @kernel("int32[n], int32[m] -> int32[?]", setup=lambda a, b: a[0] + b[0])
    def join(a, b, out):
        out[: a.size] = a
        out[a.size :] = b

    assert join(np.array([0, 1], INT), np.arange(4, dtype=INT)).tolist() == [0, 1, 0, 1, 2, 3]


def test_a2_setup_of_one_input_and_two_outputs_sees_one() -> None:
    with pytest.raises(opabi.OpabiTypeError, match="expected 1: the shape of each input"):
        kernel("T[n] -> T[?], T[?]", setup=lambda a, phantom: (a, a))(two_outputs)
    one = kernel("T[n] -> T[?], T[?]", setup=lambda a: ((a[0],), (a[0] + 1,)))(two_outputs)
    assert [out.shape for out in one(np.ones(3))] == [(3,), (4,)]


def two_outputs(x, a, b):
    a[:] = 1
    b[:] = 2


@pytest.mark.parametrize(("source", "target"), [("float32", "int32"), ("uint8", "float32")])
def test_a3_declared_output_type_is_applied_without_setup(source: str, target: str) -> None:
    cast = kernel(f"{source}[n] -> {target}[n]", name="cast")(copied)
    for size in (3, 2**20):
        found = cast(np.full(size, 7, source))
        assert found.dtype == target
        assert (found == 7).all()


def copied(x, out):
    for i in range(x.size):
        out[i] = x[i]


def test_a4_output_of_another_rank_is_that_rank() -> None:
    @kernel("T[h,w] -> T[h*w]")
    def flat(x, out):
        out[:] = x.reshape(-1)

    assert flat(np.arange(6).reshape(2, 3)).tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(opabi.OpabiTypeError, match="does not compile"):
        kernel("T[h,w] -> T[h*w]", name="wrong")(two_dimensional)(np.ones((2, 3)))


def two_dimensional(x, out):
    out[0, 0] = x[0, 0]


def test_a5_exception_in_the_kernel_is_an_error() -> None:
    @kernel("T[n] -> T[n]")
    def picky(x, out):
        if x[0] > 5:
            raise ValueError("too large")
        out[:] = x

    with pytest.raises(opabi.OpabiValueError, match=r"picky.*sample 1.*too large"):
        picky([np.array([1]), np.array([9])])


def test_a6_exception_in_setup_and_setup_that_gives_nothing_are_errors() -> None:
    def raises(x):
        if x[0] >= 0:
            raise IndexError("no shape")
        return x

    with pytest.raises(opabi.OpabiIndexError, match="no shape"):
        kernel("T[n] -> T[?]", setup=raises)(copied)(np.ones(1))
    with pytest.raises(opabi.OpabiTypeError, match="its setup returns none"):
        kernel("T[n] -> T[?]", setup=lambda x: None)(copied)(np.ones(1))


@pytest.mark.parametrize(
    ("rule", "error", "text"),
    [
        (lambda x: 2**50, opabi.OpabiMemoryError, "1125899906842624"),
        (lambda x: -1, opabi.OpabiValueError, "setup gives -1"),
        (lambda x: (x[0] - 9,), opabi.OpabiValueError, r"setup gives \(-8,\)"),
    ],
)
def test_a7_impossible_size_is_refused_before_it_is_allocated(
    rule: Any, error: type, text: str
) -> None:
    with pytest.raises(error, match=f"copied.*{text}"):
        kernel("T[n] -> T[?]", setup=rule)(copied)(np.ones(1))


def test_a8_write_past_the_end_is_named_in_checked_mode() -> None:
    @kernel("uint8[n] -> uint8[n]")
    def past(x, out):
        for i in range(x.size + x.size // 4):
            out[i] = 77

    with pytest.raises(opabi.OpabiRuntimeError, match=r"past.*sample 1"):
        past([np.ones(3, np.uint8), np.ones(4, np.uint8)], checked=True)


# ---- Types ---------------------------------------------------------------------------------------


def test_a9_float16_is_refused_for_the_true_reason() -> None:
    with pytest.raises(opabi.OpabiTypeError, match=r"Numba has no float16 arrays on the CPU"):
        kernel("T[n] -> T[n]")(copied)(np.ones(1, np.float16))


@pytest.mark.parametrize("types", ["uint8", ("uint8",), ["uint8"], np.uint8, numba.uint8, None])
def test_a10_types_are_taken_in_every_spelling_or_left_out(types: Any) -> None:
    assert kernel("T[n] -> T[n]", types=types)(copied)(np.ones(1, np.uint8)).tolist() == [1]


@pytest.mark.parametrize(("n_in", "n_out"), [(9, 2), (2, 9), (0, 1), (1, 0), (0, 0)])
def test_a11_any_number_of_ports(n_in: int, n_out: int) -> None:
    names = [f"p{i}" for i in range(n_in + n_out)]
    scope: dict[str, Any] = {}
    body = "".join(f"    {name}[0] = {i}\n" for i, name in enumerate(names[n_in:]))
    exec(f"def ports({', '.join(names)}):\n{body}    pass", scope)
    signature = f"{', '.join(['int32[1]'] * n_in)} -> {', '.join(['int32[1]'] * n_out)}"
    found = kernel(signature)(scope["ports"])(*[np.zeros(1, INT)] * n_in)
    listed = [] if found is None else list(found) if isinstance(found, tuple) else [found]
    assert [int(out[0]) for out in listed] == list(range(n_out))


def test_a12_two_inputs_of_one_shape_need_no_setup() -> None:
    @kernel("T[n], T[n] -> T[n]")
    def total(a, b, out):
        out[:] = a + b

    assert total(np.array([1, 2]), np.array([3, 4])).tolist() == [4, 6]


def test_a13_number_of_rank_0_is_an_input_and_an_argument() -> None:
    @kernel("float32[n], float32 -> float32[n]")
    def scaled(x, factor, out, *, plus):
        out[:] = x * factor + plus

    x = np.ones(2, np.float32)
    assert scaled(x, np.float32(3), plus=np.float32(1)).tolist() == [4, 4]


# ---- Compilation ---------------------------------------------------------------------------------


def test_a16_instances_of_one_function_are_compiled_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from opabi.adapters import numba_specialize

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = []
    make = numba_specialize.Specializer._compile
    monkeypatch.setattr(
        numba_specialize.Specializer,
        "_compile",
        lambda *args: compiled.append(1) or make(*args),
    )
    for _ in range(5):
        assert kernel("T[n] -> T[n]")(copied)(np.ones(2)).tolist() == [1, 1]
    assert len(compiled) == 1


def test_a17_jitted_functions_partials_and_cfuncs_are_taken() -> None:
    x = np.ones(2)
    assert kernel("T[n] -> T[n]")(numba.njit(copied))(x).tolist() == [1, 1]
    assert kernel("T[n] -> T[n]")(functools.partial(copied))(x).tolist() == [1, 1]

    @numba.cfunc(opabi.numba.run_signature)
    def nothing(call):
        return opabi.numba.OK

    assert kernel("T[n] -> T[0]")(nothing)(x).shape == (0,)
    assert opabi.c.function(nothing.address, "T[n] -> T[0]", name="nothing")(x).shape == (0,)


# ---- Writing -------------------------------------------------------------------------------------


def test_a19_write_to_an_input_is_refused_by_its_name() -> None:
    @kernel("T[n], T[n] -> T[n]")
    def careless(first, second, out):
        second[0] = -1
        out[:] = first

    with pytest.raises(opabi.OpabiTypeError, match=r"careless.* writes to its input 'second'"):
        careless(np.ones(2), np.ones(2))


def test_a19_write_that_numba_lets_pass_is_named_in_checked_mode() -> None:
    @kernel("T[n] -> T[n]")
    def sly(x, out):
        x.flat[0] = -1
        out[:] = x

    with pytest.raises(opabi.OpabiRuntimeError, match=r"sly.*input"):
        sly(np.ones(2), checked=True)


def test_a20_half_written_output_is_named_in_checked_mode() -> None:
    @kernel("T[n] -> T[n]")
    def half(x, out):
        out[: x.size // 2] = x[: x.size // 2]

    with pytest.raises(opabi.OpabiRuntimeError, match=r"half.*sample 0"):
        half(np.ones(4), checked=True)


def test_a20_arguments_in_python_functions_order_are_refused() -> None:
    with pytest.raises(opabi.OpabiTypeError, match=r"returns array.*writes to its outputs"):
        kernel("T[n] -> T[n]")(returns_its_result)(np.ones(2))
    with pytest.raises(opabi.OpabiTypeError, match="writes to its input 'out'"):
        kernel("T[n] -> T[n]")(output_first)(np.ones(2))


def returns_its_result(x, out):
    return x + 1


def output_first(out, x):
    out[0] = x[0]


def test_a20_shapes_that_do_not_fit_inside_are_an_error() -> None:
    with pytest.raises(opabi.OpabiValueError, match="assigned"):
        kernel("T[n] -> T[n+1]")(assigned)(np.ones(3))


def assigned(x, out):
    out[:] = x


# ---- Threads -------------------------------------------------------------------------------------


def meet(value: int) -> int:
    """Samples 1 and 2 wait for each other; sample 0 shows by its time that samples are slow."""
    if value == 0:
        time.sleep(0.05)
    else:
        meeting.wait(timeout=30)
    return value


meeting = threading.Barrier(2)
meets = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(meet)


@kernel("int64[n] -> int64[n]")
def meeting_point(x, out):
    out[0] = meets(x[0])


def test_a21_samples_run_on_several_threads_at_once() -> None:
    batch = [np.array([value]) for value in range(3)]
    assert [int(out[0]) for out in meeting_point(batch, num_threads=2)] == [0, 1, 2]
    assert not meeting.broken
