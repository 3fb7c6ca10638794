# SPDX-License-Identifier: Apache-2.0
"""Scenarios: what goes wrong is raised at its own batch, and nothing hangs."""

from __future__ import annotations

import builtins
import os
import signal
from typing import Any

import numpy as np
from common import Numbers, loader, main, proxy_of, raises, right, sum_and_difference
from opabi.proxy import stage
from torch.utils.data import DataLoader


class Faulty(Numbers):
    """Item 4 is the given fault."""

    fault = ""

    def __getitem__(self, i: int) -> Any:
        if i != 4:
            return super().__getitem__(i)
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "raise":
            raise KeyError("no item 4")
        given = {"dtype": np.zeros(1, np.float32), "rank": np.zeros((1, 1), np.int64)}
        given |= {"text": "text", "list": [1], "object": np.array([None])}
        return self.proxy(given[self.fault]), 4


def wrong_item(fault: str, kind: str, text: str) -> None:
    data = Faulty(proxy_of(), 12)
    data.fault = fault
    batches = iter(stage(DataLoader(data, 2, num_workers=2)))
    assert right(next(batches))
    assert right(next(batches))
    raises(getattr(builtins, kind), text, lambda: next(batches))
    rest = list(batches)
    assert len(rest) == 3
    assert all(right(batch) for batch in rest)


def killed_worker() -> None:
    data = Faulty(proxy_of(), 12)
    data.fault = "kill"
    batches = iter(stage(DataLoader(data, 2, num_workers=2)))
    raises(RuntimeError, "worker", lambda: list(batches))
    raises(RuntimeError, "worker died", lambda: next(batches))


def batch_too_large() -> None:
    batches = iter(stage(loader(proxy_of(), batch_size=5, n=10)))
    raises(ValueError, "at most 4", lambda: next(batches))


def wrong_arguments() -> None:
    proxy = proxy_of(sum_and_difference)
    one = np.zeros(1)
    raises(TypeError, "'b' is missing", lambda: proxy(one))
    raises(TypeError, "no input 'c'", lambda: proxy(a=one, c=one))
    raises(TypeError, "given twice", lambda: proxy(one, a=one))


if __name__ == "__main__":
    main(globals())
