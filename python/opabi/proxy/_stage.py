"""The stage: an iterable of batches with the results in them."""

from __future__ import annotations

import atexit
import collections
import contextlib
import gc
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from opabi.errors import OpabiRuntimeError, OpabiTypeError, OpabiValueError
from opabi.proxy import _memory
from opabi.proxy._plan import Plan
from opabi.proxy._proxy import engine_named
from opabi.proxy._pump import Pump

_DEAD = ("exited unexpectedly", "is killed by signal")
"""What torch says when a worker died. Asked for another batch, it would wait for ever."""


def stage(
    loader: Iterable[Any], *, lookahead: int = 2, thread: bool = False, namespace: str = ""
) -> Stage:
    """A view of ``loader`` whose batches have results where the loader's have outputs of proxies.

    ``loader`` is any iterable of batches: a DataLoader of torch, a StatefulDataLoader, a node of
    torchdata, a list.
    ``lookahead``: batches taken from it and started before they are asked for. ``thread``: do so in
    a thread, while the loop's body runs. ``namespace``: of optree, for containers registered there.
    """
    if lookahead < 0:
        raise OpabiValueError(f"lookahead: expected 0 or more, found {lookahead}.")
    if not isinstance(loader, Iterable):
        raise OpabiTypeError(f"expected an iterable of batches, found {type(loader).__qualname__}.")
    return Stage(loader, lookahead, thread, namespace)


class Stage:
    """Made by :func:`stage`. Iterate it as often as the loader; every iterator is one epoch."""

    def __init__(self, loader: Iterable[Any], lookahead: int, thread: bool, namespace: str) -> None:
        self.loader = loader
        self._lookahead = lookahead
        self._thread = thread
        self._namespace = namespace
        self._state: dict[str, Any] | None = None
        self._iterators: weakref.WeakSet[StageIterator] = weakref.WeakSet()

    def __iter__(self) -> StageIterator:
        made = StageIterator(
            self, _Puller(self.loader, self._lookahead, self._namespace), self._thread
        )
        self._iterators.add(made)
        return made

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Any]:
        """The state after the batch that was given out last: of the loader and of each pipeline.

        The loader must have ``state_dict``; pipelines keep theirs if built with
        enable_checkpointing=True.
        """
        if self._state is None:
            loader = self._stateful("state_dict").state_dict()
            return {"loader": loader, "pipelines": {}}
        if self._state["loader"] is None:
            self._stateful("state_dict")
        return self._state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after the batch that ``state`` was taken at, with the next iterator."""
        self.close()
        self._stateful("load_state_dict").load_state_dict(state["loader"])
        for name, checkpoint in state["pipelines"].items():
            engine_named(name).restore(checkpoint)
        self._state = state

    def close(self) -> None:
        """End all iterators. A loop that is left, or a stage that is deleted, needs no call of
        this."""
        for iterator in list(self._iterators):
            iterator.close()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _stateful(self, method: str) -> Any:
        if not hasattr(self.loader, method):
            raise OpabiTypeError(
                f"{type(self.loader).__qualname__} has no {method}(). Use torchdata's "
                f"StatefulDataLoader."
            )
        return self.loader


class StageIterator:
    """One epoch, for one thread."""

    def __init__(self, stage: Stage, puller: _Puller, thread: bool) -> None:
        self._stage = stage
        self._source: Any = Pump(puller) if thread else puller
        self._busy = threading.Lock()
        _open.add(self)

    def __iter__(self) -> StageIterator:
        return self

    def __next__(self) -> Any:
        if not self._busy.acquire(blocking=False):
            raise OpabiRuntimeError(
                "a stage's iterator serves one thread; another is in its next()."
            )
        try:
            batch, self._stage._state = self._source.next()
            return batch
        except StopIteration:
            self.close()
            raise
        except Exception:
            raise
        except BaseException:
            self.close()  # Ctrl-C may have cut a step of the loader in two
            raise
        finally:
            self._busy.release()

    def close(self) -> None:
        self._source.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


class _Puller:
    """Takes batches from the loader, keeps ``lookahead`` of them under way, and gives them out in
    order."""

    def __init__(self, loader: Iterable[Any], lookahead: int, namespace: str) -> None:
        self._loader = loader
        self._snapshot = getattr(loader, "state_dict", None)
        self._lookahead = lookahead
        self._namespace = namespace
        self._queue: collections.deque[tuple[Plan | Exception, Any]] = collections.deque()
        self._ended = False
        self._died = ""
        self._batches: Iterator[Any] | None = _start(loader)

    def next(self) -> tuple[Any, dict[str, Any]]:
        """The next batch, and the state after it."""
        self._fill()
        if not self._queue:
            if self._died:
                raise OpabiRuntimeError(f"the epoch ended when a worker died: {self._died}")
            raise StopIteration
        plan, snapshot = self._queue.popleft()
        if isinstance(plan, Exception):
            try:
                raise plan
            finally:
                del plan
        batch = plan.result()
        checkpoints = {engine.name: engine.checkpoint() for engine in plan.engines}
        kept = {name: state for name, state in checkpoints.items() if state is not None}
        return batch, {"loader": snapshot, "pipelines": kept}

    def close(self) -> None:
        self._ended = True
        while self._queue:
            plan, _ = self._queue.popleft()
            if isinstance(plan, Plan):
                plan.abandon()
        batches, self._batches = self._batches, None
        if batches is not None:
            del batches
            _memory.sweep()

    def _fill(self) -> None:
        # Nothing is taken past an error until it was raised at its place.
        while not self._ended and len(self._queue) <= self._lookahead:
            if self._queue and isinstance(self._queue[-1][0], Exception):
                return
            self._pull()

    def _pull(self) -> None:
        assert self._batches is not None
        try:
            batch = next(self._batches)
        except StopIteration:
            self._ended = True
            return
        except Exception as error:
            self._queue.append((error, None))
            if any(text in str(error) for text in _DEAD):
                self._ended, self._died = True, str(error)
            return
        snapshot = self._snapshot() if self._snapshot is not None else None
        plan: Plan | Exception
        try:
            plan = Plan(batch, self._namespace)
        except Exception as error:
            plan = error
        self._queue.append((plan, snapshot))


def _start(loader: Iterable[Any]) -> Iterator[Any]:
    """Workers are forked here. What is frozen is not collected in them: a pipeline that became
    garbage in this process would there wait for threads that were not forked."""
    gc.freeze()
    try:
        return iter(loader)
    finally:
        gc.unfreeze()


_open: weakref.WeakSet[StageIterator] = weakref.WeakSet()


@atexit.register  # DALI ends all pipelines at exit, and registered before: this runs first
def _close_all() -> None:
    for iterator in list(_open):
        iterator.close()
