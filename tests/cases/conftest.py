# SPDX-License-Identifier: Apache-2.0
"""One way to run a kernel on a batch, for each of the two hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Run = Callable[..., Any]


def _eager(kernel: Any, *inputs: list[Any], **arguments: Any) -> Any:
    return kernel(*inputs, **arguments)


def _pipeline(kernel: Any, *inputs: list[Any], **arguments: Any) -> Any:
    dali = pytest.importorskip("nvidia.dali")

    def node(batch: list[Any]) -> Any:
        arrays = [np.asarray(sample) for sample in batch]
        return dali.fn.external_source(source=lambda: arrays)

    @dali.pipeline_def(batch_size=len(inputs[0]), num_threads=2, device_id=None)
    def pipe() -> Any:
        named = {k: node(v) if isinstance(v, list) else v for k, v in arguments.items()}
        return kernel(*map(node, inputs), **named)

    listed = [[np.array(o.at(i)) for i in range(len(o))] for o in pipe().run()]
    return listed[0] if len(listed) == 1 else tuple(listed)


@pytest.fixture(params=["eager", "pipeline"])
def run(request: pytest.FixtureRequest) -> Run:
    """``run(kernel, batch, ..., argument=value or list)``: lists of output arrays."""
    return {"eager": _eager, "pipeline": _pipeline}[request.param]
