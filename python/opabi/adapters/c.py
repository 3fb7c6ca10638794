# SPDX-License-Identifier: Apache-2.0
"""Kernels in C, C++ and any language that makes C functions.

============== ====================================================================================
``load``       a shared library that describes its kernels (``OPABI_LIBRARY`` in the header)
``compile``    the same, from C or C++ source
``function``   a kernel from the address of a run function and a signature
``include_dir``, ``cflags``  for build systems
============== ====================================================================================
"""

from __future__ import annotations

import contextlib
import ctypes
import numbers
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opabi import _abi
from opabi.adapters import c_build
from opabi.errors import OpabiRuntimeError, OpabiTypeError, OpabiValueError
from opabi.kernel import Argument, Kernel

__all__ = ["Library", "cflags", "compile", "function", "include_dir", "load"]


class Library(Mapping[str, Kernel]):
    """The kernels of a shared library: ``lib.blur``, ``lib["blur"]``, ``list(lib)``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from opabi import _core

        self.path = _library_path(path)
        described = _core.library(self.path)
        self.name: str = described["name"]
        self.version: str = described["version"] or ""
        self.__doc__ = described["doc"] or None
        self._described = {kernel["name"]: kernel for kernel in described["kernels"]}
        self._kernels: dict[str, Kernel] = {}

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._described:
            raise KeyError(self._missing(name))
        if name not in self._kernels:
            self._kernels[name] = Kernel.from_library(self.path, name)
        return self._kernels[name]

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("_") or name not in self._described:
            raise AttributeError(self._missing(name) if not name.startswith("_") else name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def __len__(self) -> int:
        return len(self._described)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._described]

    def __hash__(self) -> int:
        return hash(self.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Library) and other.path == self.path

    def __repr__(self) -> str:
        width = max(map(len, self._described), default=0)
        title = " ".join(filter(None, ("opabi library", self.name, self.version)))
        rows = [f"  {k['name']:{width}}  {k['signature']}" for k in self._described.values()]
        return "\n".join([f"<{title} from {self.path}", *rows]) + ">"

    def _missing(self, name: str) -> str:
        return f"library {self.name!r} has no kernel {name!r}; it has {', '.join(self)}"


def _library_path(path: str | os.PathLike[str]) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise OpabiTypeError(f"load takes the path of a shared library, not {_type_name(path)}.")
    text = os.fspath(path)
    if Path(text).suffix in c_build.SUFFIXES:
        raise OpabiValueError(f"{text} is source text: opabi.c.compile makes a library of it.")
    if os.path.exists(text) or os.sep in text:
        return os.path.abspath(text)
    return text  # a bare name: the loader looks along its own path


def load(path: str | os.PathLike[str]) -> Library:
    """Opens a shared library that exports ``opabi_library_v1``, and checks what it describes."""
    return Library(path)


def compile(
    source: str | os.PathLike[str],
    *,
    name: str | None = None,
    language: str | None = None,
    flags: Sequence[str] = (),
    compiler: str | Sequence[str] | None = None,
) -> Library:
    """Compiles C or C++ into a library of kernels, once, and loads it.

    ``source`` is a file (``.c``, ``.cc``, ``.cpp``, ``.cxx``), or source text if ``language`` is
    given (``"c"`` or ``"c++"``). The compiler is ``compiler``, else ``$CC`` or ``$CXX``, else the
    system's; it optimises with -O3 for any machine of this kind, so add ``flags=["-march=native"]``
    for this one alone. The library stays in the user's cache until the source, a header it
    includes, the compiler or the flags change; ``name`` is its file's name there.
    """
    read = c_build.read_source(source, name, language)
    try:
        return Library(c_build.build(read, flags, compiler))
    except OpabiRuntimeError as error:
        if error.rule or not str(error).startswith("library "):
            raise
        # It does not load, though it was compiled: the file in the cache is damaged.
        return Library(c_build.build(read, flags, compiler, anew=True))


def function(
    run: Any,
    signature: str,
    *,
    setup: Any = None,
    name: str | None = None,
    doc: str = "",
    arguments: Sequence[Argument] = (),
    **traits: Any,
) -> Kernel:
    """A kernel from functions that follow ``opabi_run_fn`` and ``opabi_setup_fn``.

    Each is an address (int), a ctypes function, a cffi function pointer, a PyCapsule, or an object
    with an ``address``, such as a Numba ``@cfunc``. They are kept as long as the kernel lives.
    ``traits`` are the keywords of ``Kernel.make``, such as ``pure=True``.
    """
    return Kernel.make(
        name=name or name_of(run),
        signature=signature,
        doc=doc,
        arguments=arguments,
        run=address(run, "run"),
        setup=0 if setup is None else address(setup, "setup"),
        keep=(run, setup, traits.pop("keep", None)),
        **traits,
    )


def name_of(function: Any) -> str:
    """A name for the kernel of a function: its own, if it has one."""
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() else "kernel"


def address(pointer: Any, what: str) -> int:
    """The address of a C function, whatever holds it; the library that has it will stay loaded."""
    found = _find_address(pointer)
    if found is None:
        raise OpabiTypeError(
            f"{what} is of type {_type_name(pointer)}; expected the address of a C function: an "
            "int, a ctypes function, a cffi function pointer (of a compiled cffi module: "
            "ffi.addressof(lib, name)), a PyCapsule, or an object with an integer .address such as "
            "a Numba @cfunc. For a Python function use opabi.python.kernel."
        )
    if found <= 0:
        raise OpabiValueError(f"{what} is {'NULL' if found == 0 else found}, which is no function.")
    _pin_library(found)
    return found


def _find_address(pointer: Any) -> int | None:
    if isinstance(pointer, bool):
        return None
    if isinstance(pointer, numbers.Integral):
        return int(pointer)
    if isinstance(pointer, (_CTYPES_FUNCTION, ctypes.c_void_p)):
        return ctypes.cast(pointer, ctypes.c_void_p).value or 0
    if type(pointer).__module__ == "_cffi_backend":
        return _cffi_address(pointer)
    if type(pointer).__name__ == "PyCapsule":
        return _capsule_address(pointer)
    found = getattr(pointer, "address", None)
    return int(found) if isinstance(found, numbers.Integral) else None


_CTYPES_FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]


def _cffi_address(pointer: Any) -> int | None:
    try:
        ctype = _abi.ffi.typeof(pointer)
    except TypeError:  # an object of the backend that is no C value
        return None
    if ctype.kind == "function" or (ctype.kind == "pointer" and ctype.item.kind in _POINTED):
        return int(_abi.ffi.cast("uintptr_t", pointer))
    return None


_POINTED = ("function", "void")


def _capsule_address(capsule: Any) -> int:
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)) or 0


class _SymbolInfo(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("symbol_address", ctypes.c_void_p),
    ]


def _pin_library(pointer: int) -> None:
    """Keeps the library with this address loaded: cffi unloads one with its Python object."""
    info = _SymbolInfo()
    find = ctypes.CDLL(None).dladdr
    find.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    if find(pointer, ctypes.byref(info)) and info.file and os.path.isfile(info.file):
        with contextlib.suppress(OSError):  # the program itself
            ctypes.CDLL(os.fsdecode(info.file), mode=os.RTLD_NOW | os.RTLD_NOLOAD)


def include_dir() -> Path:
    """The folder with ``opabi/opabi.h`` and ``opabi/opabi.hpp``."""
    return _abi.include_dir()


def cflags() -> list[str]:
    """What a compiler needs to build a kernel library: nothing is linked."""
    return [f"-I{include_dir()}", "-fPIC", "-fvisibility=hidden"]


def _type_name(value: object) -> str:
    kind = type(value)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


# Conditional pipelines call these as they are, instead of rewriting them.
_entry: Any
for _entry in (load, compile, function):
    _entry.autograph_info__ = None
