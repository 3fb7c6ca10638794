# SPDX-License-Identifier: Apache-2.0
"""The smallest host: calls a kernel's functions with structs filled by hand.

What a kernel may only read is write-protected, and nothing outlives the call. A kernel that breaks
a rule of memory ends the process.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from guarded_memory import NONE, READ, WRITE, Arrays, C, Memory, dtype_word, ffi

MAX_NDIM = C["OPABI_MAX_NDIM"]
Shapes = list[list[tuple[int, ...]]]  # [sample][port]


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel, what to give it, and what it must give."""

    kernel: Any
    samples: list[Arrays]
    expect: Callable[..., Arrays]  # of one sample: (*inputs, *arguments)
    args: list[Arrays] = dataclasses.field(default_factory=list)
    bounds: Callable[..., list[tuple[int, ...]]] | None = None  # of outputs that are bounded
    is_open: bool = False  # the extents are left to setup

    def arguments(self) -> list[Arrays]:
        return self.args or [[] for _ in self.samples]

    def expected(self) -> list[Arrays]:
        rows = zip(self.samples, self.arguments(), strict=True)
        return [self.expect(*inputs, *args) for inputs, args in rows]

    def shapes(self) -> Shapes:
        """Of the outputs as they are allocated."""
        if self.bounds:
            return [self.bounds(*inputs) for inputs in self.samples]
        return [[array.shape for array in row] for row in self.expected()]


@dataclasses.dataclass
class Result:
    status: int
    outputs: list[Arrays]
    message: bytes = b""
    where: list[int] = dataclasses.field(default_factory=list)


class Report:
    """err and err_where, with bytes behind them that nobody may change."""

    def __init__(self, cap: int = 1024) -> None:
        self.cap = cap
        self.err = ffi.new("char[]", b"\0" + b"\x5a" * (cap + 64))
        self.where = ffi.new("int64_t[]", [C["OPABI_UNSET"]] * 4)

    def fields(self) -> dict[str, Any]:
        err = self.err if self.cap else ffi.NULL
        return {"err": err, "err_cap": self.cap, "err_where": self.where}

    def message(self) -> bytes:
        behind = bytes(ffi.buffer(self.err))[max(self.cap, 1) : -1]
        assert behind.strip(b"\x5a") == b"", "the kernel wrote past err_cap"
        text: bytes = ffi.string(self.err)
        assert len(text) < max(self.cap, 1), "the message has no end"
        return text


def create(kernel: Any) -> Any:
    """An instance, which the caller destroys."""
    instance, report = ffi.new("void **"), Report()
    with Memory() as memory:
        call = memory.struct(
            "create",
            user_data=kernel.user_data,
            device_type=C["OPABI_CPU"],
            n_workers=1,
            out_instance=instance,
            **report.fields(),
        )
        assert kernel.create(call) == C["OPABI_OK"], report.message()
    return instance[0]


def call_state(function: Any, kernel: Any, instance: Any, buffer: Any, n: int) -> tuple[int, int]:
    """The status and out_bytes of a save or restore."""
    size, report = ffi.new("int64_t *"), Report()
    with Memory() as memory:
        call = memory.struct(
            "state",
            user_data=kernel.user_data,
            instance=instance,
            buffer=buffer,
            capacity=n,
            out_bytes=size,
            **report.fields(),
        )
        return function(call), size[0]


def specialize(kernel: Any, inputs: Arrays) -> tuple[int, tuple[Any, Any, Any], bytes]:
    """The status; run, setup and user_data; the message."""
    run, setup = ffi.new("opabi_run_fn *", kernel.run), ffi.new("opabi_setup_fn *", kernel.setup)
    user_data, report = ffi.new("void **", kernel.user_data), Report()
    dtypes = np.array([dtype_word(a.dtype) for a in inputs], np.uint32)
    ndims = np.array([a.ndim for a in inputs], np.int32)
    with Memory() as memory:
        call = memory.struct(
            "specialize",
            user_data=kernel.user_data,
            n_in=len(inputs),
            in_dtype=memory.put(dtypes.tobytes()),
            in_ndim=memory.put(ndims.tobytes()),
            device_type=C["OPABI_CPU"],
            out_run=run,
            out_setup=setup,
            out_user_data=user_data,
            **report.fields(),
        )
        status = kernel.specialize(call)
    return status, (run[0], setup[0], user_data[0]), report.message()


def functions(case: Case) -> tuple[Any, Any, Any]:
    kernel = case.kernel
    if not kernel.specialize:
        return kernel.run, kernel.setup, kernel.user_data
    status, found, message = specialize(kernel, case.samples[0])
    assert status == C["OPABI_OK"], message
    return found


def _range(memory: Memory, case: Case, begin: int, end: int, protection: int) -> dict[str, Any]:
    """The fields that setup and run have in common."""
    n_in, n_out = len(case.samples[0]), len(case.shapes()[0])
    none = memory.put(b"\0")
    return {
        "n_in": n_in,
        "n_out": n_out,
        "n_args": len(case.arguments()[0]),
        "max_ndim": MAX_NDIM,
        "n_samples": end - begin,
        "first_sample": begin,
        "batch_size": len(case.samples),
        "inputs": memory.table(case.samples[begin:end], protection)[0],
        "args": memory.table(case.arguments()[begin:end])[0],
        "in_layouts": memory.put(np.full(n_in, none, np.uint64).tobytes()),
    }


def setup(case: Case, begin: int, end: int, grow: int = 0) -> tuple[Shapes, list[int]]:
    """The outputs' shapes and the scratch that a range needs. Input data cannot be read."""
    _, function, user_data = functions(case)
    given = case.shapes()[begin:end]
    if not function:
        return given, [0, 0, 0]
    n, n_out = len(given), len(given[0])
    shapes = np.full((n, n_out, MAX_NDIM), C["OPABI_UNSET"], np.int64)
    if not case.is_open:
        for s, row in enumerate(given):
            for port, shape in enumerate(row):
                shapes[s, port, : len(shape)] = shape
    before = shapes.copy()
    dtypes = np.array([dtype_word(a.dtype) for a in case.expected()[0]], np.uint32)
    ndims = np.array([len(shape) for shape in given[0]], np.int32)
    scratch, layouts = np.zeros(3, np.int64), np.zeros(16 * n_out, np.uint8)
    report = Report()
    with Memory() as memory:
        struct = memory.struct(
            "setup",
            grow,
            user_data=user_data,
            out_dtype=dtypes.ctypes.data,
            out_ndim=ndims.ctypes.data,
            out_shape=shapes.ctypes.data,
            out_layout=layouts.ctypes.data,
            scratch_bytes=scratch.ctypes.data,
            **_range(memory, case, begin, end, NONE),
            **report.fields(),
        )
        assert function(struct) == C["OPABI_OK"], report.message()
    filled = before != C["OPABI_UNSET"]
    assert (shapes[filled] == before[filled]).all(), "setup changed a filled slot"
    ranks = range(n_out)
    return [[tuple(shapes[s, p, : ndims[p]]) for p in ranks] for s in range(n)], scratch.tolist()


def run(
    case: Case,
    ranges: Sequence[tuple[int, int]] = (),
    *,
    poison: int = 0xA5,
    place: str = "end",
    grow: int = 0,
    err_cap: int = 1024,
    instance: Any = ffi.NULL,
    gate: Callable[[], Any] = int,
) -> Result:
    """Runs the ranges in their order, each after ``gate``; stops at the first that fails."""
    result = Result(C["OPABI_OK"], [[] for _ in case.samples])
    for begin, end in ranges or [(0, len(case.samples))]:
        report = Report(err_cap)
        with Memory(place) as memory:
            result.status = _run_range(
                memory, case, begin, end, poison, grow, instance, report, result.outputs, gate
            )
        if result.status != C["OPABI_OK"]:
            result.message, result.where = report.message(), list(report.where)
            return result
    return result


def _run_range(
    memory: Memory,
    case: Case,
    begin: int,
    end: int,
    poison: int,
    grow: int,
    instance: Any,
    report: Report,
    results: list[Arrays],
    gate: Callable[[], Any],
) -> int:
    function, _, user_data = functions(case)
    shapes, scratch_bytes = setup(case, begin, end)
    dtypes = [array.dtype for array in case.expected()[0]]
    poisoned = []
    for row in shapes:
        sizes = [int(np.prod(shape)) * d.itemsize for shape, d in zip(row, dtypes, strict=True)]
        flat = [np.full(size, poison, np.uint8) for size in sizes]
        typed = zip(flat, dtypes, row, strict=True)
        poisoned.append([a.view(dtype).reshape(shape) for a, dtype, shape in typed])
    outputs, data = memory.table(poisoned, WRITE)
    actual = np.full((len(shapes), len(dtypes), MAX_NDIM), C["OPABI_UNSET"], np.int64)
    rounded = [-(-n // 256) * 256 for n in scratch_bytes]
    scratch = [memory.put(b"\xa5" * n, WRITE, place="end") if n else 0 for n in rounded]
    struct = memory.struct(
        "call",
        grow,
        user_data=user_data,
        instance=instance,
        outputs=outputs,
        out_layouts=memory.put(np.full(len(dtypes), memory.put(b"\0"), np.uint64).tobytes()),
        out_actual=actual.ctypes.data if case.bounds else 0,
        scratch=memory.put(np.array(scratch, np.uint64).tobytes()),
        scratch_bytes=memory.put(np.array(scratch_bytes, np.int64).tobytes()),
        device_type=C["OPABI_CPU"],
        **_range(memory, case, begin, end, READ),
        **report.fields(),
    )
    gate()
    status = int(function(struct))
    for at, asked, size in zip(scratch, scratch_bytes, rounded, strict=True):
        behind = ctypes.string_at(at + asked, size - asked) if at else b""
        assert behind.strip(b"\xa5") == b"", "the kernel wrote past its scratch"
    if status != C["OPABI_OK"]:
        return status
    for s, row in enumerate(shapes):
        for port, bound in enumerate(row):
            shape = tuple(actual[s, port, : len(bound)]) if case.bounds else bound
            array = np.empty(shape, dtypes[port])
            ctypes.memmove(array.ctypes.data, data[s * len(dtypes) + port], array.nbytes)
            results[begin + s].append(array)
    return status
