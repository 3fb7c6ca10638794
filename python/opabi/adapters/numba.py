# SPDX-License-Identifier: Apache-2.0
"""Kernels from Python functions, compiled by Numba for the types that arrive.

::

    @opabi.numba.kernel("T[h,w,c] -> T[h,w,c]")
    def solarize(image, out, *, threshold=128):
        "Inverts what is brighter than the threshold."
        for i in range(image.size):
            value = image.flat[i]
            out.flat[i] = value if value < threshold else 255 - value

The function sees one sample: inputs first, outputs last, named arguments after a ``*``. It writes
its outputs and returns nothing. No types are declared: it is compiled for each combination that
arrives, and kept on disk, so that another process starts at once. See docs/numba.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from opabi.adapters import numba_function, numba_ports
from opabi.adapters.numba_specialize import Specializer
from opabi.errors import OpabiTypeError, OpabiValueError
from opabi.kernel import MISSING, Argument, Kernel, TensorType

if TYPE_CHECKING:
    from opabi.adapters.numba_access import (
        argument,
        call_type,
        fail,
        fields,
        input,
        input_shape,
        layout,
        output,
        run_signature,
        set_actual,
        set_shape,
        setup_signature,
        setup_type,
    )

__all__ = [
    "argument",
    "call_type",
    "fail",
    "fields",
    "input",
    "input_shape",
    "kernel",
    "layout",
    "output",
    "run_signature",
    "set_actual",
    "set_shape",
    "setup_signature",
    "setup_type",
]

_STATUSES = (
    *("OK", "ERROR_VALUE", "ERROR_TYPE", "ERROR_INDEX", "ERROR_UNSUPPORTED", "ERROR_OUT_OF_MEMORY"),
    *("ERROR_DEVICE", "ERROR_INTERNAL", "ERROR_ABI"),
)


def __getattr__(name: str) -> Any:
    """The words for hand-written cfuncs; made at first use, for they need the header parsed."""
    if name in _STATUSES:
        from opabi import _abi

        return _abi.constants[f"OPABI_{name}"]
    if name in __all__:
        from opabi.adapters import numba_access

        return getattr(numba_access, name)
    raise AttributeError(f"module 'opabi.numba' has no attribute {name!r}")


class Decorator:
    """What ``kernel(...)`` returns: applied to a function it gives the kernel."""

    autograph_info__ = None  # conditional pipelines call it as it is, instead of rewriting it

    def __init__(self, make: Callable[[Any], Kernel]) -> None:
        self._make = make

    def __call__(self, function: Any) -> Kernel:
        return self._make(function)


def kernel(
    signature: str,
    *,
    setup: Any = None,
    out_dtypes: Any = None,
    types: Sequence[Any] | str | None = None,
    name: str | None = None,
    doc: str | None = None,
    arguments: Sequence[Argument] | None = None,
    pure: bool = False,
    deterministic: bool = False,
    whole_batch: bool = False,
    fastmath: Any = None,
    boundscheck: bool | None = None,
    error_model: str | None = None,
    cache: bool = True,
) -> Decorator:
    """A decorator that makes a kernel of a function.

    The function takes inputs, then outputs, by position, and named arguments after a ``*``. Ports
    are arrays; an input that the signature writes without brackets (``float32``) is a number.
    Arguments of rank 0 are numbers, strings are arrays of bytes, others arrays. Inputs and
    arguments are read-only. An argument without a default is required; an annotation (``float32``,
    ``int``, ``"float32[:, :]"``) fixes its type.

    The function may be a plain one, jitted already, a partial that sets named arguments, or a
    cfunc of ``run_signature``.

    ``signature``: the ports; the parameters' names are theirs unless it has others.
    ``setup``: for outputs whose shape has a ``?``: a function of the inputs' shapes (tuples, one
    sample) and, after a ``*``, of named arguments of the kernel; it returns the shape of each such
    output.
    ``out_dtypes``: for outputs whose type is ``?``: the dtypes, or a function from the inputs' to
    them.
    ``types``: dtypes to compile for at once, instead of at the first call: one entry for each
    combination, a tuple for several inputs. For an input with an ellipsis a Numba array type, which
    has a rank.
    ``arguments``: for a cfunc only, which has no parameters to tell them from.
    ``pure``, ``deterministic``, ``whole_batch``: claims and demands, see the standard.
    ``fastmath``, ``boundscheck``, ``error_model``: as in ``numba.njit``.
    ``cache``: keep compiled code on disk.

    Raises OpabiTypeError for what cannot be a kernel, OpabiValueError for a wrong signature.
    """
    if not isinstance(signature, str):
        raise OpabiTypeError(
            "numba.kernel needs the signature of the ports, as in "
            '@opabi.numba.kernel("T[h,w,c] -> T[h,w,c]").'
        )
    given = {"fastmath": fastmath, "boundscheck": boundscheck, "error_model": error_model}
    options = {key: value for key, value in given.items() if value is not None}
    traits: dict[str, Any] = {
        "pure": pure,
        "deterministic": deterministic,
        "whole_batch": whole_batch,
    }

    def make(function: Any) -> Kernel:
        if numba_function.is_cfunc(function):
            unused = {"out_dtypes": out_dtypes, "types": types, **options}
            return _from_cfunc(
                function, signature, setup, name, doc, arguments or (), traits, unused
            )
        if arguments is not None:
            raise OpabiTypeError(
                "arguments= is for cfuncs; a function's are its parameters after the '*'."
            )
        source = numba_function.read(function, name)
        ports = numba_ports.read(signature)
        if ports is None:  # the core has the message
            return Kernel.make(
                name=source.name, signature=signature, arguments=source.arguments, run=1
            )
        numba_function.check_count(source, len(ports.inputs), len(ports.outputs))
        rule = _read_rule(setup, source, ports)
        _check_out_dtypes(source, ports, out_dtypes)
        definition = numba_function.Definition(
            source, rule, ports, out_dtypes, {**source.options, **options}
        )
        specialize = Specializer(definition, cache)
        made = Kernel.make(
            name=source.name,
            signature=ports.rename(source.parameters),
            doc=source.doc if doc is None else doc,
            arguments=source.arguments,
            specialize=specialize,
            **traits,
        )
        for entry in _entries(types):
            specialize(_input_types(entry, ports, source), _argument_types(source))
        made.__wrapped__ = function  # type: ignore[attr-defined]
        return made

    return Decorator(make)


kernel.autograph_info__ = None  # type: ignore[attr-defined]


def _from_cfunc(
    function: Any,
    signature: str,
    setup: Any,
    name: str | None,
    doc: str | None,
    arguments: Sequence[Argument],
    traits: dict[str, Any],
    unused: dict[str, Any],
) -> Kernel:
    name = name or function.__name__
    for option, value in unused.items():
        if value is not None:
            raise OpabiTypeError(
                f"kernel '{name}' is a cfunc, compiled already: {option}= has no use."
            )
    _check_cfunc(function, f"kernel '{name}'", "opabi.numba.run_signature")
    if setup is not None:
        if not numba_function.is_cfunc(setup):
            raise OpabiTypeError(f"kernel '{name}' is a cfunc, so its setup is a cfunc too.")
        _check_cfunc(setup, f"kernel '{name}', setup", "opabi.numba.setup_signature")
    return Kernel.make(
        name=name,
        signature=signature,
        doc=doc if doc is not None else (function.__wrapped__.__doc__ or ""),
        arguments=arguments,
        run=function.address,
        setup=setup.address if setup else 0,
        keep=(function, setup),
        **traits,
    )


def _check_cfunc(function: Any, what: str, expected: str) -> None:
    """Numba pointers to any struct are plain pointers to C, so more than this cannot be told."""
    pointer = function.ctypes
    if pointer.restype is not ctypes.c_int32 or list(pointer.argtypes) != [ctypes.c_void_p]:
        raise OpabiTypeError(f"{what}: expected a cfunc of {expected}, found another signature.")


def _read_rule(setup: Any, source: numba_function.Source, ports: numba_ports.Ports) -> Any:
    what = f"kernel '{source.name}'"
    open_shapes = [port.text for port in ports.outputs if port.open]
    if setup is None:
        if open_shapes:
            raise OpabiTypeError(
                f"{what}: the signature leaves the shape of '{open_shapes[0]}' open. Pass setup=, "
                "a function from the inputs' shapes to the outputs'."
            )
        return None
    if not open_shapes:
        raise OpabiTypeError(
            f"{what}: the signature gives every shape, so setup= has no use. Write '?' there."
        )
    rule = numba_function.read(setup, what="setup")
    if len(rule.parameters) != len(ports.inputs):
        raise OpabiTypeError(
            f"{what}: its setup '{rule.name}' takes {len(rule.parameters)} positional parameters, "
            f"expected {len(ports.inputs)}: the shape of each input. Named arguments go after a "
            "'*'."
        )
    known = [argument.name for argument in source.arguments]
    for argument in rule.arguments:
        if argument.name not in known:
            raise OpabiTypeError(
                f"{what}: its setup takes '{argument.name}', which is no argument of the kernel "
                f"({', '.join(known) or 'it has none'})."
            )
    return rule


def _check_out_dtypes(
    source: numba_function.Source, ports: numba_ports.Ports, out_dtypes: Any
) -> None:
    is_open = any(port.type == "?" for port in ports.outputs)
    if is_open == (out_dtypes is not None):
        return
    if is_open:
        raise OpabiTypeError(
            f"kernel '{source.name}': the signature leaves an output's type open. Pass "
            "out_dtypes=, a dtype or a function from the inputs' dtypes to it."
        )
    raise OpabiTypeError(
        f"kernel '{source.name}': out_dtypes= is for outputs whose type is '?'; the signature has "
        "none."
    )


# ---- Ahead of time -------------------------------------------------------------------------------


def _entries(types: Any) -> list[tuple[Any, ...]]:
    if types is None:
        return []
    listed = list(types) if isinstance(types, list | tuple | set) else [types]
    return [entry if isinstance(entry, tuple) else (entry,) for entry in listed]


def _input_types(
    entry: tuple[Any, ...], ports: numba_ports.Ports, source: numba_function.Source
) -> tuple[TensorType, ...]:
    what = f"kernel '{source.name}', types"
    if len(entry) != len(ports.inputs):
        raise OpabiTypeError(
            f"{what}: {entry!r} has {len(entry)} types, expected {len(ports.inputs)}."
        )
    found = []
    for value, port in zip(entry, ports.inputs, strict=True):
        if isinstance(value, numba.types.Array):
            found.append(TensorType(numba_function.one_dtype(value.dtype, what), value.ndim))
        elif port.ellipsis() is not None:
            raise OpabiValueError(
                f"{what}: '{port.text}' has any rank. Write a Numba type, which has one: "
                "numba.uint8[:, :]."
            )
        else:
            found.append(TensorType(numba_function.one_dtype(value, what), len(port.dims or ())))
    return tuple(found)


def _argument_types(source: numba_function.Source) -> tuple[TensorType, ...]:
    """The types that arguments have when the caller passes Python numbers like the defaults."""
    found = []
    for declared in source.arguments:
        dtype, ndim = declared.dtype, declared.ndim
        if declared.default is not MISSING:
            value = declared.default
            array = (
                np.frombuffer(value.encode(), np.uint8)
                if isinstance(value, str)
                else np.asarray(value)
            )
            dtype, ndim = dtype or array.dtype.name, array.ndim if ndim is None else ndim
        if dtype is None or ndim is None:
            raise OpabiTypeError(
                f"kernel '{source.name}': types= needs the type of argument '{declared.name}' too. "
                f"Annotate it ('float32', 'float32[:]') or give it a default."
            )
        found.append(TensorType(dtype, ndim))
    return tuple(found)
