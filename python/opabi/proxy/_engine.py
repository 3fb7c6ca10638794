"""Runs the calls of one pipeline, first in, first out."""

from __future__ import annotations

import collections
import os
import threading
import weakref
from typing import Any, Protocol

from opabi.errors import OpabiRuntimeError, OpabiTypeError, OpabiValueError
from opabi.proxy._inputs import Input


class NotFedError(Exception):
    """Some inputs of a batch were fed and others refused: the pipeline is out of step for good."""


class Backend(Protocol):
    """What runs: each ``start`` is followed, in the same order, by one ``finish``."""

    name: str
    inputs: tuple[Input, ...]
    n_outputs: int

    def depth(self) -> int: ...
    def max_batch(self) -> int | None: ...
    def start(self, columns: list[Any]) -> None: ...
    def finish(self) -> tuple[Any, ...]: ...
    def rebuild(self, checkpoint: Any = None) -> None: ...
    def checkpoint(self) -> Any: ...


class Ticket:
    """One run. It belongs to one iterator, which waits for it or abandons it."""

    __slots__ = ("abandoned", "columns", "done", "error", "outputs", "release")

    def __init__(self, columns: list[Any], release: Any) -> None:
        self.columns = columns
        self.release = release
        self.outputs: tuple[Any, ...] = ()
        self.error: BaseException | None = None
        self.done = False
        self.abandoned = False


class Engine:
    def __init__(self, backend: Backend) -> None:
        self.name = backend.name
        self._backend = backend
        self._lock = threading.RLock()
        self._waiting: collections.deque[Ticket] = collections.deque()
        self._running: collections.deque[Ticket] = collections.deque()
        _alive.add(self)

    def max_batch(self) -> int | None:
        return self._backend.max_batch()

    def submit(self, columns: list[Any], release: Any) -> Ticket:
        """Start a run of checked inputs, now or when there is room for it.

        ``release`` is called when the inputs are done with.
        """
        ticket = Ticket(columns, release)
        with self._lock:
            self._waiting.append(ticket)
            self._start()
        return ticket

    def wait(self, ticket: Ticket) -> tuple[Any, ...]:
        """The outputs of ``ticket``; raises the error of its run."""
        with self._lock:
            while not ticket.done:
                self._start()
                if not ticket.done:
                    self._finish()
            self._start()
        if ticket.error is not None:
            raise ticket.error
        return ticket.outputs

    def abandon(self, ticket: Ticket) -> None:
        with self._lock:
            ticket.abandoned = True
            ticket.outputs = ()
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                ticket.done = True
                ticket.release()

    def checkpoint(self) -> Any:
        return self._backend.checkpoint()

    def restore(self, checkpoint: Any) -> None:
        with self._lock:
            while self._running:
                self._finish()
            self._backend.rebuild(checkpoint)

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._backend.depth():
            ticket = self._waiting.popleft()
            try:
                self._backend.start(ticket.columns)
            except NotFedError as error:
                ticket.error, ticket.done = error.__cause__, True
                ticket.release()
                self._mend()
            except Exception as error:
                ticket.error, ticket.done = error, True
                ticket.release()
            else:
                self._running.append(ticket)

    def _finish(self) -> None:
        ticket = self._running.popleft()
        try:
            outputs = self._backend.finish()
            ticket.outputs = () if ticket.abandoned else outputs
        except Exception as error:
            ticket.error = error
        ticket.done = True
        ticket.columns = []
        ticket.release()

    def _mend(self) -> None:
        while self._running:
            self._finish()
        self._backend.rebuild()

    def check(self, columns: list[Any], n: int) -> None:
        """Raises OpabiTypeError or OpabiValueError for what the pipeline would refuse."""
        where = f"proxy '{self.name}'"
        limit = self._backend.max_batch()
        if limit is not None and n > limit:
            raise OpabiValueError(
                f"{where}: a batch of {n} samples; the pipeline takes at most {limit}. "
                f"Build it with batch_size={n} or more, or make the loader's batches smaller."
            )
        if n == 0:
            raise OpabiValueError(f"{where}: a batch without samples.")
        for port, column in zip(self._backend.inputs, columns, strict=True):
            if len(column) != n:
                raise OpabiRuntimeError(
                    f"{where}, input '{port.name}': {len(column)} samples of {n}."
                )
            if not isinstance(column, list):
                continue
            first = column[0]
            for s, array in enumerate(column):
                if array.dtype != first.dtype or array.ndim != first.ndim:
                    raise OpabiTypeError(
                        f"{where}, input '{port.name}': sample {s} is {array.dtype} of rank "
                        f"{array.ndim}, "
                        f"sample 0 is {first.dtype} of rank {first.ndim}. A batch has one type "
                        f"and rank."
                    )


_alive: weakref.WeakSet[Engine] = weakref.WeakSet()
_kept: list[Engine] = []


def _after_fork() -> None:
    """A forked child must never destroy a pipeline: it would wait for threads that it does not
    have."""
    _kept.extend(_alive)


os.register_at_fork(after_in_child=_after_fork)
