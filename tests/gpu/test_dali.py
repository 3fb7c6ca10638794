# SPDX-License-Identifier: Apache-2.0
"""The operator on the GPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np
import opabi
import pytest
from opabi.adapters import cupy as adapter

pytest.importorskip("nvidia.dali")
from nvidia.dali import fn, pipeline_def, types

MIXED = [
    (333, 517, 3),
    (1, 1, 3),
    (0, 4, 3),
    (700, 300, 3),
    (16, 16, 1),
    (5, 0, 3),
    (2, 3, 3),
    (64, 64, 3),
]


def build(define: Any, **options: Any) -> Any:
    options = {"batch_size": 8, "num_threads": 4, "device_id": 0, **options}
    pipeline = pipeline_def(define)(**options)
    pipeline.build()
    return pipeline


def invert() -> Any:
    return adapter.elementwise("out = 255 - in", "uint8[...] -> uint8[...]")


def samples(output: Any) -> list[np.ndarray]:
    host = output.as_cpu()
    return [np.array(host.at(i)) for i in range(len(host))]


def flip(x: Any, out: Any) -> None:
    out[...] = x ^ 1


class Source:
    """Fresh samples for each iteration, in MIXED's shapes."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.given: list[list[np.ndarray]] = []

    def __call__(self) -> list[np.ndarray]:
        batch = [self.rng.integers(0, 256, shape, np.uint8) for shape in MIXED]
        self.given.append(batch)
        return batch


def check(pipeline: Any, source: Source, iterations: int, expected: Any) -> None:
    for i in range(iterations):
        (output,) = pipeline.run()
        for found, given in zip(samples(output), source.given[i], strict=True):
            assert found.dtype == np.uint8
            assert np.array_equal(found, expected(given))


@pytest.mark.parametrize("dynamic", [False, True])
def test_mixed_sizes_behind_slow_work_are_exact(library: Any, dynamic: bool) -> None:
    source = Source()
    kernels = [library.invert, library.invert_tables, invert()]

    def define() -> Any:
        x = fn.external_source(source, layout="HWC").gpu()
        for _ in range(20):  # the device falls behind the host
            x = fn.gaussian_blur(x, window_size=1)
        for kernel in kernels:
            x = kernel(x)
        return x

    check(build(define, exec_dynamic=dynamic), source, 20, lambda x: 255 - x)


def test_cpu_to_gpu_to_cpu_is_exact(library: Any) -> None:
    source = Source()
    on_cpu = opabi.python.kernel("uint8[...] -> uint8[...]")(flip)

    def define() -> Any:
        x = fn.external_source(source, layout="HWC").gpu()
        return on_cpu(library.invert(x).cpu())

    check(build(define, exec_dynamic=True), source, 10, lambda x: (255 - x) ^ 1)


def test_layout_arguments_and_cpu_inputs_arrive() -> None:
    kernel = adapter.elementwise(
        "y = a + b * gain",
        "a: uint8[...], b: uint8[...] -> y: uint8[...]",
        arguments=[opabi.Argument("gain", "int32", 0)],
    )
    source = Source()

    def define() -> Any:
        x = fn.external_source(source, layout="HWC")
        gain = fn.random.uniform(values=[1, 2, 3], dtype=types.INT32)
        return kernel(x.gpu(), x, gain=gain), gain

    pipeline = build(define)
    for i in range(10):
        found, gains = pipeline.run()
        assert found.layout() == "HWC"
        for y, x, gain in zip(samples(found), source.given[i], samples(gains), strict=True):
            assert np.array_equal(y, (x + x * gain).astype(np.uint8))


def test_scratch_in_several_pipelines_at_once_is_exact(library: Any) -> None:
    def one(seed: int) -> None:
        source = Source(seed)

        def define() -> Any:
            return library.invert(library.scratch(library.invert(fn.external_source(source).gpu())))

        pipeline = build(define)
        for i in range(15):
            (output,) = pipeline.run()
            for s, (found, given) in enumerate(zip(samples(output), source.given[i], strict=True)):
                expected = given.copy()
                if s == 0:
                    expected.flat[0] = 255 - 42
                assert np.array_equal(found, expected)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(4)))


def test_pair_runs_where_the_data_is(library: Any) -> None:
    on_cpu = opabi.python.kernel("uint8[...] -> uint8[...]")(flip)
    pair = opabi.Pair(cpu=on_cpu, cuda=library.invert)
    source = Source()

    def define() -> Any:
        x = fn.external_source(source)
        return pair(x), pair(x.gpu())

    cpu, gpu = build(define).run()
    assert all(
        np.array_equal(a.at(i), x ^ 1) for a in (cpu,) for i, x in enumerate(source.given[0])
    )
    assert all(
        np.array_equal(a, 255 - x) for a, x in zip(samples(gpu), source.given[0], strict=True)
    )
    x = np.arange(5, dtype=np.uint8)
    assert np.array_equal(pair(x), x ^ 1)
    assert np.array_equal(pair(cupy.asarray(x)).get(), 255 - x)


def test_node_on_the_other_device_is_refused_when_defined(library: Any) -> None:
    def on_gpu() -> Any:
        return library.invert(fn.external_source(Source()))

    with pytest.raises(opabi.OpabiTypeError, match="expected a node on the GPU"):
        build(on_gpu)
    on_cpu = opabi.python.kernel("uint8[...] -> uint8[...]")(flip)

    def wrong() -> Any:
        return on_cpu(fn.external_source(Source()).gpu())

    with pytest.raises(opabi.OpabiTypeError, match=r"'flip'.*expected a node on the CPU"):
        build(wrong)


def test_launch_failure_in_a_pipeline_names_kernel_and_cause(library: Any) -> None:
    pipeline = build(lambda: library.too_many(fn.external_source(Source()).gpu()))
    with pytest.raises(RuntimeError, match=r"too_many.*invalid"):
        pipeline.run()


def test_empty_batch_runs(library: Any) -> None:
    def define() -> Any:
        return library.invert(
            fn.external_source(lambda: [], batch=True, dtype=types.UINT8, ndim=3).gpu()
        )

    (output,) = build(define, exec_dynamic=True).run()
    assert len(output) == 0
