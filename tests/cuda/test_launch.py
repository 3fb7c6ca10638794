# SPDX-License-Identifier: Apache-2.0
"""Launches of CUDA functions, against a driver that records them."""

from __future__ import annotations

from typing import Any

import numpy as np
import opabi
import pytest
from opabi.adapters import cuda

INVERT = "uint8[...] -> uint8[...]"


def batch(gpu: Any, shapes: list[tuple[int, ...]]) -> list[Any]:
    rng = np.random.default_rng(1)
    return [gpu(rng.integers(0, 256, shape, np.uint8)) for shape in shapes]


def inverted(found: list[Any], given: list[Any]) -> bool:
    return all(np.array_equal(a.array, 255 - b.array) for a, b in zip(found, given, strict=True))


@pytest.fixture
def invert(functions: Any, driver: Any) -> Any:
    return cuda.kernel(
        functions("invert_batch"), INVERT, cuda.Launch(block=32, per_block=64), name="invert"
    )


def test_batch_is_one_launch_on_the_current_stream(invert: Any, gpu: Any, record: Any) -> None:
    given = batch(gpu, [(3, 5), (100, 2), (1, 1)])
    assert inverted(invert(given), given)
    assert (record.launches, record.copies, record.syncs, record.stream) == (1, 0, 0, 0x1234)
    assert list(record.grid) == [4, 3, 1]  # the largest sample has 200 elements, 64 a block
    assert list(record.block) == [32, 1, 1]


def test_samples_without_elements_get_no_blocks(invert: Any, gpu: Any, record: Any) -> None:
    given = batch(gpu, [(0, 5), (7, 2), (3, 0)])
    found = invert(given)
    assert inverted(found, given)
    assert [a.array.shape for a in found] == [(0, 5), (7, 2), (3, 0)]
    assert list(record.grid) == [1, 1, 1]


def test_batch_of_only_empty_samples_launches_nothing(invert: Any, gpu: Any, record: Any) -> None:
    assert [a.array.shape for a in invert(batch(gpu, [(0, 5), (3, 0)]))] == [(0, 5), (3, 0)]
    assert record.launches == 0


def test_grid_by_total_counts_each_samples_blocks(functions: Any, gpu: Any, record: Any) -> None:
    launch = cuda.Launch(block=32, per_block=10, by_total=True)
    invert = cuda.kernel(functions("invert_batch"), INVERT, launch)
    given = batch(gpu, [(25,), (0,), (10,), (1,)])
    assert inverted(invert(given), given)
    assert list(record.grid) == [3 + 1 + 1, 1, 1]


def test_table_too_large_is_staged_once(invert: Any, gpu: Any, record: Any) -> None:
    given = batch(gpu, [(2, 3)] * 500)
    assert inverted(invert(given), given)
    assert (record.launches, record.copies, record.syncs) == (1, 1, 0)


def test_steady_state_allocates_nothing(invert: Any, gpu: Any, record: Any, driver: Any) -> None:
    given = batch(gpu, [(2, 3)] * 2000)
    invert(given)
    before = (record.allocs, record.host_allocs)
    for _ in range(20):
        assert inverted(invert(given), given)
    assert (record.allocs, record.host_allocs, record.syncs, record.waits) == (*before, 0, 0)
    assert record.launches == 21


def test_pinned_memory_is_not_reused_before_the_stream_has_passed(
    invert: Any, gpu: Any, record: Any, driver: Any
) -> None:
    given = batch(gpu, [(2, 3)] * 2000)
    invert(given)
    driver.fake_hold(1)
    before = record.host_allocs
    for _ in range(5):
        invert(given)
    assert record.host_allocs == before + 4  # the one that was passed, then new ones
    for _ in range(100):
        invert(given)
    assert record.waits > 0  # a host far ahead waits
    assert record.host_allocs <= before + 31


def test_cpu_inputs_and_arrays_as_arguments_are_staged(
    functions: Any, gpu: Any, record: Any
) -> None:
    affine = cuda.kernel(
        functions("affine_batch"),
        "float32[n], uint8[m] -> float32[n]",
        arguments=[opabi.Argument("gain", "float32", 0), opabi.Argument("bias", "float32", 1)],
    )
    x = [np.arange(4, dtype=np.float32), np.arange(3, dtype=np.float32)]
    marks = [gpu(np.zeros(2, np.uint8))] * 2
    found = affine(x, marks, gain=[2.0, 3.0], bias=[[9.0, 1.0], [9.0, 0.5]])
    assert np.array_equal(found[0].array, x[0] * 2 + 1)
    assert np.array_equal(found[1].array, x[1] * 3 + 0.5 + 1)
    assert record.copies == 1


def test_declared_parameters_launch_each_sample(functions: Any, gpu: Any, record: Any) -> None:
    launch = cuda.Launch(
        block=(16, 4),
        grid=("w", "h"),
        parameters=["x", "out", cuda.numel("x"), "w", cuda.Const(3, "float64")],
    )
    add = cuda.kernel(functions("add_sample"), "x: int32[h,w] -> int32[h,w]", launch)
    given = [gpu(np.arange(33 * 5, dtype=np.int32).reshape(5, 33)), gpu(np.zeros((0, 3), np.int32))]
    found = add(given)
    assert np.array_equal(found[0].array, given[0].array + 3 + 33)
    assert found[1].array.shape == (0, 3)
    assert record.launches == 1
    assert (list(record.grid), list(record.block)) == ([3, 2, 1], [16, 4, 1])


def test_launch_failure_names_kernel_and_cause(functions: Any, gpu: Any) -> None:
    invert = cuda.kernel(functions("invert_batch"), INVERT, cuda.Launch(block=2048), name="invert")
    with pytest.raises(
        opabi.OpabiRuntimeError,
        match=r"invert.*2048, 1, 1\) threads.*CUDA_ERROR_INVALID_VALUE.*invalid argument",
    ):
        invert(batch(gpu, [(3,)]))


def test_too_much_shared_memory_is_refused_with_the_amount(
    functions: Any, gpu: Any, driver: Any
) -> None:
    invert = cuda.kernel(
        functions("invert_batch"), INVERT, cuda.Launch(shared=300_000), name="invert"
    )
    with pytest.raises(
        opabi.OpabiRuntimeError,
        match=r"invert.*300000 bytes of dynamic shared memory.*invalid argument",
    ):
        invert(batch(gpu, [(3,)]))


def test_function_of_another_device_is_refused(functions: Any, gpu: Any, driver: Any) -> None:
    invert = cuda.kernel(functions("invert_batch"), INVERT, name="invert")
    with pytest.raises(
        opabi.OpabiRuntimeError, match=r"invert.*loaded on CUDA device 0, this call is on 1"
    ):
        invert([gpu(np.zeros(3, np.uint8), 1)])


def test_inputs_on_two_devices_are_refused(invert: Any, functions: Any, gpu: Any) -> None:
    add = cuda.kernel(functions("invert_batch"), "uint8[n], uint8[n] -> uint8[n]")
    with pytest.raises(
        opabi.OpabiTypeError, match="input 1: expected a tensor on CUDA device 0, found one on 1"
    ):
        add(gpu(np.zeros(3, np.uint8)), gpu(np.zeros(3, np.uint8), 1))


def test_arrays_on_the_cpu_alone_are_refused(invert: Any) -> None:
    with pytest.raises(
        opabi.OpabiTypeError,
        match="invert' works on the GPU: expected an input that is a cupy or torch",
    ):
        invert(np.zeros(3, np.uint8))


def test_parameter_that_is_no_batch_is_refused(invert: Any, gpu: Any, driver: Any) -> None:
    driver.fake_param_size(8)
    with pytest.raises(
        opabi.OpabiValueError, match=r"expected one parameter OPABI_BATCH.*found one of 8 bytes"
    ):
        invert(batch(gpu, [(3,)]))


def test_unknown_parameter_lists_what_there_is() -> None:
    kernel = cuda.kernel(5, "x: uint8[h,w] -> uint8[h,w]", cuda.Launch(parameters=["y"]))
    assert kernel.device == "cuda"
    with pytest.raises(opabi.OpabiValueError, match=r"parameter 'y'.*h, w, "):
        cuda._rule(cuda.Launch(parameters=["y"]), cuda._parse("x: uint8[h,w] -> uint8[h,w]"), [])


def test_capture_with_staged_tables_is_refused(
    invert: Any, gpu: Any, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opabi import device_arrays

    monkeypatch.setattr(device_arrays.LIBRARIES["fakearray"], "current_stream", 0x77)
    given = batch(gpu, [(2, 3)] * 3)
    assert inverted(invert(given), given)
    with pytest.raises(opabi.OpabiRuntimeError, match="captured into a graph"):
        invert(batch(gpu, [(2, 3)] * 500))


def test_device_tables_hold_device_pointers(functions: Any, gpu: Any, record: Any) -> None:
    kernel = opabi.Kernel.make(
        name="tables",
        signature="int32[n] -> int32[n]",
        arguments=[opabi.Argument("add", "int32", 0)],
        device="cuda",
        run=functions("tables_run"),
        setup=functions("tables_setup"),
        device_tables=True,
    )
    given = [gpu(np.arange(n, dtype=np.int32)) for n in (3, 0, 5)]
    found = kernel(given, add=[1, 2, 3])
    assert all(
        np.array_equal(a.array, b.array + add)
        for a, b, add in zip(found, given, (1, 2, 3), strict=True)
    )
    assert record.copies == 1
    kernel(given, add=1, checked=True)
    assert record.syncs == 1


def test_sizes_that_run_decides_are_refused_on_the_gpu(
    functions: Any, gpu: Any, driver: Any
) -> None:
    kernel = opabi.Kernel.make(
        name="found", signature="int32[n] -> int32[<=n]", device="cuda", run=functions("tables_run")
    )
    with pytest.raises(
        opabi.OpabiRuntimeError, match=r"found', output 0.*cannot yet run CUDA kernels"
    ):
        kernel(gpu(np.zeros(3, np.int32)))
