# SPDX-License-Identifier: Apache-2.0
"""The structs and constants of the ABI, read from the C header, so that none is typed twice."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from opabi.errors import OpabiRuntimeError

if TYPE_CHECKING:
    import cffi
    import numpy as np

_HERE = Path(__file__).resolve().parent
_INCLUDE_DIRS = (_HERE.parents[1] / "include", _HERE / "_native" / "include")  # checkout, installed


@functools.cache
def include_dir() -> Path:
    """The folder to give a compiler so that it finds ``<opabi/opabi.h>``."""
    for folder in _INCLUDE_DIRS:
        if (folder / "opabi" / "opabi.h").is_file():
            return folder
    places = " and ".join(str(folder / "opabi" / "opabi.h") for folder in _INCLUDE_DIRS)
    raise OpabiRuntimeError(f"The header opabi.h is missing; looked for {places}. Reinstall opabi.")


@functools.cache
def header() -> str:
    return (include_dir() / "opabi" / "opabi.h").read_text(encoding="utf-8")


@functools.cache
def declarations() -> str:
    """The part of the header between its markers: declarations without preprocessor lines."""
    found = re.search(r"/\* opabi:begin.*/\* opabi:end", header(), re.DOTALL)
    if found is None:
        raise OpabiRuntimeError(f"The header in {include_dir()} has lost its opabi:begin mark.")
    return found.group().removesuffix("/* opabi:end")


@functools.cache
def _ffi() -> cffi.FFI:
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(declarations())
    return ffi


@functools.cache
def _constants() -> dict[str, int]:
    library = _ffi().dlopen(None)
    found = {name: int(getattr(library, name)) for name in dir(library)}
    for name in ("OPABI_MAJOR", "OPABI_MINOR", "OPABI_MAGIC"):  # defined outside the marks
        value = re.search(rf"#define {name} (?:UINT64_C\()?(\w+)", header())
        assert value is not None, name
        found[name] = int(value.group(1), 0)
    found["OPABI_VERSION"] = found["OPABI_MAJOR"] << 16 | found["OPABI_MINOR"]
    return found


@functools.cache
def record(name: str) -> np.dtype:
    """The struct ``name`` as a NumPy record type; each pointer is an int64 with its address."""
    import numpy as np

    struct = _ffi().typeof(name)
    if struct.kind != "struct" or not struct.fields:
        raise OpabiRuntimeError(f"{name} is no struct of opabi.h.")
    names, formats, offsets = [], [], []
    for field, place in struct.fields:
        names.append(field)
        formats.append(_scalar(place.type))
        offsets.append(place.offset)
    return np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": _ffi().sizeof(struct)}
    )


def _scalar(ctype: cffi.FFI.CType) -> str:
    if ctype.kind in ("pointer", "function"):
        return "i8"
    sign = "u" if ctype.cname.startswith("uint") else "i"
    return f"{sign}{_ffi().sizeof(ctype)}"


if TYPE_CHECKING:
    ffi: cffi.FFI
    constants: dict[str, int]


def __getattr__(name: str) -> object:
    if name == "ffi":
        return _ffi()
    if name == "constants":
        return _constants()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
