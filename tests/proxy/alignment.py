# SPDX-License-Identifier: Apache-2.0
"""Scenarios: every batch has its own results, however the loader is used."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import numpy as np
import torch
from common import Numbers, Stream, double, loader, main, proxy_of, right, shared, triple
from opabi.proxy import stage
from torch.utils.data import DataLoader, Dataset


def early_leave(context: str, persistent: str, thread: str = "") -> None:
    start = shared(1000, context)
    options: dict[str, Any] = {"multiprocessing_context": context}
    batches = stage(
        loader(proxy_of(), start=start, persistent_workers=bool(int(persistent)), **options),
        thread=bool(thread),
    )
    for k, batch in enumerate(batches):
        assert right(batch)
        if k == 1:
            break
    start.value = 2000
    if int(persistent):  # two batches a worker were under way when the value changed
        list(batches)
    second = list(batches)
    assert len(second) == 12
    assert all(right(batch) for batch in second)
    assert [int(y) for _, labels in second for y in labels] == list(range(2000, 2024))


def workers(context: str, number: str, thread: str) -> None:
    options = {} if number == "0" else {"multiprocessing_context": context}
    batches = stage(
        loader(proxy_of(), workers=int(number), n=9, **options), thread=bool(int(thread))
    )
    for _ in range(2):
        found = list(batches)
        assert [labels.tolist() for _, labels in found] == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]
        assert all(right(batch) for batch in found)
    assert len(batches) == 5


def train_and_validate() -> None:
    """Two loaders over one pipeline, in turn."""
    proxy = proxy_of()
    train, validate = stage(loader(proxy)), stage(loader(proxy, start=1000))
    for a, b in zip(train, validate, strict=True):
        assert right(a)
        assert right(b)
        assert int(b[1][0]) == int(a[1][0]) + 1000


def without_loader_then_with() -> None:
    proxy = proxy_of()
    items = [Numbers(proxy)[i] for i in range(4)]
    (batch,) = stage([torch.utils.data.default_collate(items)])
    assert right(batch)
    assert all(right(batch) for batch in stage(loader(proxy)))


class Views(Dataset):
    """Two calls of one proxy and one of another; a peek, a retry and a buffer that is used
    again.
    """

    def __init__(self, proxy: Any, other: Any) -> None:
        self.proxy, self.other = proxy, other
        self.buffer = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Any:
        self.proxy(np.array([999]))
        self.buffer[:] = i
        first = self.proxy(self.buffer)
        self.buffer[:] = i + 100
        return {"a": first, "b": self.proxy(self.buffer), "c": self.other(self.buffer), "i": i}


def two_views_two_pipelines() -> None:
    data = Views(proxy_of(), proxy_of(triple))
    assert data[0] is not None
    for batch in stage(DataLoader(data, 2, num_workers=2)):
        i = batch["i"].reshape(-1, 1)
        assert (batch["a"] == 2 * i).all()
        assert (batch["b"] == 2 * (i + 100)).all()
        assert (batch["c"] == 3 * (i + 100)).all()


def one_item_at_a_time() -> None:
    found = list(stage(loader(proxy_of(), batch_size=None, n=6)))
    assert [int(x) for x, _ in found] == [0, 2, 4, 6, 8, 10]


def detection_collate(items: list[Any]) -> Any:
    return tuple(zip(*items, strict=True))


def samples_kept_apart() -> None:
    """More loose calls in a batch than the pipeline takes at once."""
    batches = stage(loader(proxy_of(), batch_size=6, n=12, collate_fn=detection_collate))
    assert [[int(x) for x in xs] for xs, _ in batches] == [
        [2 * i for i in range(6)],
        [2 * i for i in range(6, 12)],
    ]


def dropped_samples(items: list[Any]) -> Any:
    return torch.utils.data.default_collate([item for item in items if item[1] % 2])


def collate_that_drops() -> None:
    found = list(stage(loader(proxy_of(), batch_size=4, n=8, collate_fn=dropped_samples)))
    assert [y.tolist() for _, y in found] == [[1, 3], [5, 7]]
    assert all(right(batch) for batch in found)


def iterable_dataset() -> None:
    batches = stage(DataLoader(Stream(proxy_of(), 5), 2, num_workers=2))
    found = list(batches)
    assert len(found) == 6
    assert all(right(batch) for batch in found)


def pinned() -> None:
    assert all(right(batch) for batch in stage(loader(proxy_of(), pin_memory=True)))


def large(size: str, thread: str) -> None:
    """Through shared memory; ragged; every byte looked at after the memory was used again."""
    options = {"size": int(size), "n": 32}
    found = list(stage(loader(proxy_of(), **options), thread=bool(int(thread))))
    assert all(right(batch) for batch in found)
    assert all(right(batch) for batch in found)


class Blobs(Dataset):
    def __init__(self, proxy: Any) -> None:
        self.proxy = proxy

    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> Any:
        return self.proxy(np.full(1000 + 7919 * i, i, np.int64)), i


def ragged() -> None:
    batches = stage(DataLoader(Blobs(proxy_of()), 3, num_workers=2))
    for epoch in range(3):
        for k, (values, labels) in enumerate(batches):
            for value, i in zip(values, labels.tolist(), strict=True):
                assert value.shape == (1000 + 7919 * i,)
                assert (value == 2 * i).all()
            if epoch == 1 and k == 3:
                break


def padded() -> None:
    batches = stage(DataLoader(Blobs(proxy_of(ragged="pad")), 3, num_workers=1))
    values, _ = next(iter(batches))
    assert values.shape == (3, 1000 + 7919 * 2)
    assert (values[0, :1000] == 0).all()
    assert (values[1, :8919] == 2).all()
    assert (values[1, 8919:] == 0).all()


def several_iterators() -> None:
    batches = stage(loader(proxy_of(), workers=1))
    for a, b in itertools.islice(zip(batches, batches, strict=True), 5):
        assert right(a)
        assert right(b)


def slow(x: Any) -> Any:
    time.sleep(0.5)
    return x


def two_threads_one_iterator() -> None:
    batches = iter(stage(slow(x) for x in [1, 2, 3]))
    failures: list[BaseException] = []

    def take() -> None:
        try:
            next(batches)
        except RuntimeError as error:
            failures.append(error)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 1
    assert "one thread" in str(failures[0])


def threads_as_callers() -> None:
    from torchdata.nodes import Batcher as Batches
    from torchdata.nodes import IterableWrapper, Loader, ParallelMapper

    proxy = proxy_of()
    items = ParallelMapper(
        IterableWrapper(range(24)),
        lambda i: (proxy(np.array([i])), i),
        num_workers=4,
        method="thread",
    )
    batched = ParallelMapper(Batches(items, 4), torch.utils.data.default_collate, num_workers=0)
    found = list(stage(Loader(batched)))
    assert len(found) == 6
    assert all(right(batch) for batch in found)


class Jittery(Numbers):
    def __getitem__(self, i: int) -> Any:
        time.sleep(np.random.default_rng().uniform(0, 0.02))
        return super().__getitem__(i)


def same_for_any_number_of_workers() -> None:
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=5)
    def noisy() -> Any:
        return fn.external_source(name="x") + fn.random.uniform(range=(0, 100))

    runs = []
    for number in (0, 1, 3):
        torch.manual_seed(3)
        made = DataLoader(Jittery(proxy_of(noisy)), 2, shuffle=True, num_workers=number)
        runs.append(torch.cat([x for x, _ in stage(made)]))
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[0], runs[2])


def built_pipeline_and_old_executor() -> None:
    pipe = double(exec_dynamic=False)
    pipe.build()
    found = list(stage(loader(proxy_of(pipe))))
    assert all(right(batch) for batch in found)
    plain = double(exec_async=False, exec_pipelined=True)
    assert all(right(batch) for batch in stage(loader(proxy_of(plain))))


if __name__ == "__main__":
    main(globals())
