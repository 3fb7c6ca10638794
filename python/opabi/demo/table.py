# SPDX-License-Identifier: Apache-2.0
"""The table: what one job costs as a kernel, and by the other ways there are to do it in DALI.

A chain of several operators and one alone are timed in turn; the difference, divided, is the cost
of one operator. It leaves out what the pipeline itself costs. All ways are measured in turn, in
several rounds, and the fastest run of each counts: nothing else was in its way. First, each way's
result is compared with ``255 - x``.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from nvidia.dali import backend, fn, pipeline_def, types
from nvidia.dali.plugin.numba import NumbaFunction
from rich.table import Table

import opabi
from opabi.demo import kernels, pipeline

OURS = ("opabi, kernel in C", "opabi, kernel in Numba")
THREADS = min(4, os.cpu_count() or 1)
EXTRA = 4
"""How many operators the long chain has more than the short one."""

Way = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Job:
    """A batch of HWC samples to invert; ``batch`` is a TensorListCPU."""

    text: str
    batch: Any


@dataclasses.dataclass(frozen=True)
class Effort:
    """``seconds`` for each way in each round; ``whole_batch``: also those that take a batch."""

    rounds: int
    seconds: float
    whole_batch: bool = False


QUICK = Effort(rounds=5, seconds=0.1)
FULL = Effort(rounds=7, seconds=0.15, whole_batch=True)


def _invert(out: Any, x: Any) -> None:
    source, target = x.reshape(-1), out.reshape(-1)
    for i in range(source.size):
        target[i] = 255 - source[i]


_invert_one = numba.njit(_invert)


def _invert_batch(outs: Any, xs: Any) -> None:
    for s in range(len(xs)):
        _invert_one(outs[s], xs[s])


def _subtract(x: Any) -> Any:
    return 255 - x


def _subtract_batch(xs: Any) -> Any:
    return [255 - x for x in xs]


def _numba_function(function: Any, whole_batch: bool) -> Way:
    made: Way = NumbaFunction(
        run_fn=function,
        in_types=[types.UINT8],
        out_types=[types.UINT8],
        ins_ndim=[3],
        outs_ndim=[3],
        batch_processing=whole_batch,
    )
    return made


def _python_function(function: Any, whole_batch: bool) -> Way:
    return lambda x: fn.python_function(x, function=function, batch_processing=whole_batch)


def _ways(whole_batch: bool) -> dict[str, Way]:
    ways: dict[str, Way] = {
        OURS[0]: opabi.c.compile(pipeline.SOURCE).invert,
        OURS[1]: kernels.invert,
        "DALI's own 255 - x": lambda x: types.Constant(255, types.UINT8) - x,
    }
    ways["numba_function"] = _numba_function(_invert, False)
    if whole_batch:
        ways["numba_function, whole batch"] = _numba_function(_invert_batch, True)
    ways["python_function"] = _python_function(_subtract, False)
    if whole_batch:
        ways["python_function, whole batch"] = _python_function(_subtract_batch, True)
    return ways


def jobs() -> list[Job]:
    """The demo's pictures, and one byte a sample."""

    @pipeline_def(batch_size=32, num_threads=THREADS, device_id=None, enable_conditionals=False)
    def pictures() -> Any:
        return pipeline.decoded()[0]

    decoding = pictures()
    decoding.build()
    images = decoding.run()[0]
    megabytes = sum(np.prod(shape) for shape in images.shape()) / 1e6
    small = backend.TensorListCPU(
        backend.TensorCPU(np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1)), ""
    )
    return [
        Job(f"32 pictures, {megabytes:.1f} MB", images),
        Job("256 samples of 1 byte", small),
    ]


def _chain(way: Way, length: int, job: Job) -> Any:
    # With a queue of one nothing of this pipeline goes on while another is timed.
    @pipeline_def(
        batch_size=len(job.batch),
        num_threads=THREADS,
        device_id=None,
        prefetch_queue_depth=1,
        enable_conditionals=False,
    )
    def define() -> Any:
        node = fn.external_source(source=lambda: job.batch, batch=True, no_copy=True)
        for _ in range(length):
            node = way(node)
        return node

    built = define()
    built.build()
    return built


def _check(name: str, output: Any, job: Job) -> None:
    for s in range(len(job.batch)):
        found, expected = np.array(output.at(s)), 255 - np.array(job.batch.at(s))
        if found.dtype != expected.dtype or not np.array_equal(found, expected):
            raise opabi.OpabiRuntimeError(
                f"{name}, {job.text}, sample {s}: expected 255 - x, found another result."
            )


def _timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(job: Job, ways: dict[str, Way], effort: Effort) -> dict[str, float]:
    """Microseconds a sample, for each way."""
    chains = {
        name: [_chain(way, length, job) for length in (1, 1 + EXTRA)] for name, way in ways.items()
    }
    for name, built in chains.items():
        for chain in built:
            _check(name, chain.run()[0], job)
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in chains}
    for _ in range(effort.rounds):
        for name, (short, long) in chains.items():
            end = time.perf_counter() + effort.seconds
            while time.perf_counter() < end:
                found[name][0].append(_timed(short.run))
                found[name][1].append(_timed(long.run))
    scale = 1e6 / EXTRA / len(job.batch)
    return {name: scale * (min(longs) - min(shorts)) for name, (shorts, longs) in found.items()}


def table(effort: Effort) -> Table:
    """All jobs and ways, measured now."""
    made = Table(
        title=f"255 - x on the CPU, {THREADS} threads: microseconds a sample",
        title_justify="left",
        title_style="bold",
    )
    made.add_column("")
    ways = _ways(effort.whole_batch)
    columns = []
    for job in jobs():
        made.add_column(job.text, justify="right")
        columns.append(measure(job, ways, effort))
    for name in ways:
        cells = [f"{times[name]:.2f}  {times[name] / times[OURS[0]]:6.1f}x" for times in columns]
        made.add_row(name, *cells, style="bold" if name in OURS else "")
    return made
