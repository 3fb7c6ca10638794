# SPDX-License-Identifier: Apache-2.0
"""Slow kernels on more and more threads: 16 samples of 50 ms, that wait rather than compute."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import opabi
from measure import Case, Group, Target, at_least, interleave, seconds
from nvidia.dali import fn, pipeline_def

SAMPLES, SLEEP = 16, 0.05
THREADS = (1, 2, 4, 8)

_usleep = ctypes.CDLL(None).usleep
_usleep.argtypes = [ctypes.c_uint32]
_usleep.restype = ctypes.c_int32


@opabi.numba.kernel("uint8[...] -> uint8[...]", pure=True, cache=False)
def numba_wait(x: Any, out: Any) -> None:
    _usleep(50000)
    a, o = x.reshape(-1), out.reshape(-1)
    for i in range(a.size):
        o[i] = 255 - a[i]


def pipeline(kernel: Any, size: int, threads: int) -> Any:
    batch = [np.full(size, s, np.uint8) for s in range(SAMPLES)]

    @pipeline_def(batch_size=SAMPLES, num_threads=threads, device_id=None, prefetch_queue_depth=1)
    def define() -> Any:
        return kernel(fn.external_source(source=lambda: batch))

    made = define()
    made.build()
    made.run()
    return made


@contextlib.contextmanager
def busy_python() -> Iterator[None]:
    """A thread that computes in Python meanwhile, so that its lock is always wanted."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def scaling(repeats: int) -> Iterator[Group]:
    kernels = {"C": opabi.c.compile(Path(__file__).parent / "kernels.c").wait, "Numba": numba_wait}
    for size, beside in ((1, ""), (1, "busy"), (100_000, "")):
        cases = []
        for language, kernel in kernels.items():
            for threads in THREADS:
                run = pipeline(kernel, size, threads).run
                cases.append(Case(f"{language}, {threads} threads", timed(run, beside)))
        setting = f"{SAMPLES} samples of {size} bytes" + (", Python busy" if beside else "")
        yield interleave("scaling", setting, "ms a batch", cases, repeats)


def timed(run: Callable[[], object], beside: str) -> Callable[[], float]:
    def once() -> float:
        with busy_python() if beside else contextlib.nullcontext():
            return 1e3 * seconds(run)

    return once


def targets(group: Group) -> list[Target]:
    return [
        at_least(group, f"{language}, 1 threads", f"{language}, {threads} threads", 0.9 * threads)
        for language in ("C", "Numba")
        for threads in THREADS[1:]
    ]
