# SPDX-License-Identifier: Apache-2.0
"""What Kernel.make takes as ``specialize``: run and setup for the types that arrive, from the store
if
they are there, else compiled."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np

import opabi
from opabi import _abi
from opabi.adapters import numba_store
from opabi.adapters.numba_digest import Digest, NoDigestError
from opabi.adapters.numba_errors import Explainer
from opabi.adapters.numba_function import Definition, one_dtype
from opabi.adapters.numba_ports import OutputType, Types
from opabi.errors import OpabiTypeError
from opabi.kernel import Functions, TensorType

_kept: list[Any] = []  # cfuncs outside of the store: hosts may call them as long as they like


class Specializer:
    def __init__(self, definition: Definition, cache: bool) -> None:
        self._definition, self._cache = definition, cache
        self._made: dict[Any, Functions] = {}
        self._lock = threading.Lock()

    def __call__(
        self, in_types: tuple[TensorType, ...], arg_types: tuple[TensorType, ...]
    ) -> Functions:
        with self._lock:
            key = (in_types, arg_types)
            if key not in self._made:
                self._made[key] = self._make(in_types, arg_types)
            return self._made[key]

    def _make(
        self, in_types: tuple[TensorType, ...], arg_types: tuple[TensorType, ...]
    ) -> Functions:
        definition = self._definition
        outputs = self._with_dtypes(in_types, definition.ports.bind(in_types))
        types = Types(in_types, arg_types, outputs)
        dtypes = {*(t.dtype for t in (*in_types, *arg_types)), *(t.dtype for t in outputs)}
        if "float16" in dtypes:
            raise OpabiTypeError(
                f"kernel '{definition.kernel.name}': Numba has no float16 arrays on the CPU. Write "
                "this kernel in C, see opabi.c.compile, or cast to float32 before it."
            )
        path = self._path(types) if self._cache else None
        run, setup = (path and _stored(path)) or self._compile(types, path)
        explainer = Explainer(definition)
        return Functions(run, setup, explainer.user_data, keep=explainer)

    def _compile(self, types: Types, path: Path | None) -> tuple[int, int]:
        from opabi.adapters import numba_compile  # needs the header parsed: 50 ms

        cfuncs = numba_compile.compile_cfuncs(self._definition, types)
        if path:
            texts = {name: cfunc.inspect_llvm() for name, cfunc in cfuncs.items()}
            objects = numba_store.compile_objects(texts)
            loaded = _load(objects) if objects else None
            if objects and loaded:
                numba_store.write(path, objects)
                return loaded
        _kept.extend(cfuncs.values())
        return cfuncs["run"].address, cfuncs["setup"].address if "setup" in cfuncs else 0

    def _with_dtypes(
        self, in_types: Sequence[TensorType], outputs: Sequence[OutputType]
    ) -> tuple[OutputType, ...]:
        """The outputs with those dtypes that the signature leaves open."""
        n_open = sum(output.dtype is None for output in outputs)
        if not n_open:
            return tuple(outputs)
        what = f"kernel '{self._definition.kernel.name}', out_dtypes"
        given = self._definition.out_dtypes
        if callable(given) and not isinstance(given, type):
            given = given(*(np.dtype(t.dtype) for t in in_types))
        if not isinstance(given, tuple | list):
            given = (given,)
        if len(given) != n_open:
            raise OpabiTypeError(
                f"{what}: expected {n_open}, one for each type that is '?', found {len(given)}."
            )
        names = iter([one_dtype(value, what) for value in given])
        return tuple(OutputType(o.dtype or next(names), o.ndim) for o in outputs)

    def _path(self, types: Types) -> Path | None:
        """Where the code is kept, or None if nothing can tell all that it depends on."""
        digest = Digest()
        digest.add(_versions(), numba_store.machine(), _numba_environment())
        digest.add(
            sorted(self._definition.options.items()),
            self._definition.ports,
            types,
            self._definition.rule_arguments,
        )
        try:
            digest.function(self._definition.kernel.function)
            if self._definition.rule:
                digest.function(self._definition.rule.function)
        except NoDigestError:
            return None
        return numba_store.folder() / f"{self._definition.kernel.name[:64]}-{digest.hex()}.obj"


def _stored(path: Path) -> tuple[int, int] | None:
    objects = numba_store.read(path)
    return _load(objects) if objects else None


def _load(objects: dict[str, bytes]) -> tuple[int, int] | None:
    run = numba_store.load_object(objects["run"])
    setup = numba_store.load_object(objects["setup"]) if "setup" in objects else 0
    return None if run is None or setup is None else (run, setup)


@functools.cache
def _versions() -> tuple[str, ...]:
    """What decides the machine code besides the kernel: the compilers, and this adapter itself."""
    own = hashlib.sha256(_abi.declarations().encode())
    for name in ("access", "compile", "source", "specialize", "store"):
        own.update(Path(__file__).with_name(f"numba_{name}.py").read_bytes())
    libraries = (opabi.__version__, numba.__version__, llvmlite.__version__, np.__version__)
    return (*libraries, sys.version, own.hexdigest())


def _numba_environment() -> list[tuple[str, str]]:
    return sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_"))
