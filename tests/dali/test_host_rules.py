# SPDX-License-Identifier: Apache-2.0
"""What the standard asks of a host, where it is the operator that could fail it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import opabi
import pytest
from nvidia.dali import pipeline_def
from pipelines import build, feed, run


def test_equal_calls_of_an_impure_kernel_are_neither_merged_nor_dropped(c_kernels: Any) -> None:
    """OPABI-H-022"""

    def define() -> Any:
        x = feed([np.zeros(2)] * 3)
        c_kernels.sink(x)
        c_kernels.sink(x)
        return x

    before = int(c_kernels.sunk())
    run(define, batch_size=3, iterations=2)
    assert int(c_kernels.sunk()) - before == 2 * 2 * 3


def test_seed_that_nobody_gives_differs_by_sample_and_repeats_with_the_pipelines_seed(
    c_kernels: Any,
) -> None:
    """OPABI-H-026"""

    def seeds(seed: int) -> list[int]:
        pipeline = build(lambda: c_kernels.seeded(feed([np.zeros(2)] * 4)), batch_size=4, seed=seed)
        batches = [pipeline.run()[0] for _ in range(2)]
        return [int(np.array(batch.at(s))) for batch in batches for s in range(4)]

    first = seeds(5)
    assert len(set(first)) == 8
    assert seeds(5) == first
    assert not set(seeds(6)) & set(first)


def test_checkpoint_of_a_kernel_with_state_it_cannot_save_is_refused(cc_kernels: Any) -> None:
    """OPABI-H-030"""

    def define() -> Any:
        return cc_kernels.counter(feed([np.zeros(2, np.int32)] * 3))

    with pytest.raises(RuntimeError, match=r"OPABI-H-030.*counter"):
        build(define, batch_size=3, enable_checkpointing=True).run()


def test_kernel_by_address_is_not_serialized(by_address: Callable[..., Any]) -> None:
    """OPABI-H-032"""
    kernel = by_address("any", "T[...] -> T[...]")

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def define() -> Any:
        return kernel(feed([np.zeros(2)] * 3))

    with pytest.raises(opabi.OpabiRuntimeError, match=r"opabi\.load"):
        define().serialize()
