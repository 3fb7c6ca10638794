# SPDX-License-Identifier: Apache-2.0
"""What went wrong, in words: exceptions of a kernel that runs, and of one that does not compile.

Compiled code can tell that an exception was raised, but not which. So the run path only notes the
sample and calls back; here, with Python's lock, the same compiled function runs once more on copies
of that sample, and raises the exception as a Python object. Only failing samples pay for it.
"""

from __future__ import annotations

import ctypes
import re
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np

from opabi import _abi
from opabi.adapters.numba_function import Definition
from opabi.adapters.numba_ports import Types
from opabi.errors import OpabiTypeError

# The first that fits; the text then need not say the exception's name, unless it says more than the
# status.
_STATUS: tuple[tuple[type[BaseException], str, bool], ...] = (
    (NotImplementedError, "OPABI_ERROR_UNSUPPORTED", False),
    (MemoryError, "OPABI_ERROR_OUT_OF_MEMORY", False),
    (IndexError, "OPABI_ERROR_INDEX", False),
    (KeyError, "OPABI_ERROR_INDEX", True),
    (TypeError, "OPABI_ERROR_TYPE", False),
    (ValueError, "OPABI_ERROR_VALUE", False),
    (ArithmeticError, "OPABI_ERROR_VALUE", True),
)
_NOT_AGAIN = (
    "the kernel raised an exception, but not when its sample was run once more to learn which. Its "
    "result depends on more than its inputs and arguments."
)
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)


class Explainer:
    """The table that user_data points to: slot 0 explains a failed run, slot 1 a failed setup."""

    def __init__(self, definition: Definition) -> None:
        self._run = numba.njit(**definition.options)(definition.kernel.function)
        self._rule = numba.njit(definition.rule.function) if definition.rule else None
        self._rule_arguments, self._scalars = definition.rule_arguments, definition.scalars
        self._callbacks = [_CALLBACK(self._explain_run), _CALLBACK(self._explain_setup)]
        addresses = [ctypes.cast(call, ctypes.c_void_p).value or 0 for call in self._callbacks]
        self._table = (ctypes.c_int64 * 2)(*addresses)

    @property
    def user_data(self) -> int:
        return ctypes.addressof(self._table)

    def _explain_run(self, at: int, sample: int) -> int:
        def again(struct: Any) -> None:
            inputs = _tensors(struct, "inputs", "n_in", sample)
            arrays = [
                array[()] if scalar else array
                for array, scalar in zip(inputs, self._scalars, strict=True)
            ]
            outputs = [np.zeros_like(out) for out in _tensors(struct, "outputs", "n_out", sample)]
            self._run(*arrays, *outputs, *_arguments(struct, sample))

        return _explain("opabi_call", at, sample, again)

    def _explain_setup(self, at: int, sample: int) -> int:
        def again(struct: Any) -> None:
            shapes = _shapes(struct, "inputs", "n_in", sample)
            arguments = _arguments(struct, sample)
            assert self._rule is not None
            result = self._rule(*shapes, *(arguments[a] for a in self._rule_arguments))
            if _smallest(result) < 0:
                raise ValueError(f"setup gives {result!r}, but extents are never negative")

        return _explain("opabi_setup", at, sample, again)


def _smallest(extents: Any) -> int:
    if isinstance(extents, tuple):
        return min(map(_smallest, extents), default=0)
    return int(extents)


def _explain(name: str, at: int, sample: int, again: Callable[[Any], None]) -> int:
    """Runs a failed sample again, writes what it raises into the struct, and returns the status."""
    struct = _view(at, _abi.record(name), 1)[0]
    try:
        again(struct)
        status, text = "OPABI_ERROR_INTERNAL", _NOT_AGAIN
    except BaseException as error:  # nothing may pass into compiled code
        status, text = _describe(error)
    _view(int(struct["err_where"]), np.dtype(np.int64), 4)[2] = sample
    room = int(struct["err_cap"])
    if room > 0:
        _view(int(struct["err"]), np.dtype(np.uint8), room)[:] = _c_string(text, room)
    return _abi.constants[status]


def _describe(error: BaseException) -> tuple[str, str]:
    status, named = "OPABI_ERROR_INTERNAL", True
    for kind, its_status, its_named in _STATUS:
        if isinstance(error, kind):
            status, named = its_status, its_named
            break
    text = str(error)
    if named or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = next(
        (f for f in reversed(frames) if Path(f.filename).parent != Path(__file__).parent), None
    )
    return status, f"{text} ({Path(place.filename).name}, line {place.lineno})" if place else text


def _c_string(text: str, room: int) -> np.ndarray:
    cut = (
        text.replace("\0", " ")
        .encode("utf-8", "replace")[: room - 1]
        .decode("utf-8", "ignore")
        .encode()
    )
    return np.frombuffer(cut.ljust(room, b"\0"), np.uint8)


# ---- Reading the structs from Python -------------------------------------------------------------


def _view(at: int, dtype: np.dtype, count: int) -> np.ndarray:
    size = dtype.itemsize * count
    if size == 0:
        return np.empty(count, dtype)
    memory = memoryview((ctypes.c_char * size).from_address(at))
    return np.frombuffer(memory, dtype)


def _rows(struct: Any, table: str, ports: str, sample: int) -> np.ndarray:
    n = int(struct[ports])
    record = _abi.record("opabi_tensor")
    return _view(int(struct[table]) + record.itemsize * n * sample, record, n)


def _shapes(struct: Any, table: str, ports: str, sample: int) -> list[tuple[int, ...]]:
    rows = _rows(struct, table, ports, sample)
    return [
        tuple(_view(int(t["shape"]), np.dtype(np.int64), int(t["ndim"])).tolist()) for t in rows
    ]


def _tensors(struct: Any, table: str, ports: str, sample: int) -> list[np.ndarray]:
    """Read-only copies: an exception may keep what it was raised about."""
    arrays = []
    rows, shapes = _rows(struct, table, ports, sample), _shapes(struct, table, ports, sample)
    for row, shape in zip(rows, shapes, strict=True):
        code, bits = int(row["dtype"]) & 0xFF, int(row["dtype"]) >> 8 & 0xFF
        dtype = np.dtype(np.bool_ if code == 6 else f"{'iuf'[code]}{bits // 8}")
        array = (
            _view(int(row["data"]), dtype, int(np.prod(shape, dtype=np.int64)))
            .reshape(shape)
            .copy()
        )
        array.flags.writeable = False
        arrays.append(array)
    return arrays


def _arguments(struct: Any, sample: int) -> list[Any]:
    tensors = _tensors(struct, "args", "n_args", sample)
    return [array if array.ndim else array[()] for array in tensors]


# ---- What does not compile -----------------------------------------------------------------------


def compile_error(
    name: str, types: Types, error: Exception, writes: Sequence[str] = ()
) -> OpabiTypeError:
    """The exception for a kernel that Numba refuses; ``writes``: the inputs it writes to."""
    if writes:
        listed = " and ".join(f"'{port}'" for port in writes)
        return OpabiTypeError(
            f"kernel '{name}' writes to its input {listed}. Inputs are read-only, since other "
            f"operators read the same data. Write to an output, or to a copy: {writes[0]}.copy()."
        )
    return OpabiTypeError(
        f"kernel '{name}' does not compile for {types}. Numba says:\n{_shorten(str(error))}"
    )


def _shorten(text: str) -> str:
    """Numba's message without what repeats and what tells of its passes."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines: list[str] = []
    for line in text.splitlines():
        line = line.rstrip()
        if line.lstrip().startswith(
            ("Failed in nopython", "During: Pass", "This is not usually a problem")
        ):
            continue
        if line or (lines and lines[-1]):
            lines.append(line)
    limit = 40
    if len(lines) > limit:
        lines = [*lines[: limit - 10], "...", *lines[-10:]]
    return "\n".join(lines).strip()
