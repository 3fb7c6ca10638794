# SPDX-License-Identifier: Apache-2.0
"""From a kernel's function to run and setup for one combination of types.

A cfunc is generated that goes over the samples of a call, makes arrays of their tensors, and calls the
user's function. This is what it looks like for ``uint8[h,w] -> uint8[h,w]`` with one argument::

    def run(call):
        base = address(call)
        inputs, outputs, args = load(base + 64), load(base + 72), load(base + 80)
        for s in range(load(base + 40)):
            at = inputs + 48 * (1 * s + 0)
            i0 = readonly(carray(pointer(load(at + 0), uint8), extents(load(at + 24), 2)))
            at = outputs + 48 * (1 * s + 0)
            o0 = carray(pointer(load(at + 0), uint8), extents(load(at + 24), 2))
            at = args + 48 * (1 * s + 0)
            a0 = pointer(load(at + 0), int64)[0]
            try:
                kernel(i0, o0, a0)
            except Exception:
                return explain(call, s, 0)
        return OK
"""

from __future__ import annotations

import functools
import hashlib
import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import types as nt

import opabi
from opabi import _abi
from opabi.adapters import numba_store
from opabi.adapters.numba_digest import Digest, NoDigest
from opabi.adapters.numba_errors import Explainer, Types, compile_error
from opabi.adapters.numba_function import Source, one_dtype
from opabi.adapters.numba_ports import OutputType, Ports
from opabi.errors import OpabiTypeError
from opabi.kernel import Functions, TensorType

MAX_NDIM = 15


class Compiler:
    """Compiles one kernel for the types that arrive; what Kernel.make takes as ``specialize``."""

    def __init__(
        self,
        source: Source,
        ports: Ports,
        rule: Source | None,
        out_dtypes: Callable[..., Any] | Sequence[Any] | None,
        options: dict[str, Any],
        cache: bool,
    ) -> None:
        self.source, self.ports, self.rule, self.out_dtypes = source, ports, rule, out_dtypes
        self.options, self.cache = options, cache
        self._made: dict[Any, Functions] = {}
        self._lock = threading.Lock()

    def __call__(self, in_types: tuple[TensorType, ...], arg_types: tuple[TensorType, ...]) -> Functions:
        with self._lock:
            key = (in_types, arg_types)
            if key not in self._made:
                self._made[key] = self._make(in_types, arg_types)
            return self._made[key]

    def _make(self, in_types: tuple[TensorType, ...], arg_types: tuple[TensorType, ...]) -> Functions:
        outputs = self._output_dtypes(in_types, self.ports.bind(in_types))
        self._refuse_float16(in_types, arg_types, outputs)
        path = self._path(in_types, arg_types, outputs) if self.cache else None
        found = self._stored(path) if path else None
        if found is None:
            found = _Specialization(self, in_types, arg_types, outputs).compile(path)
        run, setup = found
        jitted = numba.njit(**self.options)(self.source.function)
        rule = numba.njit(self.rule.function) if self.rule else None
        scalars = [port.dims is None for port in self.ports.inputs]
        explainer = Explainer(jitted, rule, self.rule_arguments, scalars)
        return Functions(run, setup, explainer.user_data, keep=(explainer, found))

    @property
    def rule_arguments(self) -> list[int]:
        """The numbers of the arguments that setup takes."""
        names = [argument.name for argument in self.source.arguments]
        return [names.index(argument.name) for argument in self.rule.arguments] if self.rule else []

    def _output_dtypes(
        self, in_types: Sequence[TensorType], outputs: Sequence[OutputType]
    ) -> list[OutputType]:
        open_dtypes = sum(output.dtype is None for output in outputs)
        if not open_dtypes:
            return list(outputs)
        what = f"kernel '{self.source.name}', out_dtypes"
        given: Any = self.out_dtypes
        if callable(given) and not isinstance(given, type):
            given = given(*(np.dtype(t.dtype) for t in in_types))
        if not isinstance(given, tuple | list):
            given = (given,)
        if len(given) != open_dtypes:
            raise OpabiTypeError(
                f"{what}: expected {open_dtypes}, one for each '?' that is a type, found {len(given)}."
            )
        names = iter([one_dtype(value, what) for value in given])
        return [o if o.dtype is not None else OutputType(next(names), o.ndim) for o in outputs]

    def _refuse_float16(self, *groups: Iterable[Any]) -> None:
        if any(t.dtype == "float16" for group in groups for t in group):
            raise OpabiTypeError(
                f"kernel '{self.source.name}': Numba has no float16 arrays on the CPU. Write this kernel in "
                "C (see opabi.c.compile), or cast to float32 before it."
            )

    def _path(
        self,
        in_types: Sequence[TensorType],
        arg_types: Sequence[TensorType],
        outputs: Sequence[OutputType],
    ) -> Path | None:
        """Where the compiled code of these types is kept, or None if nothing can tell what it depends on."""
        digest = Digest()
        digest.add(_versions(), numba_store.machine(), _numba_environment())
        digest.add(sorted(self.options.items()), self.ports, tuple(in_types), tuple(arg_types), outputs)
        digest.add(self.rule_arguments)
        try:
            digest.function(self.source.function)
            if self.rule:
                digest.function(self.rule.function)
        except NoDigest:
            return None
        return numba_store.folder() / f"{self.source.name[:64]}-{digest.hex()}.obj"

    @staticmethod
    def _stored(path: Path) -> tuple[int, int] | None:
        entry = numba_store.read(path)
        return _load(entry[1]) if entry else None


def _load(objects: dict[str, bytes]) -> tuple[int, int] | None:
    run = numba_store.load_object(objects["run"])
    setup = numba_store.load_object(objects["setup"]) if "setup" in objects else 0
    return None if run is None or setup is None else (run, setup)


class _Specialization:
    """One compilation."""

    def __init__(
        self,
        compiler: Compiler,
        in_types: Sequence[TensorType],
        arg_types: Sequence[TensorType],
        outputs: Sequence[OutputType],
    ) -> None:
        from opabi.adapters import numba_access

        self.access = numba_access
        self.compiler, self.name = compiler, compiler.source.name
        self.ports = compiler.ports
        self.in_types, self.arg_types, self.outputs = in_types, arg_types, outputs

    def compile(self, path: Path | None) -> tuple[int, int]:
        """The addresses of run and setup (0: none); stored at ``path`` if the code allows it."""
        cfuncs = {}
        if any(port.open or port.type == "?" for port in self.ports.outputs):
            cfuncs["setup"] = self._compile_setup(self.compiler.rule)
        cfuncs["run"] = self._compile_run()
        if path:
            objects = {name: numba_store.compile_object(f.inspect_llvm()) for name, f in cfuncs.items()}
            if all(objects.values()):
                loaded = _load(objects)  # type: ignore[arg-type]
                if loaded is not None:
                    numba_store.write(path, {"kernel": self.name}, objects)  # type: ignore[arg-type]
                    return loaded
        _kept.extend(cfuncs.values())
        return cfuncs["run"].address, cfuncs["setup"].address if "setup" in cfuncs else 0

    # ---- run ----

    def _compile_run(self) -> Any:
        out_types = [TensorType(o.dtype, o.ndim) for o in self.outputs]  # type: ignore[arg-type]
        types = Types(tuple(self.in_types), tuple(self.arg_types), tuple(out_types))
        kernel = self._jit_kernel(types)
        counts = self._counts(kernel.nopython_signatures[0].return_type)
        return self._cfunc("run", self._run_source(out_types, counts), kernel)

    def _jit_kernel(self, types: Types) -> Any:
        def jit(writable: set[int]) -> Any:
            scalars = [port.dims is None for port in self.ports.inputs]
            signature = (
                *(
                    _type(t, readonly=i not in writable, scalar=scalar)
                    for i, (t, scalar) in enumerate(zip(types.inputs, scalars, strict=True))
                ),
                *(_type(t) for t in types.outputs),
                *(_type(t, readonly=True, scalar=t.ndim == 0) for t in types.arguments),
            )
            return numba.njit(signature, **self.compiler.options)(self.compiler.source.function)

        try:
            return jit(set())
        except Exception as error:
            writes = self._written_inputs(jit) if "readonly" in str(error) else []
            raise compile_error(self.name, types, error, writes) from error

    def _written_inputs(self, jit: Callable[[set[int]], Any]) -> list[str]:
        """The names of the inputs that the function writes to: it compiles if they are writable."""
        everything = set(range(len(self.in_types)))

        def compiles(writable: set[int]) -> bool:
            try:
                jit(writable)
            except Exception:
                return False
            return True

        if not compiles(everything):
            return []
        return [self.compiler.source.parameters[i] for i in everything if not compiles(everything - {i})]

    def _counts(self, returned: Any) -> list[tuple[int, int, str]]:
        """Output, dimension and expression for each bounded extent that the kernel returns."""
        places = [(port, d) for port, output in enumerate(self.ports.outputs) for d in output.bounded]
        if not places and returned == nt.none:
            return []
        if not places:
            raise OpabiTypeError(
                f"kernel '{self.name}' returns {returned}. A kernel returns nothing: it writes to its "
                f"outputs ({', '.join(self._output_names())}), which come last."
            )
        if len(places) == 1 and isinstance(returned, nt.Integer):
            return [(*places[0], "result")]
        parts = list(returned) if isinstance(returned, nt.BaseTuple) else []
        if len(parts) != len(places) or not all(isinstance(part, nt.Integer) for part in parts):
            raise OpabiTypeError(
                f"kernel '{self.name}' returns {returned}. It has {len(places)} extents of the form '<=n', so "
                f"it returns {'as many integers, in a tuple' if len(places) > 1 else 'one integer'}: how many "
                "of each it wrote."
            )
        return [(*place, f"result[{i}]") for i, place in enumerate(places)]

    def _output_names(self) -> tuple[str, ...]:
        return self.compiler.source.parameters[len(self.in_types) :]

    def _run_source(self, out_types: Sequence[TensorType], counts: Sequence[tuple[int, int, str]]) -> str:
        access = self.access
        call = functools.partial(access.offset, access.CALL)
        lines = [
            "def run(call):",
            "    base = address(call)",
            f"    inputs, outputs, args = load(base + {call('inputs')}), load(base + {call('outputs')}), "
            f"load(base + {call('args')})",
            f"    actual, row = load(base + {call('out_actual')}), pointer(base + {call('max_ndim')}, int32)[0]",
            f"    for s in range(load(base + {call('n_samples')})):",
        ]
        for i, (t, port) in enumerate(zip(self.in_types, self.ports.inputs, strict=True)):
            lines += self._tensor("inputs", len(self.in_types), i, f"i{i}", t, True, port.dims is None)
        for i, t in enumerate(out_types):
            lines += self._tensor("outputs", len(out_types), i, f"o{i}", t, False, False)
        lines += self._argument_lines(range(len(self.arg_types)))
        names = [
            *(f"i{i}" for i in range(len(self.in_types))),
            *(f"o{i}" for i in range(len(out_types))),
            *(f"a{i}" for i in range(len(self.arg_types))),
        ]
        lines += [
            "        try:",
            f"            result = kernel({', '.join(names)})",
            "        except Exception:",
            "            return explain(call, s, 0)",
        ]
        for port, d, expression in counts:
            at = f"actual + 8 * (({len(out_types)} * s + {port}) * row + {d})"
            lines.append(f"        carray(pointer({at}, int64), 1)[0] = {expression}")
        return "\n".join([*lines, f"    return {access.OK}"])

    def _argument_lines(self, numbers: Iterable[int]) -> list[str]:
        lines = []
        for a in numbers:
            t = self.arg_types[a]
            lines += self._tensor("args", len(self.arg_types), a, f"a{a}", t, True, t.ndim == 0)
        return lines

    def _tensor(
        self, table: str, n: int, i: int, name: str, t: TensorType, readonly: bool, scalar: bool
    ) -> list[str]:
        access = self.access
        at = f"        at = {table} + {access.TENSOR_SIZE} * ({n} * s + {i})"
        data = f"pointer(load(at + {access.DATA}), {t.dtype})"
        if scalar:
            return [at, f"        {name} = {data}[0]"]
        array = f"carray({data}, extents(load(at + {access.SHAPE}), {t.ndim}))"
        return [at, f"        {name} = {f'readonly({array})' if readonly else array}"]

    # ---- setup ----

    def _compile_setup(self, rule: Source | None) -> Any:
        if rule is None:  # only dtypes are open
            return self._cfunc("setup", self._setup_source({}), None)
        shapes = [nt.UniTuple(nt.int64, t.ndim) if t.ndim else nt.Tuple(()) for t in self.in_types]
        arguments = [self.arg_types[a] for a in self.compiler.rule_arguments]
        signature = (*shapes, *(_type(t, readonly=True, scalar=t.ndim == 0) for t in arguments))
        try:
            jitted = numba.njit(signature)(rule.function)
        except Exception as error:
            types = Types(tuple(self.in_types), tuple(self.arg_types), ())
            raise compile_error(f"{self.name}' (its setup) '{rule.name}", types, error) from error
        extents = self._extents(rule, jitted.nopython_signatures[0].return_type)
        self.outputs = [
            OutputType(o.dtype, len(extents[i]) if i in extents else o.ndim) for i, o in enumerate(self.outputs)
        ]
        return self._cfunc("setup", self._setup_source(extents), jitted)

    def _extents(self, rule: Source, returned: Any) -> dict[int, list[str]]:
        """For each output whose shape is open, the expressions of its extents in what setup returns."""
        ports = [i for i, port in enumerate(self.ports.outputs) if port.open]
        parts = [("result", returned)]
        if len(ports) > 1:
            parts = [(f"result[{i}]", part) for i, part in enumerate(_parts(returned))]
        extents = {}
        for i, (text, part) in zip(ports, parts, strict=False):
            integers = [part] if isinstance(part, nt.Integer) else _parts(part)
            one = isinstance(part, nt.Integer)
            if integers and all(isinstance(integer, nt.Integer) for integer in integers):
                extents[i] = [text] if one else [f"{text}[{d}]" for d in range(len(integers))]
            elif part == nt.Tuple(()):
                extents[i] = []
        if len(extents) != len(ports) or len(parts) != len(ports):
            names = ", ".join(f"'{self._output_names()[i]}'" for i in ports)
            raise OpabiTypeError(
                f"kernel '{self.name}': its setup '{rule.name}' returns {returned}. Expected the shape of each "
                f"output that the signature leaves open ({names}): a tuple of integers"
                f"{', and a tuple of these for several outputs' if len(ports) > 1 else ''}."
            )
        for i, found in extents.items():
            expected = self.outputs[i].ndim
            if len(found) > MAX_NDIM or (expected is not None and len(found) != expected):
                raise OpabiTypeError(
                    f"kernel '{self.name}': its setup '{rule.name}' returns {len(found)} extents for output "
                    f"'{self._output_names()[i]}', expected {f'at most {MAX_NDIM}' if expected is None else expected}."
                )
        return extents

    def _setup_source(self, extents: dict[int, list[str]]) -> str:
        access, n_out = self.access, len(self.outputs)
        setup = functools.partial(access.offset, access.SETUP)
        lines = [
            "def setup(setup):",
            "    base = address(setup)",
            f"    inputs, args = load(base + {setup('inputs')}), load(base + {setup('args')})",
            f"    shapes, row = load(base + {setup('out_shape')}), pointer(base + {setup('max_ndim')}, int32)[0]",
            f"    dtypes = carray(pointer(load(base + {setup('out_dtype')}), uint32), {n_out})",
            f"    ndims = carray(pointer(load(base + {setup('out_ndim')}), int32), {n_out})",
        ]
        for i, output in enumerate(self.outputs):
            lines.append(f"    dtypes[{i}] = {_abi.constants['OPABI_' + str(output.dtype).upper()]}")
            lines.append(f"    ndims[{i}] = {output.ndim}")
        if extents:
            lines += self._shape_lines(extents)
        return "\n".join([*lines, f"    return {access.OK}"])

    def _shape_lines(self, extents: dict[int, list[str]]) -> list[str]:
        access, n_in = self.access, len(self.in_types)
        numbers = self.compiler.rule_arguments
        names = [*(f"i{i}" for i in range(n_in)), *(f"a{a}" for a in numbers)]
        lines = [f"    for s in range(load(base + {access.offset(access.SETUP, 'n_samples')})):"]
        for i, t in enumerate(self.in_types):
            at = f"inputs + {access.TENSOR_SIZE} * ({n_in} * s + {i}) + {access.SHAPE}"
            lines.append(f"        i{i} = extents(load({at}), {t.ndim})")
        lines += self._argument_lines(numbers)
        lines += [
            "        try:",
            f"            result = kernel({', '.join(names)})",
            "        except Exception:",
            "            return explain(setup, s, 1)",
        ]
        for port, expressions in extents.items():
            at = f"shapes + 8 * row * ({len(self.outputs)} * s + {port})"
            lines.append(f"        shape = carray(pointer({at}, int64), row)")
            lines += [f"        shape[{d}] = {expression}" for d, expression in enumerate(expressions)]
        return lines

    def _cfunc(self, kind: str, text: str, kernel: Any) -> Any:
        access = self.access
        names = {**vars(np), **vars(access), "bool": np.bool_, "kernel": kernel, "carray": numba.carray}
        filename = f"<opabi {kind} of {self.name}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), names)
        signature = access.run_signature if kind == "run" else access.setup_signature
        return numba.cfunc(signature)(names[kind])


_kept: list[Any] = []  # cfuncs that are not in the store: hosts may call them as long as the process lives


def _type(t: TensorType, readonly: bool = False, scalar: bool = False) -> Any:
    dtype = numba.from_dtype(np.dtype(t.dtype))
    return dtype if scalar else nt.Array(dtype, t.ndim, "C", readonly=readonly)


def _parts(kind: Any) -> list[Any]:
    return list(kind) if isinstance(kind, nt.BaseTuple) else []


@functools.cache
def _versions() -> tuple[str, ...]:
    """What besides the kernel decides the machine code: the compilers, and this adapter itself."""
    own = hashlib.sha256(_abi.declarations().encode())
    for path in sorted(Path(__file__).parent.glob("numba*.py")):
        own.update(path.read_bytes())
    versions = (opabi.__version__, numba.__version__, llvmlite.__version__, np.__version__)
    return (*versions, sys.version, own.hexdigest())


def _numba_environment() -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_")))
