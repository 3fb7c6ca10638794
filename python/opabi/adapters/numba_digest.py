# SPDX-License-Identifier: Apache-2.0
"""A digest of all that Numba compiles a function from, so that equal digests mean equal machine
code.

That is its bytecode and constants, and whatever its global and closure variables hold: numbers,
arrays, other jitted functions and so on, all the way down. Source text would be neither enough (a
factory makes unlike functions of one source) nor there everywhere (a prompt has none).
"""

from __future__ import annotations

import dis
import hashlib
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numba
import numpy as np
from numba.extending import is_jitted

# What comes from these is told by its name and its library's version; the versions are in every
# key.
_LIBRARIES = frozenset({"numpy", "numba", "math", "cmath", "operator", "builtins", "opabi"})
# Numba embeds larger global arrays by address, which means nothing in another process.
_MAX_ARRAY_BYTES = 1_000_000


class NoDigestError(Exception):
    """Something is reached whose content cannot be told."""


class Digest:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: dict[
            int, tuple[int, Any]
        ] = {}  # the object too, so that its id is not used again

    def hex(self) -> str:
        return self._hash.hexdigest()[:32]

    def add(self, *values: object) -> None:
        """Adds values that their repr tells apart."""
        for value in values:
            text = f"{type(value).__name__} {value!r}".encode("utf-8", "surrogatepass")
            self._hash.update(f"{len(text)} ".encode() + text)

    def function(self, function: types.FunctionType) -> None:
        """Adds a function and all it reaches. Raises NoDigestError."""
        if self._is_seen(function):
            return
        self._code(function.__code__)
        for default in (function.__defaults__ or (), function.__kwdefaults__ or {}):
            self._value(tuple(default.items()) if isinstance(default, dict) else default)
        names, attributes = _reached(function.__code__)
        for name in sorted(names):
            if name in function.__globals__:
                self.add(name)
                self._value(function.__globals__[name], attributes)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self.add(name)
            try:
                content = cell.cell_contents
            except ValueError:
                raise NoDigestError(f"the variable '{name}' has no value yet") from None
            self._value(content, attributes)

    def _is_seen(self, value: object) -> bool:
        place = self._seen.setdefault(id(value), (len(self._seen), value))[0]
        self.add("object", place)
        return place < len(self._seen) - 1

    def _code(self, code: types.CodeType) -> None:
        self.add(
            code.co_code, code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_names
        )
        self.add(code.co_varnames, code.co_freevars, code.co_cellvars)
        self.add(getattr(code, "co_exceptiontable", b""))
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                self._code(const)
            else:
                self._value(const)

    def _value(self, value: Any, attributes: Iterable[str] = ()) -> None:
        if (
            value is None
            or value is Ellipsis
            or isinstance(value, bool | int | float | complex | str | bytes)
        ):
            self.add(value)
        elif isinstance(value, np.generic):
            self.add("scalar", value.dtype.str, value.tobytes())
        elif isinstance(value, tuple):
            self.add("tuple", len(value), type(value).__qualname__, getattr(value, "_fields", ()))
            for item in value:
                self._value(item)
        elif isinstance(value, frozenset):
            self.add("set", sorted(map(repr, value)))
        elif isinstance(value, np.ndarray):
            self._array(value)
        elif isinstance(value, numba.types.Type | np.dtype):
            self.add("type", str(value))
        elif is_jitted(value):
            options = getattr(value, "targetoptions", {})
            self.add("jitted", sorted((key, repr(option)) for key, option in options.items()))
            function: Any = value.py_func
            self.function(function)
        elif isinstance(value, types.ModuleType):
            self._module(value, attributes)
        else:
            self._named(value)

    def _array(self, array: np.ndarray) -> None:
        if array.nbytes > _MAX_ARRAY_BYTES or array.dtype.hasobject:
            raise NoDigestError("a global array is too large or holds objects")
        self.add("array", array.dtype.str, array.shape, array.strides, array.tobytes())

    def _module(self, module: types.ModuleType, attributes: Iterable[str]) -> None:
        """A module is what the function may read of it; of a library, its name."""
        self.add("module", module.__name__)
        if module.__name__.partition(".")[0] in _LIBRARIES or self._is_seen(module):
            return
        for name in sorted(attributes):
            if name in vars(module):
                self.add(name)
                self._value(vars(module)[name], attributes)

    def _named(self, value: Any) -> None:
        """A function or class of one of the libraries, found under its own name."""
        name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
        module = getattr(value, "__module__", None) or (
            "numpy" if isinstance(value, np.ufunc) else ""
        )
        found: Any = sys.modules.get(module)
        if module.partition(".")[0] not in _LIBRARIES:
            raise NoDigestError(
                f"a {type(value).__name__} is no constant, array or jitted function"
            )
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not value:
            raise NoDigestError(f"'{name}' is not what {module} has under this name")
        self.add("named", module, name)


def _reached(code: types.CodeType) -> tuple[set[str], set[str]]:
    """The names of the globals that the code reads, and of the attributes."""
    names: set[str] = set()
    attributes: set[str] = set()
    for instruction in _instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(instruction.argval)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(instruction.argval)
        elif instruction.opname == "IMPORT_NAME":
            raise NoDigestError("it imports a module when it runs")
    return names, attributes


def _instructions(code: types.CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _instructions(const)
