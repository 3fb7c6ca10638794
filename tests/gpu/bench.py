# SPDX-License-Identifier: Apache-2.0
"""Eager calls are timed by CUDA events over 16 calls on four sets of buffers, pipelines by the
difference of a chain of 33 operators and one of 9, divided by 24; medians. "By value": the batch's
table goes in the launch's parameters. "Staged": copied to the device before each launch."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import opabi
from nvidia.dali import fn, pipeline_def, types
from opabi.adapters import cupy as adapter

BATCH = 64
LONG, SHORT, REPEATS, ITERATIONS = 33, 9, 7, 40
EAGER_CALLS = 16


def ragged_shapes() -> list[tuple[int, int, int]]:
    rng = np.random.default_rng(3)
    return [(int(h), int(w), 3) for h, w in rng.integers(300, 701, (BATCH, 2))]


UNIFORM = [(512, 512, 3)] * BATCH
RAGGED = ragged_shapes()
TINY = [(1, 1, 3)] * BATCH


def packed(shapes: list[tuple[int, ...]]) -> list[Any]:
    sizes = [int(np.prod(shape)) for shape in shapes]
    buffer = cupy.random.randint(0, 256, sum(sizes)).astype(np.uint8)
    ends = np.cumsum(sizes)
    return [buffer[e - n : e].reshape(s) for e, n, s in zip(ends, sizes, shapes, strict=True)]


def device_us(call: Callable[[int], Any]) -> float:
    """Microseconds of the device for one call, of calls that follow each other without a gap."""
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    found = []
    for i in range(6):
        spin(40_000_000)  # the host enqueues meanwhile
        start.record()
        for k in range(EAGER_CALLS):
            call(k)
        end.record()
        end.synchronize()
        if i:
            found.append(cupy.cuda.get_elapsed_time(start, end) * 1000 / EAGER_CALLS)
    return statistics.median(found)


_spin = cupy.RawKernel(
    'extern "C" __global__ void spin(long long n) {'
    " long long t = clock64(); while (clock64() - t < n) {} }",
    "spin",
)


def spin(cycles: int) -> None:
    _spin((1,), (1,), (np.int64(cycles),))


def eager(shapes: list[tuple[int, ...]], kernels: dict[str, Any]) -> dict[str, float]:
    """Over four sets of inputs and outputs, so that no cache holds them."""
    sets = [(packed(shapes), packed(shapes)) for _ in range(4)]
    flat = [
        (cupy.concatenate([a.ravel() for a in x]), cupy.concatenate([a.ravel() for a in y]))
        for x, y in sets
    ]
    times = {"device copy": device_us(lambda k: cupy.copyto(flat[k % 4][1], flat[k % 4][0]))}
    for name, kernel in kernels.items():
        times[name] = device_us(lambda k, kernel=kernel: kernel(sets[k % 4][0], out=sets[k % 4][1]))
        for x, y in sets:
            assert all(np.array_equal(b.get(), 255 - a.get()) for a, b in zip(x, y, strict=True)), (
                name
            )
    return times


def host_us(kernel: Any, shapes: list[tuple[int, ...]]) -> float:
    """Microseconds of the host for one eager call."""
    x, y = packed(shapes), packed(shapes)
    found = []
    for _ in range(6):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for _ in range(EAGER_CALLS):
            kernel(x, out=y)
        found.append((time.perf_counter() - start) * 1e6 / EAGER_CALLS)
    return statistics.median(found[1:])


def _pipeline(shapes: list[tuple[int, ...]], step: Callable[[Any], Any], length: int) -> Any:
    """A chain behind the cheapest source there is, so that the chain is what takes the time."""
    extents = np.array(shapes, np.int32)

    @pipeline_def(batch_size=BATCH, num_threads=8, device_id=0)  # type: ignore[untyped-decorator]
    def define() -> Any:
        shape = fn.external_source(lambda: extents)
        x = fn.random.uniform(range=[0, 255], shape=shape, dtype=types.UINT8, device="gpu")
        for _ in range(length):
            x = step(x)
        return x

    pipeline = define()
    pipeline.build()
    return pipeline


def _time(pipeline: Any) -> float:
    found = []
    for i in range(REPEATS + 2):  # the first two fill DALI's pools
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for _ in range(ITERATIONS):
            pipeline.run()
        cupy.cuda.Device().synchronize()
        if i > 1:
            found.append((time.perf_counter() - start) * 1e6 / ITERATIONS)
    return statistics.median(found)


def chain_us(
    shapes: list[tuple[int, ...]],
    step: Callable[[Any], Any],
    lengths: tuple[int, int] = (LONG, SHORT),
) -> float:
    """What one operator adds to a pipeline's iteration, in microseconds."""
    times = [_time(_pipeline(shapes, step, length)) for length in lengths]
    return (times[0] - times[1]) / (lengths[0] - lengths[1])


def check(step: Callable[[Any], Any], shapes: list[tuple[int, ...]]) -> None:
    """255 - x for every sample, as uint8."""
    given = packed(shapes)

    @pipeline_def(batch_size=BATCH, num_threads=8, device_id=0)  # type: ignore[untyped-decorator]
    def define() -> Any:
        return step(fn.external_source(lambda: given, device="gpu"))

    pipeline = define()
    pipeline.build()
    (output,) = pipeline.run()
    assert output.dtype == types.UINT8
    host = output.as_cpu()
    assert all(np.array_equal(host.at(i), 255 - x.get()) for i, x in enumerate(given))


def empty_operator() -> Callable[[Any], Any]:
    """The least that an operator of DALI can do: empty_operator.cc."""
    from nvidia.dali import plugin_manager
    from opabi.dali import build

    dali = build.find_dali()
    source = Path(__file__).parent / "empty_operator.cc"
    target = Path(tempfile.mkdtemp()) / "libempty_operator.so"
    stub = build.native_root() / "src" / "dali" / "stub"
    command = [str(build.find_compiler()), *build.FLAGS, "-shared", "-isystem", str(stub)]
    command += ["-isystem", str(dali.include), str(source), f"-L{dali.root}", "-ldali"]
    subprocess.run([*command, "-o", str(target)], check=True)
    plugin_manager.load_library(str(target))
    return lambda x: fn.opabi_bench.empty(x)


def peers() -> dict[str, tuple[Callable[[Any], Any], tuple[int, int]]]:
    """What DALI has for 255 - x, and how long its chains are."""
    raw = cupy.RawKernel(
        'extern "C" __global__ void invert(const unsigned char *x, unsigned char *y, int n) {'
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 255 - x[i]; }",
        "invert",
    )

    def one(x: Any) -> Any:
        y = cupy.empty_like(x)
        raw(((x.size + 255) // 256,), (256,), (x, y, np.int32(x.size)))
        return y

    def many(batch: Any) -> Any:
        return [one(x) for x in batch]

    def python_function(x: Any, function: Any, batch: bool) -> Any:
        return fn.python_function(x, function=function, device="gpu", batch_processing=batch)

    return {
        "types.Constant(255, types.UINT8) - x": (
            lambda x: types.Constant(255, types.UINT8) - x,
            (LONG, SHORT),
        ),
        "python_function, the same RawKernel a sample at a time": (
            lambda x: python_function(x, one, False),
            (3, 1),
        ),
        "python_function, batch_processing": (lambda x: python_function(x, many, True), (3, 1)),
    }


def table(title: str, times: dict[str, float], base: str) -> str:
    rows = [f"| {name} | {us:.1f} | {us / times[base]:.2f} |" for name, us in times.items()]
    return "\n".join(
        [f"### {title}", "", f"| what | us | times {base} |", "|---|---|---|", *rows, ""]
    )


def measure(library: Any) -> str:
    invert = adapter.elementwise("out = 255 - in", "uint8[...] -> uint8[...]")
    raw = adapter.source(
        '#include <opabi/opabi.cuh>\nextern "C" __global__ void invert(OPABI_BATCH(b)) {'
        " opabi::transform<unsigned char, unsigned char>("
        "b, [](unsigned char x) { return 255 - x; }); }",
        "uint8[...] -> uint8[...]",
        "invert",
        adapter.Launch(block=256, per_block=256 * 64, by_total=True),
    )
    kernels = {
        "CuPy, by value": invert,
        "CuPy, by value, grid by total": raw,
        "nvcc, by value": library.invert,
        "nvcc, staged device tables": library.invert_tables,
    }
    parts = []
    for title, shapes in (
        ("64 x 512x512x3 uint8", UNIFORM),
        ("64 ragged samples, 300 to 700 a side", RAGGED),
    ):
        times = eager(shapes, kernels)
        parts.append(table(f"Eager calls, {title}, device time", times, "device copy"))
        chains = {"device copy": times["device copy"]}
        for name, kernel in kernels.items():
            check(kernel, shapes)
            chains[name] = chain_us(shapes, kernel)
        for name, (step, lengths) in peers().items():
            check(step, shapes)
            chains[name] = chain_us(shapes, step, lengths)
        parts.append(
            table(f"In a pipeline, {title}, what one operator adds", chains, "device copy")
        )
        print(parts[-2], parts[-1], flush=True)
    empty = "an empty operator in C++"
    host = {empty: chain_us(TINY, empty_operator())}
    for name, kernel in {"a kernel that enqueues nothing": library.nothing, **kernels}.items():
        host[name] = chain_us(TINY, kernel)
    parts.append(table("In a pipeline, 64 samples of 3 bytes: the host's time", host, empty))
    calls = {name: host_us(kernel, TINY) for name, kernel in kernels.items()}
    parts.append(
        table("Eager calls on 64 samples of 3 bytes: the host's time", calls, "CuPy, by value")
    )
    print(parts[-2], parts[-1], flush=True)
    return "\n".join(parts)


if __name__ == "__main__":
    print(measure(opabi.cuda.compile(Path(__file__).parent / "kernels.cu")))
