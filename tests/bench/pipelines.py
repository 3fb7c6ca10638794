# SPDX-License-Identifier: Apache-2.0
"""What one operator costs in a pipeline, by the slope between a chain of several and one alone.

The difference leaves out what the pipeline itself costs: its threads, its input, its output.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import opabi
from measure import SCRATCH, Case, Group, Target, at_least, at_most, interleave, slope
from nvidia.dali import backend, fn, pipeline_def, plugin_manager, types
from nvidia.dali.plugin.numba.fn.experimental import numba_function
from opabi.dali import build

HERE = Path(__file__).parent
INLINE, TASKS = "C++ operator, inline loop", "C++ operator, task a sample"
C_KERNEL, C_SETUP, NUMBA_KERNEL = "opabi, C", "opabi, C with setup", "opabi, Numba"
PYTHON, CONSTANT = "python_function", "types.Constant(255, UINT8) - x"
SLOW = frozenset({"numba_function", "numba_function, batch", PYTHON, "python_function, batch"})
"""These are slow to build or to run: a chain of at most 9 will do."""
CHECKED = (INLINE, TASKS, C_KERNEL, C_SETUP, NUMBA_KERNEL, CONSTANT)
"""These give 255 - x, and are compared with it before they are measured."""


@dataclasses.dataclass(frozen=True)
class Work:
    """A batch, and how many operators the long chain has."""

    text: str
    shape: tuple[int, ...]
    batch: int
    chain: int
    budget: float


SMALL = Work("1 byte a sample", (1,), 256, 33, 0.05)
IMAGE = Work("512x512x3 uint8", (512, 512, 3), 32, 5, 0.3)


@functools.cache
def build_native() -> None:
    """Compiles and loads the C++ operators: as opabi's own plugin, with -O3 as the C kernels."""
    dali, root = build.find_dali(), build.native_root()
    target = SCRATCH / "native.so"
    command = [str(build.find_compiler()), *build.FLAGS, "-O3", "-w", *build.LINK_FLAGS]
    stub, headers = root / "src" / "dali" / "stub", dali.include
    command += ["-isystem", str(stub), "-isystem", str(headers), str(HERE / "native.cc")]
    command += [f"-L{dali.root}", "-ldali", "-ldali_core", "-o", str(target)]
    subprocess.run(command, check=True)
    plugin_manager.load_library(str(target))


def _invert(out: Any, x: Any) -> None:
    a, o = x.reshape(-1), out.reshape(-1)
    for i in range(a.size):
        o[i] = 255 - a[i]


def _invert_batch(outs: Any, xs: Any) -> None:
    for s in range(len(xs)):
        a, o = xs[s].reshape(-1), outs[s].reshape(-1)
        for i in range(a.size):
            o[i] = 255 - a[i]


@opabi.numba.kernel("uint8[...] -> uint8[...]", pure=True)
def numba_invert(x: Any, out: Any) -> None:
    a, o = x.reshape(-1), out.reshape(-1)
    for i in range(a.size):
        o[i] = 255 - a[i]


def _python_invert(x: Any) -> Any:
    return 255 - x


def _python_invert_batch(xs: Any) -> Any:
    return [255 - x for x in xs]


def operators(ndim: int) -> dict[str, Callable[[Any], Any]]:
    """What each peer puts behind a node of rank ``ndim``."""
    library = opabi.c.compile(HERE / "kernels.c")
    kinds = {
        "in_types": [types.UINT8],
        "out_types": [types.UINT8],
        "ins_ndim": [ndim],
        "outs_ndim": [ndim],
    }
    turn = iter(range(1_000_000))

    def cast(x: Any) -> Any:
        return fn.cast(x, dtype=(types.INT8, types.UINT8)[next(turn) % 2])

    return {
        INLINE: fn.bench_invert_inline,
        TASKS: fn.bench_invert_tasks,
        C_KERNEL: library.invert,
        C_SETUP: library.invert_vector if ndim == 1 else library.invert_by_setup,
        "opabi, C with setup, any rank": library.invert_by_setup,
        NUMBA_KERNEL: numba_invert,
        "numba_function": lambda x: numba_function(
            x, run_fn=_invert, batch_processing=False, **kinds
        ),
        "numba_function, batch": lambda x: numba_function(
            x, run_fn=_invert_batch, batch_processing=True, **kinds
        ),
        PYTHON: lambda x: fn.python_function(x, function=_python_invert),
        "python_function, batch": lambda x: fn.python_function(
            x, function=_python_invert_batch, batch_processing=True
        ),
        "fn.cast": cast,
        "fn.copy": fn.copy,
        CONSTANT: lambda x: types.Constant(255, types.UINT8) - x,
    }


def chain(operator: Callable[[Any], Any], length: int, batch: Any, work: Work, threads: int) -> Any:
    # With a queue of one, nothing of this pipeline runs while another is timed.
    @pipeline_def(
        batch_size=work.batch,
        num_threads=threads,
        device_id=None,
        prefetch_queue_depth=1,
        enable_conditionals=False,
    )
    def define() -> Any:
        node = fn.external_source(source=lambda: batch, batch=True, no_copy=True)
        for _ in range(length):
            node = operator(node)
        return node

    pipeline = define()
    pipeline.build()
    return pipeline


def measure(section: str, work: Work, repeats: int) -> Iterator[Group]:
    keep_freed_memory()
    build_native()
    arrays = [
        np.random.default_rng(s).integers(0, 256, work.shape, np.uint8) for s in range(work.batch)
    ]
    batch = backend.TensorListCPU(backend.TensorCPU(np.stack(arrays)), "")
    for threads in (1, 2):
        cases = []
        for name, operator in operators(len(work.shape)).items():
            length = min(work.chain, 9) if name in SLOW else work.chain
            short, long = (chain(operator, n, batch, work, threads) for n in (1, length))
            check(name, short.run()[0], arrays)
            long.run()

            def run(short: Any = short, long: Any = long, more: int = length - 1) -> float:
                return 1e6 * slope(short.run, long.run, more, work.budget)

            cases.append(Case(name, run))
        yield interleave(
            section,
            f"{work.text}, batch {work.batch}, num_threads={threads}",
            "us a batch",
            cases,
            repeats,
        )


def check(name: str, output: Any, arrays: list[np.ndarray]) -> None:
    if name in CHECKED and not all(
        np.array_equal(output.at(s), 255 - x) for s, x in enumerate(arrays)
    ):
        raise RuntimeError(f"{name} does not give 255 - x")


def keep_freed_memory() -> None:
    """Makes malloc keep what is freed, in one place for all threads.

    DALI allocates the outputs of each run anew. Whether malloc has the pages still or must get them
    from the system, at four times the price of the work, depends on what lies beside them.
    """
    trim_threshold, mmap_threshold, arena_max = -1, -3, -8
    options = {trim_threshold: 2**31 - 1, mmap_threshold: 2**30, arena_max: 1}
    if not all(ctypes.CDLL(None).mallopt(*option) for option in options.items()):
        raise RuntimeError("mallopt is refused")


def small(repeats: int) -> Iterator[Group]:
    yield from measure("pipeline", SMALL, repeats)


def image(repeats: int) -> Iterator[Group]:
    yield from measure("image", IMAGE, repeats)


def small_targets(group: Group) -> list[Target]:
    return [
        at_most(group, C_KERNEL, INLINE, 1.3),
        at_most(group, C_SETUP, INLINE, 1.6),
        at_least(group, TASKS, C_KERNEL, 4),
        at_least(group, PYTHON, C_KERNEL, 100),
    ]


def image_targets(group: Group) -> list[Target]:
    return [
        at_most(group, C_KERNEL, INLINE if group.setting.endswith("=1") else TASKS, 1.1),
        at_most(group, C_KERNEL, CONSTANT, 1.0),
    ]
