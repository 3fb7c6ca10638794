"""A thread that takes and starts batches while the loop's body runs."""

from __future__ import annotations

import queue
import threading
from typing import Any

_WAIT = 0.1


class Pump:
    """``source.next()`` in a thread, one result ahead. The thread knows the source and not this
    object."""

    def __init__(self, source: Any) -> None:
        self._results: queue.Queue[Any] = queue.Queue(maxsize=1)
        self._stop = threading.Event()
        self._ended: BaseException | None = None
        self._thread = threading.Thread(
            target=_run, args=(source, self._results, self._stop), name="opabi-proxy", daemon=True
        )
        self._thread.start()

    def next(self) -> Any:
        if self._ended is not None:
            raise self._ended
        result, error = self._results.get()
        if error is None:
            return result
        if isinstance(error, StopIteration):
            self._ended = error
        raise error

    def close(self) -> None:
        """Ends the thread. If it waits for a worker at this moment, it ends when the worker
        answers."""
        self._ended = self._ended or StopIteration()
        self._stop.set()
        while True:
            try:
                self._results.get_nowait()
            except queue.Empty:
                break
        if self._thread is not threading.current_thread():
            self._thread.join(_WAIT)


def _run(source: Any, results: queue.Queue[Any], stop: threading.Event) -> None:
    try:
        while not stop.is_set():
            try:
                item: Any = (source.next(), None)
            except BaseException as error:
                item = (None, error)
            while not stop.is_set():
                try:
                    results.put(item, timeout=_WAIT)
                    break
                except queue.Full:
                    continue
            if isinstance(item[1], StopIteration):
                return
            del item
    finally:
        source.close()
