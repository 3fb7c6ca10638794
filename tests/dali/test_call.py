# SPDX-License-Identifier: Apache-2.0
"""Data through the operator: types, shapes, ports, layouts, sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nvidia.dali import fn
from pipelines import build, feed, run, same, samples

DTYPES = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
]
EXECUTORS = [
    {"exec_dynamic": True},
    {"exec_dynamic": False, "prefetch_queue_depth": 2},
    {"exec_dynamic": False, "exec_async": False, "exec_pipelined": False},
]


def test_library_kernel_by_path_and_symbol_runs(c_kernels: Any, plugin: Any) -> None:
    found = run(
        lambda: fn.opabi.call(feed([[1, 2], [3]]), library=c_kernels.path, symbol="identity"),
        batch_size=2,
    )
    assert same(found, [[1, 2], [3]])


@settings(max_examples=60)
@given(data=st.data())
def test_call_of_any_dtype_and_rank_returns_every_bit(c_kernels: Any, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    ndim = data.draw(st.integers(0, 15))
    shape = st.tuples(*[st.integers(0, 3 if ndim < 6 else 2)] * ndim)
    shapes = data.draw(st.lists(shape, min_size=1, max_size=4))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    batch = [
        random.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype) for shape in shapes
    ]
    assert same(run(lambda: c_kernels.identity(feed(batch)), batch_size=len(batch)), batch)


@pytest.mark.parametrize("options", EXECUTORS)
def test_call_under_every_executor_serves_varying_batches(
    c_kernels: Any, options: dict[str, Any]
) -> None:
    batches = [[[5, 1, 7], [1, 2], []], [[9]], [[4], [5, 6], [7]]]
    expected = [[[5, 7], [], []], [[9]], [[], [5, 6], [7]]]
    batches = [[np.array(s, np.int32) for s in batch] for batch in batches]
    pipeline = build(lambda: c_kernels.keep_greater(feed(*batches)), batch_size=3, **options)
    for want in expected * 2:
        (found,) = pipeline.run()
        assert same(samples(found), [np.array(s, np.int32) for s in want])


@pytest.mark.parametrize("options", EXECUTORS)
def test_call_with_setup_of_two_inputs_joins_them(c_kernels: Any, options: dict[str, Any]) -> None:
    a = [np.int32([0, 1]), np.int32([5, 6, 7])]
    b = [np.int32([0, 1, 2, 3]), np.int32([9])]
    found = run(lambda: c_kernels.joined(feed(a), feed(b)), batch_size=2, iterations=3, **options)
    assert same(found, [np.int32([0, 1, 0, 1, 2, 3]), np.int32([5, 6, 7, 9])])


def test_call_that_changes_the_type_sizes_its_output_by_it(c_kernels: Any) -> None:
    batch = [np.uint8([0, 51, 255]), np.zeros(0, np.uint8), np.full(2**20, 255, np.uint8)]
    found = run(lambda: c_kernels.to_float(feed(batch)), batch_size=3, iterations=10)
    assert [a.dtype for a in found] == [np.float32] * 3
    assert np.allclose(found[0], [0, 0.2, 1], atol=1e-6)
    assert found[1].shape == (0,)
    assert (found[2] == 1).all()


def test_call_with_eight_inputs_and_outputs_keeps_their_order(c_kernels: Any) -> None:
    def define() -> Any:
        return tuple(c_kernels.eight(*[feed([np.int16([k])] * 2) for k in range(8)]))

    for output in run(define, batch_size=2):
        assert same(output, [np.int16([7])] * 2)


def test_call_with_64_inputs_and_outputs_runs(by_address: Callable[..., Any]) -> None:
    kernel = by_address("any", f"{', '.join(['uint8[n]'] * 64)} -> {', '.join(['uint8[n]'] * 64)}")
    outputs = run(lambda: tuple(kernel(*[feed([np.uint8([k])]) for k in range(64)])), batch_size=1)
    assert [int(output[0][0]) for output in outputs] == list(range(64))


@pytest.mark.parametrize("options", EXECUTORS)
def test_source_without_inputs_fills_the_batch(c_kernels: Any, options: dict[str, Any]) -> None:
    numbers, constants = run(lambda: tuple(c_kernels.source()), batch_size=5, **options)
    assert same(numbers, list(np.arange(5)))
    assert same(constants, [np.float32([0, 1, 2])] * 5)


@pytest.mark.parametrize("options", EXECUTORS)
def test_sink_without_outputs_gets_each_sample_once(
    addresses: Any, by_address: Callable[..., Any], options: dict[str, Any]
) -> None:
    kernel = by_address("collect", "int32[n] ->", pure=True)

    def define() -> Any:
        x = feed([np.int32([k]) for k in range(5)])
        assert kernel(x) is None
        return x

    pipeline = build(define, batch_size=5, **{**options, "prefetch_queue_depth": 1})
    addresses.take_collected()
    pipeline.run()
    del pipeline  # ends the iterations that were scheduled ahead
    collected = addresses.take_collected().to_bytes(8, "little")
    assert len(set(collected[:5])) == 1
    assert collected[0] > 0
    assert collected[5:] == b"\0\0\0"


def test_layout_of_the_input_goes_to_an_output_of_equal_rank(c_kernels: Any) -> None:
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)

    def define() -> Any:
        inverted = c_kernels.invert(feed([image], layout="HWC"))
        return inverted, fn.crop(inverted, crop=(2, 2))

    inverted, cropped = build(define, batch_size=1).run()
    assert inverted.layout() == "HWC"
    assert cropped.at(0).shape == (2, 2, 3)


def test_layout_of_the_signature_goes_to_the_output(c_kernels: Any) -> None:
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    (found,) = build(
        lambda: c_kernels.transpose_chw(feed([image], layout="HWC")), batch_size=1
    ).run()
    assert found.layout() == "CHW"
    assert np.array_equal(found.at(0), image.transpose(2, 0, 1))


def test_layout_reaches_the_kernel(c_kernels: Any) -> None:
    image = np.zeros((4, 5, 3), np.uint8)
    found = run(lambda: c_kernels.layout_of(feed([image], layout="HWC")), batch_size=1)
    assert found[0].tobytes() == b"HWC"


def test_layout_other_than_declared_is_refused(c_kernels: Any) -> None:
    image = np.zeros((3, 4, 5), np.uint8)
    pipeline = build(lambda: c_kernels.transpose_chw(feed([image], layout="CHW")), batch_size=1)
    with pytest.raises(TypeError, match="expected layout HWC, found CHW"):
        pipeline.run()


def test_array_as_input_is_the_same_for_all_samples(c_kernels: Any) -> None:
    batch = [np.int32([1]), np.int32([2, 3])]
    found = run(lambda: c_kernels.joined(np.int32([8, 9]), feed(batch)), batch_size=2)
    assert same(found, [np.int32([8, 9, 1]), np.int32([8, 9, 2, 3])])


def test_specialized_kernel_takes_each_type_it_has(c_kernels: Any) -> None:
    def define() -> Any:
        return c_kernels.negate(feed([np.int32([1, -2])])), c_kernels.negate(
            feed([np.float32([1.5])])
        )

    integers, floats = run(define, batch_size=1)
    assert same(integers, [np.int32([-1, 2])])
    assert same(floats, [np.float32([-1.5])])


def test_scratch_of_a_kernel_is_there(c_kernels: Any) -> None:
    batch = [np.float32([3, 1, 2]), np.float32([9])]
    assert same(
        run(lambda: c_kernels.median(feed(batch)), batch_size=2), [np.float32(2), np.float32(9)]
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_ranges_of_a_batch_cover_it_once(c_kernels: Any, threads: int) -> None:
    found = run(
        lambda: c_kernels.split(feed([0] * 100)), batch_size=100, num_threads=threads, iterations=3
    )
    table = np.stack(found)
    assert table[:, 0].tolist() == list(range(100))
    assert set(table[:, 1]) == {100}
    assert table[:, 3].max() < threads


def test_whole_batch_kernel_gets_one_range(c_kernels: Any) -> None:
    found = run(lambda: c_kernels.whole(feed([0] * 50)), batch_size=50, num_threads=3)
    assert {int(row[2]) for row in found} == {50}
