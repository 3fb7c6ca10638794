# SPDX-License-Identifier: Apache-2.0
"""Objects that are no plain arrays: taken for what they are, or refused with the place they came
to.
"""

from __future__ import annotations

import ctypes
import enum
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import opabi
import pytest


class Raises:
    def __dlpack__(self, **_: Any) -> Any:
        raise RuntimeError("the file is gone")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class NoDevice(Raises):
    def __dlpack_device__(self) -> Any:
        return "cpu"


class Elsewhere(Raises):
    def __dlpack_device__(self) -> tuple[int, int]:
        return (4, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((1,) * 16, np.uint8), "rank of 0 to 15, found 16"),
        (np.zeros(3, [("a", "i4")]), "T{i:a:}"),
        (np.zeros(3, "M8[s]"), "cannot be read: BufferError"),
        (np.zeros(3, complex), "Zd"),
        (np.zeros(3, ">i4"), ">i"),
        (np.array([object()]), "found the format 'O'"),
        (np.array(["a"]), "found the format '1w'"),
        ("text", "found str"),
        (None, "found NoneType"),
        (Raises(), "RuntimeError: the file is gone"),
        (Elsewhere(), "host memory"),
        (NoDevice(), "__dlpack_device__ is no pair of integers"),
        (np.datetime64("2020"), "found numpy.datetime64"),
        (np.timedelta64(3), "found numpy.timedelta64"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_input_that_is_no_array_is_refused_with_its_place(
    c_kernels: Any, value: Any, text: str
) -> None:
    with pytest.raises(opabi.OpabiTypeError) as raised:
        c_kernels.identity(value)
    assert text in str(raised.value)
    assert "kernel 'kernels.identity', input 0" in str(raised.value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12)[::-2],
        np.arange(12).reshape(3, 4).T,
        np.broadcast_to(np.int16(7), (2, 3)),
        np.frombuffer(b"\0" * 9, np.uint8)[1:].view(np.int32),
        np.arange(6, dtype=np.float32).reshape(2, 1, 3)[:, :, ::2],
        np.zeros((3, 0, 2)),
        np.array(True),
        np.float16(1.5),
    ],
    ids=str,
)
def test_input_of_any_memory_layout_is_read_right(c_kernels: Any, array: np.ndarray) -> None:
    out = c_kernels.identity(array)
    assert np.array_equal(out, array)
    assert out.dtype == array.dtype


@pytest.mark.parametrize(
    "value", [b"ab", bytearray(b"ab"), memoryview(b"ab")], ids=lambda v: type(v).__name__
)
def test_input_with_a_buffer_is_taken(c_kernels: Any, value: Any) -> None:
    assert c_kernels.identity(value).tobytes() == b"ab"


def test_ctypes_array_is_taken_and_written(c_kernels: Any) -> None:
    array = ((ctypes.c_uint8 * 2) * 3)((1, 2), (3, 4), (5, 6))
    out = ((ctypes.c_uint8 * 2) * 3)()
    assert c_kernels.identity(array, out=out) is out
    assert bytes(out) == bytes(range(1, 7))
    assert c_kernels.identity((ctypes.c_uint8 * 0)()).shape == (0,)


@pytest.mark.parametrize("value", [2.5, "2", None, 0, 10**30], ids=str)
def test_number_of_threads_that_is_none_is_refused(c_kernels: Any, value: Any) -> None:
    with pytest.raises(opabi.OpabiError, match="num_threads: expected 1 to 1024"):
        c_kernels.identity(np.zeros(2, np.uint8), num_threads=value)


def test_checked_takes_any_true_value(hostile: Any) -> None:
    sample = np.arange(32, dtype=np.uint8)
    for true in (1, np.True_):
        with pytest.raises(opabi.OpabiError):
            hostile.writes_half([sample, sample], checked=true)


def test_argument_named_by_no_utf8_is_refused(c_kernels: Any) -> None:
    with pytest.raises(opabi.OpabiTypeError, match=r"no argument '\\ud800'"):
        c_kernels.identity(np.zeros(2, np.uint8), **{"\ud800": 1})


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interrupt_of_a_python_kernel_goes_on(kind: Any) -> None:
    @opabi.python.kernel("T[n] -> T[n]")
    def interrupted(x: Any, y: Any) -> None:
        raise kind

    with pytest.raises(kind):
        interrupted(np.zeros(2, np.uint8))


EXITS = """
import sys, threading, time
import numpy as np, opabi
@opabi.python.kernel("T[n] -> T[n]")
def copy(x, y):
    y[:] = x
batch = [np.zeros(1000, np.uint8)] * 8
def call():
    while True:
        copy(batch, num_threads=4)
for _ in range(3):
    threading.Thread(target=call, daemon=True).start()
time.sleep(0.2)
"""


def test_exit_while_threads_are_in_kernels_is_clean() -> None:
    done = subprocess.run([sys.executable, "-c", EXITS], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_argument_of_a_number_subclass_is_a_number(c_kernels: Any) -> None:
    gain = enum.IntEnum("Gain", {"TRIPLE": 3}).TRIPLE  # type: ignore[attr-defined]
    assert c_kernels.affine(np.ones(2, np.float32), gain=gain).tolist() == [3, 3]


@pytest.mark.parametrize("value", [10**30, -(10**30), 1e300, [[1, 2], [3]]], ids=str)
def test_argument_that_does_not_fit_is_refused_by_name(c_kernels: Any, value: Any) -> None:
    with pytest.raises(opabi.OpabiValueError, match="argument 'gain'"):
        c_kernels.affine(np.ones(2, np.float32), gain=value)


def test_list_that_shrinks_during_the_call_is_refused(c_kernels: Any) -> None:
    samples: list[Any] = [np.zeros(2, np.uint8)] * 3

    class Shrinks:
        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            samples.clear()
            return np.zeros(2, np.uint8)

    samples[0] = Shrinks()
    with pytest.raises(opabi.OpabiValueError, match="shrank"):
        c_kernels.identity(samples)


def test_calls_from_many_threads_do_not_mix(c_kernels: Any) -> None:
    wrong = []

    def hammer(value: int) -> None:
        for _ in range(50):
            outputs = c_kernels.invert([np.full(9, value, np.uint8)] * 5, num_threads=2)
            wrong.extend(o for o in outputs if (o != 255 - value).any())

    threads = [threading.Thread(target=hammer, args=(v,)) for v in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_call_with_threads_in_a_forked_child_ends(c_kernels: Any) -> None:
    batch = [np.zeros(4, np.uint8)] * 8
    c_kernels.slow(batch, us=2000, num_threads=4)  # the parent's engine keeps its threads
    child = os.fork()
    if child == 0:
        os._exit(0 if (c_kernels.slow(batch, us=2000, num_threads=4)[7] == 0).all() else 3)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the forked child hangs")
