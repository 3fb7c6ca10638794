# SPDX-License-Identifier: Apache-2.0
"""Buffers with nothing to spare: between pages that cannot be touched, and gone with the block."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from opabi import _abi

ffi = _abi.ffi
C = _abi.constants
PAGE = 4096
NONE, READ, WRITE = 0, 1, 3  # PROT_ and MAP_ of mmap(2) on Linux
PRIVATE, FIXED, ANONYMOUS = 0x02, 0x10, 0x20
NOWHERE = 8  # the address of data without elements: whoever follows it ends here
Arrays = list[np.ndarray]

_TENSOR = _abi.record("opabi_tensor")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def dtype_word(dtype: np.dtype) -> int:
    return int(C[f"OPABI_{dtype.name.upper()}"])


class Memory:
    """``place`` says where in its pages a buffer lies: at the "start", at the "end", or "odd"."""

    def __init__(self, place: str = "end") -> None:
        self.place = place
        self._maps: list[tuple[int, int]] = []

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for start, size in self._maps:
            _libc.mmap(start, size, NONE, PRIVATE | ANONYMOUS | FIXED, -1, 0)  # never used again

    def put(self, data: bytes, protection: int = READ, item: int = 8, place: str = "") -> int:
        """The address of a copy. Odd is aligned to one ``item`` and to no more."""
        inside = (len(data) + item + PAGE - 1) // PAGE * PAGE
        start = _libc.mmap(None, inside + 2 * PAGE, WRITE, PRIVATE | ANONYMOUS, -1, 0)
        self._maps.append((start, inside + 2 * PAGE))
        _libc.mprotect(start, PAGE, NONE)
        _libc.mprotect(start + PAGE + inside, PAGE, NONE)
        offsets = {"start": 0, "end": inside - len(data), "odd": item}
        at = int(start + PAGE + offsets[place or self.place])
        ctypes.memmove(at, data, len(data))
        _libc.mprotect(start + PAGE, inside, protection)
        return at

    def tensor(self, array: np.ndarray, protection: int) -> dict[str, int]:
        item, strides = array.itemsize, list(array.strides)
        if array.flags.c_contiguous:
            data = self.put(array.tobytes(), protection, item) if array.size else NOWHERE
            strides = [item * int(np.prod(array.shape[d + 1 :])) for d in range(array.ndim)]
        else:
            data = array.ctypes.data
        fields = {"data": data, "device_type": C["OPABI_CPU"], "ndim": array.ndim}
        fields["dtype"] = dtype_word(array.dtype)
        if array.ndim:
            fields["shape"] = self.put(np.array(array.shape, np.int64).tobytes())
            fields["strides"] = self.put(np.array([s // item for s in strides], np.int64).tobytes())
        return fields

    def table(self, rows: Sequence[Arrays], protection: int = READ) -> tuple[int, list[int]]:
        """The address of a sample-major table, and those of its tensors' data."""
        flat = [array for row in rows for array in row]
        table = np.zeros(len(flat), _TENSOR)
        for record, array in zip(table, flat, strict=True):
            for name, value in self.tensor(array, protection).items():
                record[name] = value
        return (self.put(table.tobytes()) if flat else 0), [int(data) for data in table["data"]]

    def struct(self, name: str, grow: int = 0, **values: Any) -> Any:
        """A struct of ABI 1.0, or one that goes on with bytes that mean nothing yet."""
        struct = ffi.new(f"opabi_{name} *")
        fields = dict(ffi.typeof(struct[0]).fields)
        values |= {"struct_size": ffi.sizeof(struct[0]) + grow, "abi": C["OPABI_VERSION"]}
        for field, value in values.items():
            ctype = fields[field].type
            setattr(struct, field, ffi.cast(ctype, value) if ctype.kind == "pointer" else value)
        at = self.put(bytes(ffi.buffer(struct)) + b"\xa5" * grow, place="end")
        return ffi.cast(f"opabi_{name} *", at)
