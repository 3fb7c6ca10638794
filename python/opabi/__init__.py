"""opabi: function-pointer operators for NVIDIA DALI.

A *kernel* is a C function that follows the header ``opabi/opabi.h``. The adapters make kernels from
what you have: ``opabi.numba`` (decorated functions), ``opabi.c`` (C and C++ sources, shared
libraries, addresses), ``opabi.cupy``, ``opabi.numba_cuda`` and ``opabi.cuda`` (kernels for the GPU)
and ``opabi.python`` (plain functions, slow). A kernel is called with arrays, and runs at once, or
with the nodes of a DALI pipeline, and becomes an operator there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from opabi.errors import (
    OpabiError,
    OpabiIndexError,
    OpabiMemoryError,
    OpabiRuntimeError,
    OpabiTypeError,
    OpabiValueError,
)

if TYPE_CHECKING:
    from opabi.adapters import c, cuda, cupy, numba, numba_cuda, python
    from opabi.adapters.c import load
    from opabi.kernel import Argument, Kernel
    from opabi.pair import Pair

__version__ = "0.1.0"

__all__ = [
    "Argument",
    "Kernel",
    "OpabiError",
    "OpabiIndexError",
    "OpabiMemoryError",
    "OpabiRuntimeError",
    "OpabiTypeError",
    "OpabiValueError",
    "Pair",
    "c",
    "cuda",
    "cupy",
    "load",
    "numba",
    "numba_cuda",
    "python",
]

# Imported at first use: `import opabi` loads no adapter, no NumPy and no DALI.
_LAZY = {
    "Argument": "opabi.kernel:Argument",
    "Kernel": "opabi.kernel:Kernel",
    "Pair": "opabi.pair:Pair",
    "c": "opabi.adapters.c",
    "cuda": "opabi.adapters.cuda",
    "cupy": "opabi.adapters.cupy",
    "dali": "opabi.dali",
    "load": "opabi.adapters.c:load",
    "numba": "opabi.adapters.numba",
    "numba_cuda": "opabi.adapters.numba_cuda",
    "proxy": "opabi.proxy",
    "python": "opabi.adapters.python",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'opabi' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    found = importlib.import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
