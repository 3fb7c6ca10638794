# SPDX-License-Identifier: Apache-2.0
"""What the scenarios share: pipelines, datasets, checks of what is left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import opabi.proxy
import pytest
from nvidia.dali import fn, pipeline_def
from torch.utils.data import DataLoader, Dataset, IterableDataset

CPU = {"num_threads": 2, "device_id": None}


@pipeline_def(batch_size=4, **CPU)
def double() -> Any:
    return fn.external_source(name="x") * 2


@pipeline_def(batch_size=4, **CPU)
def triple() -> Any:
    return fn.external_source(name="x") * 3


@pipeline_def(batch_size=4, **CPU)
def sum_and_difference() -> Any:
    a, b = fn.external_source(name="a"), fn.external_source(name="b")
    return a + b, a - b


class Numbers(Dataset):
    """Item i: the proxy's output for [start + i], and start + i."""

    def __init__(self, proxy: Any, n: int = 24, start: Any = 0, size: int = 1) -> None:
        self.proxy, self.n, self.start, self.size = proxy, n, start, size

    def __len__(self) -> int:
        return self.n

    def label(self, i: int) -> int:
        return int(getattr(self.start, "value", self.start)) + i

    def __getitem__(self, i: int) -> Any:
        return self.proxy(np.full(self.size, self.label(i), np.int64)), self.label(i)


class Stream(IterableDataset):
    def __init__(self, proxy: Any, n: int) -> None:
        self.proxy, self.n = proxy, n

    def __iter__(self) -> Any:
        for i in range(self.n):
            yield self.proxy(np.array([i])), i


def shared(value: int, context: str = "fork") -> Any:
    """A start that workers see change."""
    return multiprocessing.get_context(context).Value("q", value)


def loader(proxy: Any, *, workers: int = 2, n: int = 24, start: Any = 0, **options: Any) -> Any:
    size = options.pop("size", 1)
    options.setdefault("batch_size", 2)
    return DataLoader(Numbers(proxy, n, start, size), num_workers=workers, **options)


def right(batch: Any, factor: int = 2) -> bool:
    values, labels = batch
    return bool((values == factor * labels.reshape(-1, *[1] * (values.ndim - 1))).all())


def raises(kind: type[BaseException], text: str, call: Callable[[], Any]) -> BaseException:
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value), f"expected {text!r} in: {caught.value}"
    return caught.value


def resources() -> dict[str, int]:
    gc.collect()
    with open("/proc/self/status") as status:
        found = dict(line.split(":", 1) for line in status)
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": int(found["Threads"]),
        "kilobytes": int(found["VmRSS"].split()[0]),
        "shared": len(os.listdir("/dev/shm")),
        "children": len(multiprocessing.active_children()),
    }


def proxy_of(function: Any = double, **options: Any) -> Any:
    return opabi.proxy.pipeline(function, **options)


def until(condition: Callable[[], bool], seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.01)


def main(scenarios: dict[str, Any]) -> None:
    name, *args = sys.argv[1:]
    scenarios[name](*args)
