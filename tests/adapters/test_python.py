# SPDX-License-Identifier: Apache-2.0
"""Kernels from Python functions."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import opabi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = [
    *("bool", "float16", "float32", "float64"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
]
kernel = opabi.python.kernel


@kernel("T[...] -> T[...]")
def copied(x: Any, y: Any) -> None:
    """A copy."""
    y[...] = x


# ---- Arrays --------------------------------------------------------------------------------------


@given(
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0))
    )
)
def test_kernel_sees_any_dtype_and_shape_as_it_is(x: np.ndarray[Any, Any]) -> None:
    y = copied(x)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(y, x)


def test_kernel_has_the_functions_name_and_doc_and_takes_the_gil() -> None:
    assert (copied.name, copied.__doc__) == ("copied", "A copy.")
    assert copied.traits == {"takes_gil"}


def test_traits_reach_the_kernel() -> None:
    made = kernel("int32 ->", pure=True, name="other")(lambda x: None)
    assert made.traits == {"takes_gil", "pure"}
    assert made.name == "other"


def test_unknown_trait_is_refused() -> None:
    with pytest.raises(opabi.OpabiTypeError, match="fast"):
        kernel("int32 ->", fast=True)(lambda x: None)


def test_several_inputs_and_outputs_of_one_call() -> None:
    @kernel("a: float32[n], b: float32[n] -> float32[n], float32")
    def both(a: Any, b: Any, total: Any, dot: Any) -> None:
        total[...] = a + b
        dot[...] = a @ b

    total, dot = both(np.float32([1, 2]), np.float32([3, 4]))
    np.testing.assert_array_equal(total, [4, 6])
    assert dot == 11


def test_source_and_sink_and_batches() -> None:
    seen = []
    sink = kernel("int32[n] ->")(lambda x: seen.append(x.tolist()))
    assert sink([np.int32([1]), np.int32([]), np.int32([2, 3])]) is None
    assert seen == [[1], [], [2, 3]]
    source = kernel("-> int32")(lambda out: out.fill(5))
    assert source() == 5


def test_input_is_read_only() -> None:
    @kernel("int32[n] -> int32[n]")
    def spoils(x: Any, y: Any) -> None:
        x[0] = 1

    with pytest.raises(opabi.OpabiValueError, match="read-only"):
        spoils(np.int32([0]))


# ---- Arguments -----------------------------------------------------------------------------------


@kernel("float32[n] -> float32[n]")
def affine(x: Any, y: Any, *, gain: Any, bias: float = 1, mode: str = "plus") -> None:
    if mode not in ("plus", "minus"):
        raise ValueError(f"unknown mode {mode!r}")
    y[...] = gain * x + (bias if mode == "plus" else -bias)


def test_arguments_are_numbers_arrays_and_strings() -> None:
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(affine(x, gain=2), [3, 5, 7])
    np.testing.assert_array_equal(affine(x, gain=[1, 2, 3], mode="minus"), [0, 3, 8])
    results = affine([x, x], gain=[2.0, 10.0], bias=1)
    np.testing.assert_array_equal(results, [[3, 5, 7], [11, 21, 31]])
    with pytest.raises(opabi.OpabiValueError, match="unknown mode 'äh'"):
        affine(x, gain=1, mode="äh")


def test_arguments_types_come_from_annotations_alone() -> None:
    declared = {a.name: (a.dtype, a.ndim) for a in affine.arguments}
    assert declared == {"gain": (None, None), "bias": ("float64", 0), "mode": ("uint8", 1)}


def test_argument_that_is_missing_or_unknown_is_refused_by_name() -> None:
    with pytest.raises(opabi.OpabiTypeError, match="gain"):
        affine(np.float32([1]))
    with pytest.raises(opabi.OpabiTypeError, match="gian"):
        affine(np.float32([1]), gain=1, gian=2)
    with pytest.raises(opabi.OpabiError, match="bias"):
        affine(np.float32([1]), gain=1, bias="wide")


def test_annotation_that_cannot_be_evaluated_is_ignored() -> None:
    def f(x: NotThere, y: Any, *, gain: Any = 2) -> None:  # type: ignore[name-defined]  # noqa: F821
        y[...] = gain * x

    np.testing.assert_array_equal(kernel("int32[n] -> int32[n]")(f)(np.int32([4])), [8])


@pytest.mark.parametrize(
    "function", [lambda: None, lambda x: None, lambda x, y, z: None, lambda *, x, y: None]
)
def test_function_with_the_wrong_number_of_parameters_is_refused(function: Any) -> None:
    with pytest.raises(opabi.OpabiTypeError, match=r"1 inputs and 1 outputs.*takes 2 positional"):
        kernel("int32[n] -> int32[n]")(function)


def test_function_with_star_args_takes_any_ports() -> None:
    def swap(*ports: Any) -> None:
        ports[2][...], ports[3][...] = ports[1], ports[0]

    made = kernel("int32, int64 -> int64, int32")(swap)
    assert [int(y) for y in made(np.int32(1), np.int64(2))] == [2, 1]


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(opabi.OpabiTypeError, match="int"):
        kernel("int32 -> int32")(3)  # type: ignore[arg-type]


# ---- Failures ------------------------------------------------------------------------------------


class OddError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("no face"), opabi.OpabiValueError),
        (TypeError("no type"), opabi.OpabiTypeError),
        (IndexError("no index"), opabi.OpabiIndexError),
        (MemoryError("no memory"), opabi.OpabiMemoryError),
        (NotImplementedError("not yet"), opabi.OpabiError),
        (KeyError("no key"), opabi.OpabiRuntimeError),
        (OddError("odd"), opabi.OpabiRuntimeError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_exception_is_the_kernels_error_with_type_text_sample_and_line(
    error: BaseException, kind: type[Exception]
) -> None:
    @kernel("int32[n] -> int32[n]")
    def fails(x: Any, y: Any) -> None:
        if x[0] == 1:
            raise error
        y[...] = x + 10

    good, bad = np.int32([0]), np.int32([1])
    with pytest.raises(kind) as raised:
        fails([good, bad, good])
    text = str(raised.value)
    for part in ("fails", "sample 1", f"{type(error).__name__}: {error}", "test_python.py:"):
        assert part in text
    np.testing.assert_array_equal(fails([good, np.int32([2])]), [[10], [12]])


@pytest.mark.parametrize("text", ["é" * 5000, "a\0b", "\ud800 alone", ""])
def test_message_of_any_text_arrives_as_text(text: str) -> None:
    def fails(x: Any) -> None:
        raise ValueError(text)

    with pytest.raises(opabi.OpabiValueError, match="ValueError: ") as raised:
        kernel("int32 ->")(fails)(np.int32(1))
    str(raised.value).encode()
    assert len(str(raised.value).encode()) < 1500


def test_returned_value_is_refused_with_what_to_do() -> None:
    with pytest.raises(opabi.OpabiTypeError, match=r"out\[\.\.\.\] = value.*returned ndarray"):
        kernel("int32[n] -> int32[n]")(lambda x, y: x + 1)(np.int32([1]))


KEPT: list[Any] = []


@pytest.mark.parametrize("part", ["input", "output", "view", "memoryview", "reshaped"])
def test_array_kept_after_the_call_is_an_error(part: str) -> None:
    @kernel("int32[n] -> int32[n]")
    def keeps(x: Any, y: Any) -> None:
        y[...] = x
        parts = {
            "input": lambda: x,
            "output": lambda: y,
            "view": lambda: x[1:],
            "memoryview": lambda: memoryview(y),
            "reshaped": lambda: x.reshape(1, -1),
        }
        KEPT.append(parts[part]())

    try:
        with pytest.raises(opabi.OpabiValueError, match="OPABI-K-026"):
            keeps(np.int32([1, 2]))
    finally:
        KEPT.clear()


def test_arrays_in_a_reference_cycle_or_copied_are_no_error() -> None:
    @kernel("int32[n] -> int32[n]")
    def cycles(x: Any, y: Any) -> None:
        y[...] = x
        cycle: list[Any] = [x, y]
        cycle.append(cycle)
        KEPT.append(x.copy())

    np.testing.assert_array_equal(cycles(np.int32([3])), [3])
    np.testing.assert_array_equal(KEPT.pop(), [3])


# ---- Sizes ---------------------------------------------------------------------------------------


def test_setup_gives_a_shape() -> None:
    @kernel("int32[n], int32[m] -> int32[?]", setup=lambda a, b: len(a) + len(b))
    def joined(a: Any, b: Any, out: Any) -> None:
        out[: len(a)], out[len(a) :] = a, b

    results = joined(
        [np.int32([0, 1]), np.int32([5, 6, 7])], [np.int32([0, 1, 2, 3]), np.int32([9])]
    )
    assert [y.tolist() for y in results] == [[0, 1, 0, 1, 2, 3], [5, 6, 7, 9]]


def test_setup_sees_specs_and_arguments_and_gives_types() -> None:
    seen = []

    def setup(x: Any, *, wide: bool) -> Any:
        seen.append((x.shape, x.dtype, x.ndim, len(x), repr(x)))
        return [((2, x.shape[0]), "float64" if wide else np.float32), x.shape[0]]

    @kernel("T[n] -> ?[?,?], T[?]", setup=setup)
    def opened(x: Any, y: Any, z: Any, *, wide: bool = False) -> None:
        y[...], z[...] = x, x

    y, z = opened(np.int32([4, 5]), wide=True)
    assert (y.dtype, y.tolist(), z.tolist()) == (np.float64, [[4, 5], [4, 5]], [4, 5])
    assert opened(np.int32([4, 5]))[0].dtype == np.float32
    assert seen[0][:4] == ((2,), np.dtype("int32"), 1, 2)


@pytest.mark.parametrize(
    ("returned", "kind", "text"),
    [
        (None, opabi.OpabiTypeError, "expected a shape"),
        ("wide", opabi.OpabiTypeError, "expected a shape"),
        ((1, 2.5), opabi.OpabiTypeError, "expected a shape"),
        (-1, opabi.OpabiValueError, r"the shape \(-1,\)"),
        ((1, 1), opabi.OpabiValueError, "2 extents; expected at most 1"),
        ((1,) * 16, opabi.OpabiValueError, "16 extents"),
        ((3, "complex64"), opabi.OpabiTypeError, "complex64"),
        (1 << 70, opabi.OpabiError, "OverflowError"),
    ],
)
def test_setup_that_returns_what_cannot_be_is_refused(
    returned: Any, kind: type[Exception], text: str
) -> None:
    made = kernel("int32[n] -> int32[?]", setup=lambda x: returned)(lambda x, y: None)
    with pytest.raises(kind, match=text):
        made(np.int32([1]))


def test_setup_that_raises_is_the_kernels_error() -> None:
    def setup(x: Any) -> Any:
        raise IndexError("no such size")

    made = kernel("int32[n] -> int32[?]", setup=setup)(lambda x, y: None)
    with pytest.raises(opabi.OpabiIndexError, match="IndexError: no such size"):
        made(np.int32([1]))


def test_bounded_output_has_the_size_that_the_function_returns() -> None:
    @kernel("int32[n] -> int32[<=n]")
    def greater(x: Any, y: Any, *, limit: int = 4) -> int:
        kept = x[x > limit]
        y[: len(kept)] = kept
        return len(kept)

    results = greater([np.int32(x) for x in ([5, 1, 7], [1, 2], [])])
    assert [y.tolist() for y in results] == [[5, 7], [], []]


def test_bounded_output_of_higher_rank_is_moved_into_its_actual_shape() -> None:
    @kernel("int32[h,w] -> int32[<=h,<=w], int32[h,<=w]")
    def corner(x: Any, y: Any, z: Any) -> Any:
        y[:2, :3] = x[:2, :3]
        z[:, :2] = x[:, :2]
        return (2, 3), 2

    x = np.arange(20, dtype=np.int32).reshape(4, 5)
    y, z = corner(x)
    np.testing.assert_array_equal(y, x[:2, :3])
    np.testing.assert_array_equal(z, x[:, :2])


@pytest.mark.parametrize(
    ("returned", "kind"),
    [
        (None, opabi.OpabiTypeError),
        ((1, 2), opabi.OpabiTypeError),
        (4, opabi.OpabiIndexError),
        (-1, opabi.OpabiIndexError),
    ],
)
def test_bounded_output_of_an_impossible_size_is_refused(
    returned: Any, kind: type[Exception]
) -> None:
    made = kernel("int32[n] -> int32[<=n]")(lambda x, y: returned)
    with pytest.raises(kind, match="actual"):
        made(np.int32([1, 2, 3]))


# ---- Lifetime ------------------------------------------------------------------------------------


def test_function_lives_as_long_as_its_kernel_and_no_longer() -> None:
    class Adder:
        def __call__(self, x: Any, y: Any) -> None:
            y[...] = x + 1

    adder = Adder()
    alive = weakref.ref(adder)
    made = kernel("int32 -> int32")(adder)
    del adder
    gc.collect()
    assert made(np.int32(1)) == 2
    del made
    gc.collect()
    assert alive() is None


def test_bound_methods_and_partials_are_functions() -> None:
    import functools

    class Scale:
        factor = 3

        def apply(self, x: Any, y: Any) -> None:
            y[...] = self.factor * x

    assert kernel("int32 -> int32")(Scale().apply)(np.int32(2)) == 6
    multiply = functools.partial(np.multiply, 4)
    assert kernel("int32 -> int32")(lambda x, y: multiply(x, out=y) and None)(np.int32(2)) == 8


def test_batch_with_threads_gives_the_same(tmp_path: Any) -> None:
    batch = [np.full(3, i, np.int32) for i in range(64)]
    results = copied(batch, num_threads=4)
    np.testing.assert_array_equal(results, batch)
