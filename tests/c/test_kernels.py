# SPDX-License-Identifier: Apache-2.0
"""The example kernels in C and C++, called eagerly: what users of custom operators ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import opabi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


@pytest.fixture(params=["c", "c++"])
def kernels(request: pytest.FixtureRequest, c_kernels: Any, cc_kernels: Any) -> Any:
    """Both libraries, for the kernels that both have."""
    return c_kernels if request.param == "c" else cc_kernels


def lists(batch: list[np.ndarray[Any, Any]]) -> list[Any]:
    return [sample.tolist() for sample in batch]


def test_joined_vectors_have_the_sum_of_their_lengths(kernels: Any) -> None:
    a = [np.int32([0, 1]), np.int32([5, 6, 7])]
    b = [np.int32([0, 1, 2, 3]), np.int32([9])]
    assert lists(kernels.joined(a, b)) == [[0, 1, 0, 1, 2, 3], [5, 6, 7, 9]]


def test_type_change_serves_empty_and_large_samples(c_kernels: Any) -> None:
    batch = [np.uint8([0, 51, 255]), np.uint8([]), np.full(1 << 20, 255, np.uint8)]
    small, empty, large = c_kernels.to_float(batch)
    np.testing.assert_allclose(small, [0, 0.2, 1], atol=1e-6)
    assert (small.dtype, empty.dtype, empty.shape) == (np.float32, np.float32, (0,))
    assert (large == 1.0).all()


def test_failing_sample_is_named_and_the_next_run_is_right(c_kernels: Any) -> None:
    with pytest.raises(opabi.OpabiValueError, match=r"fail_on_one.*sample 1.*no face"):
        c_kernels.fail_on_one([np.int32([x]) for x in (0, 1, 2)])
    good = c_kernels.fail_on_one([np.int32([x]) for x in (0, 2, 3)])
    assert lists(good) == [[10], [12], [13]]


def test_arguments_are_constant_or_per_sample_and_of_any_declared_rank(c_kernels: Any) -> None:
    x = np.float32([1, 2, 3])
    results = c_kernels.affine([x, x], gain=[np.float32(2), np.float32(10)], bias=1)
    assert lists(results) == [[3, 5, 7], [11, 21, 31]]
    results = c_kernels.affine([x, x], gain=np.float32([1, 2, 3]), bias=1)
    assert lists(results) == [[2, 5, 10]] * 2
    with pytest.raises(opabi.OpabiValueError, match="neither a number nor one per element"):
        c_kernels.affine(x, gain=np.float32([1, 2]))
    with pytest.raises(opabi.OpabiTypeError, match="gain"):
        c_kernels.affine(x, gain=np.complex64(1))


def test_filter_has_the_sizes_that_run_found(kernels: Any) -> None:
    for n in (3, 1, 3):
        batch = [np.int32(x) for x in ([5, 1, 7], [1, 2], [])][:n]
        assert lists(kernels.keep_greater(batch)) == [[5, 7], [], []][:n]
    assert kernels.keep_greater(np.int32([1, 2]), limit=1).tolist() == [2]


def test_eight_inputs_and_outputs_keep_their_order(c_kernels: Any) -> None:
    results = c_kernels.eight(*[np.int16([k]) for k in range(8)])
    assert lists(results) == [[7]] * 8
    ragged = c_kernels.eight(*[np.arange(k, dtype=np.int16) for k in range(8)])
    assert [len(y) for y in ragged] == [7, 6, 5, 4, 3, 2, 1, 0]


def test_source_and_sink_get_each_sample_once(c_kernels: Any) -> None:
    number, three = c_kernels.source()
    assert (int(number), three.tolist()) == (0, [0, 1, 2])
    before = int(c_kernels.sunk())
    assert c_kernels.sink([np.float64(0)] * 5, num_threads=2) is None
    assert int(c_kernels.sunk()) - before == 5


@given(
    hnp.arrays(
        st.sampled_from(["uint8", "float16", "int64", "bool"]),
        hnp.array_shapes(min_dims=3, max_dims=3, min_side=0, max_side=6),
    )
)
def test_transpose_moves_channels_first(c_kernels: Any, x: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(c_kernels.transpose_chw(x), x.transpose(2, 0, 1))


@given(hnp.arrays("float16", hnp.array_shapes(min_dims=0, max_dims=5, min_side=0)))
def test_float16_passes_bit_by_bit(c_kernels: Any, x: np.ndarray[Any, Any]) -> None:
    y = c_kernels.half(x)
    assert (y.dtype, y.shape, y.tobytes()) == (x.dtype, x.shape, x.tobytes())


@given(hnp.arrays("uint8", hnp.array_shapes(min_dims=0, max_dims=6, min_side=0)))
def test_invert_takes_any_rank_and_memory_order(c_kernels: Any, x: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(c_kernels.invert(x), 255 - x)
    np.testing.assert_array_equal(c_kernels.invert(x.T), 255 - x.T)
    if x.ndim:
        np.testing.assert_array_equal(c_kernels.invert(x[..., ::-1]), 255 - x[..., ::-1])


def test_median_has_its_scratch_memory(kernels: Any) -> None:
    rng = np.random.default_rng(1)
    batch = [rng.normal(size=n).astype(np.float32) for n in (1, 5, 1001, 3)]
    for x, y in zip(batch, kernels.median(batch), strict=True):
        assert y == np.sort(x)[x.size // 2]
    with pytest.raises(opabi.OpabiValueError, match="no median of no elements"):
        kernels.median(np.float32([]))


def test_integer_arguments_are_extents(c_kernels: Any) -> None:
    x = [np.uint8([1]), np.uint8([2])]
    small, large = c_kernels.sized(x, height=[1, 3], width=2)
    assert (small.tolist(), large.shape) == ([[7, 7]], (3, 2))
    with pytest.raises(opabi.OpabiValueError, match="height"):
        c_kernels.sized(x[0], height=-1, width=2)


@pytest.mark.parametrize("text", ["", "plain", "üñí€😀", "x" * 10000])
def test_string_argument_is_utf8(c_kernels: Any, text: str) -> None:
    assert bytes(c_kernels.spelled(np.int8(0), text=text)).decode() == text


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_specialize_picks_a_function_for_each_type(c_kernels: Any, dtype: str) -> None:
    np.testing.assert_array_equal(c_kernels.negate(np.array([1, 2], dtype)), [-1, -2])
    with pytest.raises(opabi.OpabiTypeError, match="negate takes int32 and float32"):
        c_kernels.negate(np.uint8([1]))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (1, opabi.OpabiValueError),
        (2, opabi.OpabiTypeError),
        (3, opabi.OpabiIndexError),
        (4, opabi.OpabiError),
        (5, opabi.OpabiMemoryError),
        (6, opabi.OpabiRuntimeError),
        (7, opabi.OpabiRuntimeError),
        (8, opabi.OpabiRuntimeError),
        (0, opabi.OpabiRuntimeError),
        (-3, opabi.OpabiRuntimeError),
        (9999, opabi.OpabiRuntimeError),
    ],
)
def test_status_decides_the_kind_of_error(c_kernels: Any, status: int, kind: type) -> None:
    with pytest.raises(kind, match="as it was told"):
        c_kernels.fail_with(np.int32(status))


def test_range_of_samples_is_described_truly(c_kernels: Any) -> None:
    batch = [np.uint8([0])] * 7
    rows = np.array(c_kernels.split(batch, num_threads=2))
    np.testing.assert_array_equal(rows[:, 0], np.arange(7))
    assert (rows[:, 1] == 7).all()
    assert rows[:, 2].min() >= 1
    assert set(rows[:, 3]) <= {0, 1}
    whole = np.array(c_kernels.whole(batch, num_threads=2))
    assert (whole[:, 2] == 7).all()


def test_strided_input_reaches_a_kernel_that_takes_it(kernels: Any) -> None:
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    for view in (x, x.T, x[::2, 1::3], x[::-1], np.broadcast_to(x[0], (3, 8))):
        np.testing.assert_array_equal(kernels.row_sums(view), view.sum(1))
