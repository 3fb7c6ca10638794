# SPDX-License-Identifier: Apache-2.0
"""The duties of kernels (rules of kind K), kept by kernels in C and C++ that our headers make."""

from __future__ import annotations

import concurrent.futures
import ctypes
import dataclasses
import locale
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import bare_host
import numpy as np
import pytest
from bare_host import C, Case
from guarded_memory import ffi
from hypothesis import given
from hypothesis import strategies as st

RNG = np.random.default_rng(7)
NAMES = [
    "c.invert", "c.identity", "c.to_float", "c.joined", "c.transpose_chw", "c.keep_greater",
    "c.median", "c.affine", "c.sized", "c.eight", "c.negate", "c.row_sums",
    "cc.solarize", "cc.negate", "cc.transpose_chw", "cc.keep_greater", "cc.keep_rows",
    "cc.row_sums", "cc.scaled", "cc.joined", "cc.median", "cc.add",
]  # fmt: skip


def descriptors(path: str) -> dict[str, Any]:
    """The kernels of a library, by name."""
    entry = ctypes.cast(ctypes.CDLL(path).opabi_library_v1, ctypes.c_void_p).value
    library = ffi.cast("opabi_library_fn", entry)()
    kernels = [library.kernels[k] for k in range(library.n_kernels)]
    return {ffi.string(kernel.name).decode(): kernel for kernel in kernels}


@pytest.fixture(scope="module")
def kernels(c_kernels: Any, cc_kernels: Any) -> dict[str, Any]:
    found = {f"c.{name}": kernel for name, kernel in descriptors(c_kernels.path).items()}
    return found | {f"cc.{name}": kernel for name, kernel in descriptors(cc_kernels.path).items()}


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, np.uint8)


def i32(*shape: int) -> np.ndarray:
    return RNG.integers(-9, 10, shape, np.int32)


def f32(*shape: int) -> np.ndarray:
    return RNG.integers(-50, 50, shape).astype(np.float32)


def scalar(value: float, dtype: str) -> np.ndarray:
    return np.array(value, dtype)


def above(limit: int) -> Any:
    return lambda x, *rest: [x[x > limit]]


def case_of(kernels: dict[str, Any], full_name: str) -> Case:
    """Ragged samples, one without elements where the kernel can, and what NumPy says of them."""
    kernel, name = kernels[full_name], full_name.split(".")[1]
    images = [[u8(5, 3, 3)], [u8(0, 4, 3)], [u8(1, 1, 1)], [u8(7, 2, 4)]]
    vectors = [[i32(5)], [i32(0)], [i32(1)], [i32(33)]]
    match name:
        case "invert":
            return Case(kernel, images, lambda x: [255 - x])
        case "solarize":
            limit = [[scalar(t, "uint8")] for t in (0, 100, 128, 255)]
            return Case(kernel, images, lambda x, t: [np.where(x < t, x, 255 - x)], args=limit)
        case "identity":
            return Case(kernel, [[f32(3, 2)], [f32(0, 9)], [f32(1, 1)]], lambda x: [x])
        case "to_float":
            return Case(kernel, images, lambda x: [x.astype(np.float32) / np.float32(255)])
        case "joined":
            pairs = [[i32(2), i32(4)], [i32(0), i32(0)], [i32(0), i32(3)]]
            return Case(kernel, pairs, lambda a, b: [np.concatenate([a, b])], is_open=True)
        case "transpose_chw":
            return Case(kernel, images, lambda x: [x.transpose(2, 0, 1).copy()])
        case "keep_greater":
            limits = [[scalar(4, "int32")] for _ in vectors]
            return Case(kernel, vectors, above(4), args=limits, bounds=lambda x: [x.shape])
        case "keep_rows":
            rows = [[f32(5, 3)], [f32(0, 3)], [f32(2, 0)], [f32(4, 1)]]
            return Case(kernel, rows, lambda x: [x[::2].copy()], bounds=lambda x: [x.shape])
        case "median":
            samples = [[f32(5)], [f32(1)], [f32(32)]]
            return Case(kernel, samples, lambda x: [np.sort(x)[len(x) // 2].reshape(())])
        case "affine":
            gains = [scalar(2, "float32"), f32(4), f32(0)]
            args = [[gain, scalar(b, "float32")] for b, gain in enumerate(gains)]
            samples = [[f32(3)], [f32(4)], [f32(0)]]
            return Case(kernel, samples, lambda x, gain, bias: [gain * x + bias], args=args)
        case "sized":
            args = [[scalar(h, "int64"), scalar(3, "int64")] for h in (2, 0, 5, 1)]
            return Case(kernel, images, lambda x, h, w: [np.full((h, w), 7, np.uint8)], args=args)
        case "eight":
            samples = [
                [RNG.integers(0, 9, (k + s) % 5).astype(np.int16) for k in range(8)]
                for s in range(3)
            ]
            return Case(kernel, samples, lambda *x: [x[7 - j] + np.int16(j) for j in range(8)])
        case "negate":
            return Case(kernel, [[f32(4, 3)], [f32(0, 1)], [f32(1, 1)]], lambda x: [-x])
        case "row_sums":
            rows = [[f32(5, 3)], [f32(0, 4)], [f32(3, 0)], [f32(1, 8)]]
            return Case(kernel, rows, lambda x: [x.sum(axis=1)])
        case "scaled":
            args = [[scalar(f, "float64")] for f in (2, -0.5)]
            samples = [[scalar(3, "int64")], [scalar(-8, "int64")]]
            return Case(kernel, samples, lambda x, f: [np.asarray(x * f)], args=args)
        case "add":
            pairs = [[f32(2, 3), f32(2, 3)], [f32(0, 3), f32(0, 3)], [f32(5, 1), f32(5, 1)]]
            return Case(kernel, pairs, lambda a, b: [a + b])
    raise AssertionError(full_name)


@pytest.fixture(params=NAMES)
def case(request: pytest.FixtureRequest, kernels: dict[str, Any]) -> Case:
    return case_of(kernels, request.param)


def check(case: Case, result: bare_host.Result) -> None:
    assert result.status == C["OPABI_OK"], result.message
    for found, expected in zip(result.outputs, case.expected(), strict=True):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


# ---- Memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["start", "end"])
def test_run_stays_inside_its_buffers(case: Case, place: str) -> None:
    """OPABI-K-001, OPABI-K-021, OPABI-K-022, OPABI-K-024, OPABI-K-026, OPABI-K-028."""
    for _ in range(2):  # nothing of the first call's memory is left in the second
        check(case, bare_host.run(case, place=place))


def test_run_takes_data_aligned_to_its_element_only(case: Case) -> None:
    """OPABI-K-025"""
    check(case, bare_host.run(case, place="odd"))


@pytest.mark.parametrize("poison", [0x00, 0xFF])
def test_run_writes_every_element(case: Case, poison: int) -> None:
    """OPABI-K-020, OPABI-K-027"""
    check(case, bare_host.run(case, poison=poison))


@pytest.mark.parametrize("grow", [0, 8, 256])
def test_struct_larger_than_known_is_taken_by_its_beginning(case: Case, grow: int) -> None:
    """OPABI-K-032"""
    check(case, bare_host.run(case, grow=grow))
    n = len(case.samples)
    assert bare_host.setup(case, 0, n, grow=grow) == bare_host.setup(case, 0, n)


def test_any_strides_are_taken_where_declared(kernels: dict[str, Any]) -> None:
    """OPABI-K-052"""
    base = f32(6, 8)
    views = [base[::2, ::-1], base.T, base[::-1, 1:7:3], np.broadcast_to(base[:1], (4, 8)), base]
    for name in ("c.row_sums", "cc.row_sums"):
        assert kernels[name].traits & C["OPABI_ANY_STRIDES"]
        case = Case(kernels[name], [[view] for view in views], lambda x: [x.sum(axis=1)])
        check(case, bare_host.run(case))


# ---- Ranges, repetition, threads -----------------------------------------------------------------


def test_split_of_a_batch_does_not_show_in_the_result(case: Case) -> None:
    """OPABI-K-014, OPABI-K-023, OPABI-K-051"""
    n = len(case.samples)
    single = [(s, s + 1) for s in range(n)]
    for ranges in (single, single[::-1], [(1, n), (0, 1)]):
        check(case, bare_host.run(case, ranges))
    whole, _ = bare_host.setup(case, 0, n)
    assert [bare_host.setup(case, *one)[0][0] for one in single] == whole


def test_setup_is_pure_and_reads_no_data(case: Case) -> None:
    """OPABI-K-010, OPABI-K-011, OPABI-K-012, OPABI-K-016"""
    n = len(case.samples)
    first = bare_host.setup(case, 0, n)
    bare_host.setup(case, 0, 1)
    assert bare_host.setup(case, 0, n) == first
    shapes = first[0]
    bounds = [case.bounds(*x) if case.bounds else None for x in case.samples]
    expected = [b or [a.shape for a in row] for b, row in zip(bounds, case.expected(), strict=True)]
    assert shapes == expected


def test_calls_give_the_same_where_they_overlap(case: Case) -> None:
    """OPABI-K-030"""
    gate = threading.Barrier(4, timeout=60)

    def work(turn: int) -> list[tuple[Case, bare_host.Result]]:
        samples, args = (rows[turn:] + rows[:turn] for rows in (case.samples, case.args))
        mine = dataclasses.replace(case, samples=samples, args=args)
        return [(mine, bare_host.run(mine, gate=gate.wait)) for _ in range(3)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work, turn % len(case.samples)) for turn in range(4)]
    for future in futures:
        for mine, result in future.result():
            check(mine, result)


def surroundings() -> list[Any]:
    rounding = ctypes.CDLL("libm.so.6").fegetround()
    # A denormal survives only if nothing set flush-to-zero.
    denormal = float(np.float32(1e-39) + np.float32(0))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    return [rounding, denormal, mask, os.getcwd(), locale.setlocale(locale.LC_ALL)]


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_call_leaves_its_surroundings_as_they_were(case: Case) -> None:
    """OPABI-K-005, OPABI-K-006"""
    before, threads_before = surroundings(), threads()
    bare_host.run(case)
    assert surroundings() == before
    assert threads() <= threads_before  # those of earlier tests end in their own time


def test_load_leaves_the_process_as_it_was(c_kernels: Any, cc_kernels: Any) -> None:
    """OPABI-K-034"""
    program = """
import ctypes, os, sys
def look():
    return [os.listdir(f"/proc/self/{what}") for what in ("task", "fd")], dict(os.environ)
before = look()
for path in sys.argv[1:]: ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL).opabi_library_v1()
assert look() == before
"""
    command = [sys.executable, "-c", program, c_kernels.path, cc_kernels.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- Errors --------------------------------------------------------------------------------------


@given(cap=st.integers(0, 40))
def test_message_fits_any_buffer(kernels: dict[str, Any], cap: int) -> None:
    """OPABI-K-002, OPABI-K-003"""
    one = np.array([1], np.int32)
    samples = [[one * 0], [one], [one]]
    case = Case(kernels["c.fail_on_one"], samples, lambda x: [x + 10])
    result = bare_host.run(case, err_cap=cap)
    assert result.status == C["OPABI_ERROR_VALUE"]
    assert result.message == b"no face"[: max(cap - 1, 0)]
    assert result.where == [C["OPABI_UNSET"], C["OPABI_UNSET"], 1, C["OPABI_UNSET"]]


@given(cap=st.integers(0, 60), which=st.integers(1, 6))
def test_exception_becomes_a_status(kernels: dict[str, Any], cap: int, which: int) -> None:
    """OPABI-K-002, OPABI-K-004"""
    thrown = [[scalar(7, "int32")], [scalar(which, "int32")]]
    case = Case(kernels["cc.thrown"], thrown, lambda x: [np.asarray(x)])
    result = bare_host.run(case, err_cap=cap)
    statuses = {
        1: "VALUE",
        2: "INDEX",
        3: "OUT_OF_MEMORY",
        4: "UNSUPPORTED",
        5: "INTERNAL",
        6: "INTERNAL",
    }
    assert result.status == C[f"OPABI_ERROR_{statuses[which]}"]
    assert result.where[C["OPABI_WHERE_SAMPLE"]] == 1
    assert len(result.message) <= max(cap - 1, 0)
    result.message.decode("utf-8")


def test_kernel_that_cannot_take_a_type_says_so(kernels: dict[str, Any]) -> None:
    """OPABI-K-007"""
    for name in ("cc.mistyped", "cc.negate"):
        case = Case(kernels[name], [[u8(2, 3)]], lambda x: [x])
        assert bare_host.run(case).status == C["OPABI_ERROR_TYPE"]


# ---- Life ----------------------------------------------------------------------------------------


@pytest.fixture(params=["c.counter", "cc.counter"])
def counter(request: pytest.FixtureRequest, kernels: dict[str, Any]) -> Iterator[Any]:
    return kernels[request.param]


def counts(kernel: Any, instance: Any, n: int) -> list[int]:
    case = Case(kernel, [[i32(2)] for _ in range(n)], lambda x: [scalar(0, "int64")])
    result = bare_host.run(case, instance=instance)
    assert result.status == C["OPABI_OK"], result.message
    return [int(row[0]) for row in result.outputs]


def test_instances_know_nothing_of_each_other(counter: Any) -> None:
    """OPABI-K-031"""
    one, other = bare_host.create(counter), bare_host.create(counter)
    assert counts(counter, one, 3) == [0, 1, 2]
    assert counts(counter, other, 2) == [0, 1]
    assert counts(counter, one, 1) == [3]
    counter.destroy(counter.user_data, one)
    assert counts(counter, other, 1) == [2]
    counter.destroy(counter.user_data, other)


def test_destroy_works_on_another_thread(counter: Any) -> None:
    """OPABI-K-038"""
    instance = bare_host.create(counter)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(counter.destroy, counter.user_data, instance).result()


def test_restored_instance_goes_on_as_the_saved_one(kernels: dict[str, Any]) -> None:
    """OPABI-K-036, OPABI-K-037"""
    kernel = kernels["c.counter"]
    saved, restored = bare_host.create(kernel), bare_host.create(kernel)
    counts(kernel, saved, 5)
    status, size = bare_host.call_state(kernel.save, kernel, saved, ffi.NULL, 0)
    assert status == C["OPABI_OK"]
    buffer = ffi.new("char[]", size)
    assert bare_host.call_state(kernel.save, kernel, saved, buffer, size) == (C["OPABI_OK"], size)
    assert (
        bare_host.call_state(kernel.restore, kernel, restored, buffer, size - 1)[0] != C["OPABI_OK"]
    )
    assert bare_host.call_state(kernel.restore, kernel, restored, buffer, size)[0] == C["OPABI_OK"]
    assert counts(kernel, restored, 2) == counts(kernel, saved, 2) == [5, 6]
    kernel.destroy(kernel.user_data, saved)
    kernel.destroy(kernel.user_data, restored)


def test_specialize_may_fail_and_be_asked_again(kernels: dict[str, Any]) -> None:
    """OPABI-K-033, OPABI-K-039"""
    kernel = kernels["c.negate"]
    inputs = {"whole": [i32(3)], "real": [f32(3)]}
    functions: dict[str, Any] = {}
    for _ in range(3):
        status, _, message = bare_host.specialize(kernel, [u8(3)])
        assert status == C["OPABI_ERROR_TYPE"]
        assert message
        for kind, arrays in inputs.items():
            status, found, message = bare_host.specialize(kernel, arrays)
            assert status == C["OPABI_OK"], message
            assert functions.setdefault(kind, found) == found
    for arrays in inputs.values():
        case = Case(kernel, [arrays], lambda x: [-x])
        check(case, bare_host.run(case))
