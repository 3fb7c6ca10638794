# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        ("raise", "KeyError", "no item 4"),
        ("dtype", "TypeError", "one type and rank"),
        ("rank", "TypeError", "one type and rank"),
        ("text", "TypeError", "builtins.str"),
        ("list", "TypeError", "builtins.list"),
        ("object", "TypeError", "dtype('O')"),
    ],
)
def test_stage_of_a_wrong_item_raises_at_its_batch_and_goes_on(
    child: Callable[..., None], fault: str, kind: str, text: str
) -> None:
    child("faults.py", "wrong_item", fault, kind, text)


@pytest.mark.parametrize("scenario", ["killed_worker", "batch_too_large", "wrong_arguments"])
def test_stage_of_a_fault_raises_and_does_not_hang(
    child: Callable[..., None], scenario: str
) -> None:
    child("faults.py", scenario)
