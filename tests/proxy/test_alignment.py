# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest

SCENARIOS = [
    "train_and_validate",
    "without_loader_then_with",
    "two_views_two_pipelines",
    "one_item_at_a_time",
    "samples_kept_apart",
    "collate_that_drops",
    "iterable_dataset",
    "pinned",
    "ragged",
    "padded",
    "several_iterators",
    "two_threads_one_iterator",
    "same_for_any_number_of_workers",
    "built_pipeline_and_old_executor",
]


@pytest.mark.parametrize("thread", ["", "1"])
@pytest.mark.parametrize("persistent", [0, 1])
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_stage_left_early_gives_no_batch_of_the_old_epoch(
    child: Callable[..., None], context: str, persistent: int, thread: str
) -> None:
    child("alignment.py", "early_leave", context, persistent, thread)


@pytest.mark.parametrize(
    ("context", "number", "thread"),
    [("fork", 0, 0), ("fork", 1, 0), ("fork", 3, 1), ("spawn", 2, 0), ("forkserver", 2, 1)],
)
def test_stage_over_any_workers_gives_right_batches_in_order(
    child: Callable[..., None], context: str, number: int, thread: int
) -> None:
    child("alignment.py", "workers", context, number, thread)


@pytest.mark.parametrize("size", [6000, 300_000])
@pytest.mark.parametrize("thread", [0, 1])
def test_stage_of_large_samples_gives_right_values(
    child: Callable[..., None], size: int, thread: int
) -> None:
    child("alignment.py", "large", size, thread)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_stage_used_in_unusual_ways_gives_right_batches(
    child: Callable[..., None], scenario: str
) -> None:
    child("alignment.py", scenario)


def test_stage_over_threads_gives_right_batches(child: Callable[..., None]) -> None:
    pytest.importorskip("torchdata.nodes")
    child("alignment.py", "threads_as_callers")
