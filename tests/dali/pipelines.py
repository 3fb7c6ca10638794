# SPDX-License-Identifier: Apache-2.0
"""Pipelines in a line: feed batches, run, give back arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from nvidia.dali import fn, pipeline_def

Batch = Sequence[Any]


def feed(*batches: Batch, layout: str | None = None) -> Any:
    """A node that gives these batches, one an iteration, over and over."""
    arrays = [[np.asarray(sample) for sample in batch] for batch in batches]
    return fn.external_source(source=lambda i: arrays[i % len(arrays)], layout=layout)


def build(define: Callable[[], Any], **options: Any) -> Any:
    options = {
        "batch_size": 8,
        "num_threads": 2,
        "device_id": None,
        "prefetch_queue_depth": 1,
        **options,
    }
    pipeline = pipeline_def(define)(**options)
    pipeline.build()
    return pipeline


def samples(output: Any) -> list[np.ndarray]:
    return [np.array(output.at(i)) for i in range(len(output))]


def run(define: Callable[[], Any], *, iterations: int = 1, **options: Any) -> Any:
    """Its last iteration: a list of arrays for each output; for one output the list itself."""
    pipeline = build(define, **options)
    for _ in range(iterations):
        outputs = pipeline.run()
    listed = [samples(output) for output in outputs]
    return listed[0] if len(listed) == 1 else listed


def same(found: Sequence[np.ndarray], expected: Sequence[Any]) -> bool:
    """Equal in number, dtype, shape and every bit."""
    wanted = [np.asarray(value) for value in expected]
    return len(found) == len(wanted) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(found, wanted, strict=True)
    )
