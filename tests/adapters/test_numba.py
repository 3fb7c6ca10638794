# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled by Numba, called eagerly: ports, arguments, setup, actual sizes, errors."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
import time
from typing import Any

import numba
import numpy as np
import opabi
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from opabi.adapters import numba_function

DTYPES = [d for d in numba_function.DTYPES if d != "float16"]


@opabi.numba.kernel("T[...] -> T[...]")
def copy(x, out):
    for i in range(x.size):
        out.flat[i] = x.flat[i]


@opabi.numba.kernel("float32[n] -> float32[n]")
def affine(x, out, *, gain, bias=0.0):
    "y = gain * x + bias"
    out[:] = gain * x + bias


@opabi.numba.kernel("uint8[n] -> uint8[n]")
def face(x, out):
    if x.size and x[0] == 1:
        raise ValueError("no face")
    out[:] = x + np.uint8(10)


@opabi.numba.kernel("T[n] -> T[<=n]")
def above_four(x, out):
    n = 0
    for value in x:
        if value > 4:
            out[n] = value
            n += 1
    return n


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# ---- Ports ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_arrives_bit_for_bit(dtype: str) -> None:
    x = np.frombuffer(np.random.default_rng(0).bytes(96), np.uint8).view(
        "uint8" if dtype == "bool" else dtype
    )
    x = (x % 2).astype(bool) if dtype == "bool" else x
    found = copy(x)
    assert found.dtype == x.dtype
    assert found.tobytes() == x.tobytes()


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(hnp.arrays("int16", hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)))
def test_shapes_with_and_without_elements_are_copied(x: np.ndarray) -> None:
    found = copy(x)
    assert found.shape == x.shape
    assert np.array_equal(found, x)


@pytest.mark.parametrize("ndim", [4, 15])
def test_high_ranks_are_copied(ndim: int) -> None:
    x = np.arange(2.0**4).reshape((2,) * 4 + (1,) * (ndim - 4))
    assert np.array_equal(copy(x), x)


def test_rank_16_is_refused() -> None:
    with pytest.raises(opabi.OpabiError, match="15"):
        copy(np.zeros((1,) * 16))


def test_batch_of_unlike_shapes_is_computed_sample_by_sample() -> None:
    batch = [np.arange(n, dtype=np.int32) for n in (3, 0, 5)]
    for found, x in zip(copy(batch), batch, strict=True):
        assert np.array_equal(found, x)


def test_port_without_brackets_is_a_number_and_with_brackets_an_array() -> None:
    @opabi.numba.kernel("float32, float32[] -> float32")
    def product(a, b, out):
        out[()] = a * b[()]

    assert product(np.float32(3), np.float32(4)) == 12


def test_inputs_of_two_types_and_two_outputs_keep_their_order() -> None:
    @opabi.numba.kernel("image: uint8[h,w], label: float32[k] -> uint8[w,h], float32[k+1]")
    def flip(image, label, turned, longer):
        for i in range(image.shape[0]):
            for j in range(image.shape[1]):
                turned[j, i] = image[i, j]
        longer[0] = image.shape[0]
        longer[1:] = label

    image = np.arange(6, dtype=np.uint8).reshape(2, 3)
    turned, longer = flip(image, vector(7, 8))
    assert np.array_equal(turned, image.T)
    assert np.array_equal(longer, vector(2, 7, 8))


def test_eight_inputs_and_eight_outputs_are_told_apart() -> None:
    names = [f"i{k}" for k in range(8)], [f"o{k}" for k in range(8)]
    body = "".join(f"    o{j}[0] = i{7 - j}[0] + {j}\n" for j in range(8))
    scope: dict[str, Any] = {}
    exec(f"def reverse({', '.join(names[0] + names[1])}):\n{body}", scope)
    side = ", ".join(["int16[k]"] * 8)
    reverse = opabi.numba.kernel(f"{side} -> {side}")(scope["reverse"])
    found = reverse(*[np.array([k], np.int16) for k in range(8)])
    assert [out.tolist() for out in found] == [[7]] * 8


def test_source_has_no_inputs() -> None:
    @opabi.numba.kernel("-> int64[3], float32[2]")
    def source(a, b):
        a[:] = 7
        b[:] = 0.5

    a, b = source()
    assert a.tolist() == [7, 7, 7]
    assert b.tolist() == [0.5, 0.5]


def test_sink_gets_each_sample_once() -> None:
    @opabi.numba.kernel("int64[n] ->")
    def sink(x):
        if x[0] == 3:
            raise ValueError("three")

    assert sink([np.array([k]) for k in range(3)]) is None
    with pytest.raises(opabi.OpabiValueError, match=r"sample 3: three"):
        sink([np.array([k]) for k in range(5)])


def test_joined_vectors_get_their_length_from_the_signature() -> None:
    @opabi.numba.kernel("int32[n], int32[m] -> int32[n+m]")
    def join(a, b, out):
        out[: a.size] = a
        out[a.size :] = b

    found = join(
        [np.array([0, 1], np.int32), np.array([5, 6, 7], np.int32)],
        [np.arange(4, dtype=np.int32), np.array([9], np.int32)],
    )
    assert [out.tolist() for out in found] == [[0, 1, 0, 1, 2, 3], [5, 6, 7, 9]]


@pytest.mark.parametrize("size", [0, 3, 2**20])
def test_type_change_needs_no_setup(size: int) -> None:
    x = np.array([0, 51, 255], np.uint8) if size == 3 else np.full(size, 255, np.uint8)
    found = to_unit(x)
    assert found.dtype == np.float32
    assert np.allclose(found, x / 255, atol=1e-6)


@opabi.numba.kernel("uint8[n] -> float32[n]")
def to_unit(x, out):
    for i in range(x.size):
        out[i] = x[i] / np.float32(255)


def test_ports_take_the_parameters_names() -> None:
    assert [port["name"] for port in affine.ports["inputs"]] == ["x"]
    assert [port["name"] for port in affine.ports["outputs"]] == ["out"]


def test_names_in_the_signature_stay() -> None:
    @opabi.numba.kernel("out: T[n] -> T[n]")
    def named(x, out): ...

    assert named.signature == "out: T[n] -> T[n]"


def test_docstring_becomes_the_kernels() -> None:
    assert affine.__doc__ == "y = gain * x + bias"


# ---- Arguments -----------------------------------------------------------------------------------


def test_argument_per_sample_and_constant() -> None:
    x = vector(1, 2, 3)
    found = affine([x, x], gain=[2, 10], bias=1)
    assert [out.tolist() for out in found] == [[3, 5, 7], [11, 21, 31]]


def test_argument_as_array_is_compiled_for_its_rank() -> None:
    assert affine(vector(1, 2, 3), gain=np.array([1, 2, 3]), bias=1).tolist() == [2, 5, 10]


def test_required_argument_missing_is_named() -> None:
    with pytest.raises(opabi.OpabiTypeError, match="gain"):
        affine(vector(1))


def test_annotations_fix_dtype_and_rank() -> None:
    @opabi.numba.kernel("float32[n] -> float32[n]")
    def annotated(
        x,
        out,
        *,
        a: numba.float32 = 1,
        b: np.int16 = 2,
        c: float32 = 3,  # noqa: F821
        d: "float64[:, :]" = ((1.0,),),  # noqa: F821, UP037
        e: "uint8[...]" = 4,  # noqa: F821, UP037
        f: str = "ab",
        g: int = 5,
        h: numba.uint8[:] = (1, 2),
    ):
        out[:] = a + b + c + d[0, 0] + e + f[0] + g + h[1]

    declared = {a.name: (a.dtype, a.ndim) for a in annotated.arguments}
    assert declared == {
        "a": ("float32", 0),
        "b": ("int16", 0),
        "c": ("float32", 0),
        "d": ("float64", 2),
        "e": ("uint8", None),
        "f": ("uint8", 1),
        "g": ("int64", 0),
        "h": ("uint8", 1),
    }
    assert annotated(vector(0)).tolist() == [1 + 2 + 3 + 1 + 4 + 97 + 5 + 2]


def test_string_arrives_as_bytes() -> None:
    @opabi.numba.kernel("-> int64[2]")
    def spell(out, *, mode="reflect"):
        out[0], out[1] = mode.size, mode[0]

    assert spell().tolist() == [7, ord("r")]
    assert spell(mode="ä").tolist() == [2, 0xC3]


def test_argument_is_an_extent() -> None:
    @opabi.numba.kernel("T[h,w] -> T[out_h,out_w]")
    def filled(x, out, *, out_h: int, out_w=2):
        out[...] = x[0, 0]

    assert filled(np.full((3, 3), 5), out_h=1).tolist() == [[5, 5]]


def test_partial_gives_defaults() -> None:
    def scaled(x, out, *, k):
        out[:] = x * k

    thrice = opabi.numba.kernel("float32[n] -> float32[n]")(functools.partial(scaled, k=3))
    assert thrice(vector(2)).tolist() == [6]
    assert thrice(vector(2), k=5).tolist() == [10]


# ---- Setup ---------------------------------------------------------------------------------------


def test_setup_gets_all_shapes_and_arguments() -> None:
    def shape(a, b, *, extra):
        return a[0] + b[0] + extra

    @opabi.numba.kernel("int32[n], int32[m] -> int32[?]", setup=shape)
    def join(a, b, out, *, bias=0, extra=1):
        out[:] = bias
        out[: a.size] = a

    found = join([np.ones(2, np.int32)] * 2, [np.ones(1, np.int32)] * 2, extra=[1, 3])
    assert [out.tolist() for out in found] == [[1, 1, 0, 0], [1, 1, 0, 0, 0, 0]]


def test_setup_gives_rank_and_dtype_function_the_type() -> None:
    @opabi.numba.kernel(
        "T[...] -> ?[...?], T[...], int64[?,3]",
        setup=lambda x: (x[1:], (x[0], 3)),
        out_dtypes=lambda x: np.result_type(x, np.float32),
    )
    def reduce(x, first, same, rows):
        first[...] = x[0]
        same[...] = x
        rows[...] = 1

    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    first, same, rows = reduce(x)
    assert (first.dtype, first.tolist()) == (np.float32, [0, 1, 2])
    assert np.array_equal(same, x)
    assert rows.shape == (2, 3)


def test_open_dtype_alone_needs_no_setup_function() -> None:
    @opabi.numba.kernel("T[n] -> ?[n]", out_dtypes="float64")
    def widen(x, out):
        out[:] = x

    assert widen(np.array([1, 2], np.int8)).dtype == np.float64


def test_setup_of_rank_0_gives_no_extents() -> None:
    @opabi.numba.kernel("T[n] -> T[...?]", setup=lambda x: ())
    def total(x, out):
        out[()] = x.sum()

    assert total(np.array([1, 2])).shape == ()


def test_setup_that_raises_names_sample_and_text() -> None:
    def shape(x):
        if x[0] == 2:
            raise ValueError("two is too many")
        return x[0]

    @opabi.numba.kernel("T[n] -> T[?]", setup=shape)
    def same(x, out):
        out[:] = x

    with pytest.raises(opabi.OpabiValueError, match=r"(?s)same.*sample 1.*two is too many"):
        same([np.ones(1), np.ones(2)])
    assert same(np.ones(1)).tolist() == [1]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (lambda x: None, "returns none"),
        (lambda x: 1.5, "returns float64"),
        (lambda x: (x[0], 2), "2 extents for output 'out', expected 1"),
        (lambda x: x.nothing, "Unknown attribute"),
    ],
)
def test_setup_of_wrong_result_is_refused(rule: Any, text: str) -> None:
    @opabi.numba.kernel("T[n] -> T[?]", setup=rule)
    def kernel(x, out): ...

    with pytest.raises(opabi.OpabiTypeError, match=text):
        kernel(np.ones(1))


# ---- Actual sizes --------------------------------------------------------------------------------


def test_filter_returns_how_many_it_wrote() -> None:
    found = above_four([vector(5, 1, 7), vector(1, 2), vector()])
    assert [out.tolist() for out in found] == [[5, 7], [], []]


def test_several_bounded_extents_are_returned_as_a_tuple() -> None:
    @opabi.numba.kernel("T[n] -> T[<=n], T[<=n, 2]")
    def split(x, low, pairs):
        a = b = 0
        for value in x:
            if value < 5:
                low[a] = value
                a += 1
            else:
                pairs[b, :] = value
                b += 1
        return a, b

    low, pairs = split(np.array([1, 7, 2]))
    assert low.tolist() == [1, 2]
    assert pairs.tolist() == [[7, 7]]


@pytest.mark.parametrize("returned", [None, 1.0, (1, 2)])
def test_filter_that_returns_something_else_is_refused(returned: Any) -> None:
    @opabi.numba.kernel("T[n] -> T[<=n]")
    def kernel(x, out):
        return returned

    with pytest.raises(opabi.OpabiTypeError, match="Expected one integer"):
        kernel(np.ones(1))


# ---- Errors --------------------------------------------------------------------------------------


def test_failing_sample_is_named_and_the_next_call_is_right() -> None:
    batch = [np.array([value], np.uint8) for value in (0, 1, 2)]
    with pytest.raises(opabi.OpabiValueError) as caught:
        face(batch)
    for text in ("face", "sample 1", "no face", "test_numba.py"):
        assert text in str(caught.value)
    assert [int(out[0]) for out in face([batch[0], batch[2]])] == [10, 12]


@opabi.numba.kernel("int64[n] -> int64[n]", boundscheck=True)
def fault(x, out):
    if x[0] == 0:
        raise ValueError("value " + str(x[0]))
    if x[0] == 1:
        raise TypeError("type")
    if x[0] == 2:
        raise IndexError("index")
    if x[0] == 3:
        raise NotImplementedError("unsupported")
    if x[0] == 4:
        raise MemoryError("memory")
    if x[0] == 5:
        out[0] = 1 // (x[0] - 5)
    if x[0] == 6:
        raise RuntimeError
    if x[0] == 7:
        out[9] = 1
    if x[0] == 8:
        raise AssertionError("assertion")
    out[:] = x


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        (0, opabi.OpabiValueError, "value 0"),
        (1, opabi.OpabiTypeError, "type"),
        (2, opabi.OpabiIndexError, "index"),
        (3, opabi.OpabiTypeError, "unsupported"),
        (4, opabi.OpabiMemoryError, "memory"),
        (5, opabi.OpabiValueError, "ZeroDivisionError"),
        (6, opabi.OpabiRuntimeError, "RuntimeError"),
        (7, opabi.OpabiIndexError, "out of bounds"),
        (8, opabi.OpabiRuntimeError, "AssertionError: assertion"),
    ],
)
def test_exception_keeps_its_kind_and_text(case: int, kind: type, text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        fault(np.array([case]))
    assert fault(np.array([9])).tolist() == [9]


def test_exceptions_on_several_threads_are_reported() -> None:
    batch = [np.array([value % 2], np.uint8) for value in range(64)]
    for _ in range(5):
        with pytest.raises(opabi.OpabiValueError, match="no face"):
            face(batch, num_threads=4)


def test_exception_that_depends_on_more_than_the_inputs_is_reported() -> None:
    calls = []

    def count(n: int) -> int:
        calls.append(n)
        return len(calls)

    callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(count)

    @opabi.numba.kernel("int64[n] -> int64[n]")
    def once(x, out):
        if callback(x[0]) == 1:
            raise ValueError("only the first time")
        out[:] = x

    with pytest.raises(opabi.OpabiRuntimeError, match="not when its sample was run once more"):
        once(np.array([1]))


def test_float16_is_refused_with_the_way_out() -> None:
    with pytest.raises(opabi.OpabiTypeError, match=r"no float16 arrays on the CPU.*opabi\.c"):
        copy(np.ones(2, np.float16))


def test_what_numba_refuses_is_told_with_the_users_line() -> None:
    @opabi.numba.kernel("T[n] -> T[n]")
    def typo(x, out):
        out[:] = x.sizze

    with pytest.raises(opabi.OpabiTypeError) as caught:
        typo(np.ones(2))
    for text in ("typo", "float64 of rank 1", "sizze", "test_numba.py"):
        assert text in str(caught.value)


# ---- Threads -------------------------------------------------------------------------------------


def test_run_does_not_hold_pythons_lock() -> None:
    @opabi.numba.kernel("int64[n] -> int64[n]", types="int64")
    def slow(x, out):
        total = 0
        for i in range(x[0]):
            total ^= i * total + x[0]
        out[0] = total

    ticks = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    slow(np.array([200_000_000]))
    end = time.perf_counter()
    stop.set()
    thread.join()
    assert sum(begin < at < end for at in ticks) > 5


def test_first_calls_on_several_threads_compile_once_and_agree() -> None:
    @opabi.numba.kernel("T[n] -> T[n]", cache=False)
    def doubled(x, out):
        out[:] = x + x

    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(doubled(np.array([4])).tolist()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[8]] * 4


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 3))
def test_filter_gives_the_same_on_any_number_of_threads(sizes: list[int], threads: int) -> None:
    batch = [np.arange(size, dtype=np.float32) for size in sizes] or [vector()]
    for found, x in zip(above_four(batch, num_threads=threads), batch, strict=True):
        assert np.array_equal(found, x[x > 4])
