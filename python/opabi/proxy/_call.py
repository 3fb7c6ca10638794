"""What travels in the loader's batches: calls, which hold their inputs, and outputs, which point to
calls."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from opabi.errors import OpabiRuntimeError, OpabiTypeError
from opabi.proxy import _memory

Array = np.ndarray[Any, Any]

INLINE = 64 * 1024
"""Smaller calls ride in the pickle: a block would cost more than it saves."""
_ALIGN = 64


class Call:
    """One call of a proxy, or those of a whole batch.

    ``columns`` has for each input the list of samples, or one array with all of them.
    """

    __slots__ = (
        "__weakref__",
        "_batch",
        "_lease",
        "columns",
        "key",
        "lost",
        "members",
        "n",
        "name",
    )

    def __init__(self, key: str, name: str, columns: Sequence[Any], n: int | None = None) -> None:
        self.key = key
        self.name = name
        self.columns = columns
        self.n = n
        """The number of samples; None for a call that is no batch."""
        self.members: tuple[Call, ...] = ()
        self.lost = ""
        self._batch: weakref.ref[Call] | None = None
        self._lease: _memory.Lease | None = None

    def release(self) -> None:
        """The inputs are no longer needed."""
        self.columns = ()
        if self._lease is not None:
            self._lease.release()

    def __reduce__(self) -> tuple[Any, ...]:
        # Runs in the loader's own sending thread, where an error would be printed and the batch be
        # lost.
        kinds = [_describe(column) for column in self.columns]
        total = sum(size for *_, size in kinds)
        head = (self.key, self.name, self.n, [kind[:2] for kind in kinds])
        if total >= INLINE:
            try:
                block, address = _memory.take(total)
            except OSError:
                pass
            else:
                _write(block.data, self.columns, kinds)
                return _attach, (*head, address)
        data = bytearray(total)
        _write(np.frombuffer(data, np.uint8), self.columns, kinds)
        return _unpack, (*head, bytes(data))

    @classmethod
    def batch(cls, calls: Sequence[Call]) -> Call:
        """The call for all ``calls``; the same object when they are met again, for another of their
        outputs."""
        known = calls[0]._batch() if calls[0]._batch is not None else None
        if known is not None and [*map(id, known.members)] == [*map(id, calls)]:
            return known
        first = calls[0]
        if any(call.key != first.key for call in calls):
            names = sorted({call.name for call in calls})
            raise OpabiTypeError(
                f"a batch mixes outputs of several pipelines in one place: {names}."
            )
        columns = [[call.columns[i] for call in calls] for i in range(len(first.columns))]
        made = cls(first.key, first.name, columns, len(calls))
        made.members = tuple(calls)
        first._batch = weakref.ref(made)
        return made


class Output:
    """The place of a result: output ``index`` of a call that the stage has still to make."""

    __slots__ = ("call", "index")

    def __init__(self, call: Call, index: int) -> None:
        self.call = call
        self.index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return Output, (self.call, self.index)

    def __repr__(self) -> str:
        return f"<output {self.index} of proxy '{self.call.name}', to be computed by the stage>"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise OpabiTypeError(
            f"{self!r} has no data yet: the pipeline runs in the main process. Wrap the loader in "
            f"opabi.proxy.stage."
        )


def collate(outputs: Sequence[Output], **_: Any) -> Output:
    """The batch's output for its samples' outputs: what default_collate of torch calls."""
    if any(output.call.n is not None for output in outputs):
        raise OpabiTypeError(
            "outputs of a proxy that are a batch already cannot be made into one again."
        )
    index = outputs[0].index
    if any(output.index != index for output in outputs):
        raise OpabiTypeError("a batch mixes different outputs of a proxy in one place.")
    return Output(Call.batch([output.call for output in outputs]), index)


def _describe(column: Any) -> tuple[str, Any, int]:
    """dtype, shape (a list of them where they differ), bytes in the block."""
    if isinstance(column, np.ndarray):
        return column.dtype.str, column.shape, -(-column.nbytes // _ALIGN) * _ALIGN
    first = column[0]
    shape, dtype = first.shape, first.dtype
    if all(a.shape == shape and a.dtype == dtype for a in column):
        return dtype.str, (len(column), *shape), -(-first.nbytes * len(column) // _ALIGN) * _ALIGN
    size = sum(-(-a.nbytes // _ALIGN) * _ALIGN for a in column)
    return "", [(a.dtype.str, a.shape) for a in column], size


def _write(data: Array, columns: Sequence[Any], kinds: Sequence[tuple[str, Any, int]]) -> None:
    start = 0
    for column, (dtype, _, size) in zip(columns, kinds, strict=True):
        at = start
        for array in [column] if isinstance(column, np.ndarray) else column:
            data[at : at + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            at += array.nbytes if dtype else -(-array.nbytes // _ALIGN) * _ALIGN
        start += size


def _read(data: Any, kinds: Sequence[tuple[str, Any]]) -> list[Any]:
    columns: list[Any] = []
    start = 0
    for dtype, shape in kinds:
        if dtype:
            columns.append(array := _view(data, start, dtype, shape))
            start += -(-array.nbytes // _ALIGN) * _ALIGN
            continue
        samples = []
        for kind in shape:
            samples.append(array := _view(data, start, *kind))
            start += -(-array.nbytes // _ALIGN) * _ALIGN
        columns.append(samples)
    return columns


def _view(data: Any, start: int, dtype: str, shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(data, dtype, count, start).reshape(shape)


def _unpack(key: str, name: str, n: int | None, kinds: Any, data: bytes) -> Call:
    return Call(key, name, _read(data, kinds), n)


def _attach(key: str, name: str, n: int | None, kinds: Any, address: _memory.Address) -> Call:
    call = Call(key, name, (), n)
    try:
        call._lease = _memory.Lease(address)
    except OSError as error:
        # Raised at its own batch, by the stage: this may be a thread of the loader.
        call.lost = f"the inputs of process {address.pid} are gone: {error}"
        return call
    call.columns = _read(call._lease.data, kinds)
    return call


def check_found(call: Call) -> None:
    if call.lost:
        raise OpabiRuntimeError(
            f"proxy '{call.name}': {call.lost}. The worker died before its batch was taken over."
        )
