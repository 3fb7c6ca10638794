# SPDX-License-Identifier: Apache-2.0
"""Two devices in one process."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import opabi
import pytest
from opabi.adapters import cupy as adapter

if cupy.cuda.runtime.getDeviceCount() < 2:
    pytest.skip("one GPU only", allow_module_level=True)

SIGNATURE = "uint8[...] -> uint8[...]"


def test_eager_calls_follow_their_arrays_to_each_device(library: Any, rng: Any) -> None:
    elementwise = adapter.elementwise("out = 255 - in", SIGNATURE)
    for _ in range(3):
        for device in (0, 1):
            with cupy.cuda.Device(device):
                given = [cupy.asarray(rng.integers(0, 256, (n, 3), np.uint8)) for n in (5, 0, 3000)]
            # The current device is 0 here, whatever the arrays' is.
            for kernel in (library.invert, library.invert_tables, elementwise):
                found = kernel(given)
                assert all(a.device.id == device for a in found)
                with cupy.cuda.Device(device):
                    assert all(
                        np.array_equal(a.get(), 255 - b.get())
                        for a, b in zip(found, given, strict=True)
                    )


def test_arrays_of_two_devices_in_one_call_are_refused() -> None:
    add = adapter.elementwise("out = in0 + in1", "uint8[n], uint8[n] -> uint8[n]")
    x = cupy.zeros(4, np.uint8)
    with cupy.cuda.Device(1):
        y = cupy.zeros(4, np.uint8)
    with pytest.raises(opabi.OpabiTypeError, match=r"input 1: .*CUDA device 0, found one on 1"):
        add(x, y)


def test_pipelines_on_both_devices_are_exact(library: Any) -> None:
    pytest.importorskip("nvidia.dali")
    from nvidia.dali import fn, pipeline_def

    elementwise = adapter.elementwise("out = 255 - in", SIGNATURE)
    given = [np.random.default_rng(s).integers(0, 256, (s * 50, 7), np.uint8) for s in range(8)]

    def define() -> Any:
        x = fn.external_source(lambda: given).gpu()
        return library.scratch(x), elementwise(library.invert_tables(elementwise(x)))

    pipelines = [
        pipeline_def(define)(batch_size=8, num_threads=2, device_id=device) for device in (0, 1)
    ]
    for pipeline in pipelines:
        pipeline.build()
    for _ in range(5):
        for pipeline in pipelines:
            _, found = pipeline.run()
            host = found.as_cpu()
            assert all(np.array_equal(host.at(i), 255 - x) for i, x in enumerate(given))
