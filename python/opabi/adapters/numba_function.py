# SPDX-License-Identifier: Apache-2.0
"""From what the user hands over to a plain function, its ports' names and its named arguments."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
from typing import Any

import numba
import numpy as np
from numba.extending import is_jitted

from opabi.adapters import numba_autograph
from opabi.adapters.numba_ports import Ports
from opabi.errors import OpabiTypeError, OpabiValueError
from opabi.kernel import MISSING, Argument, Kernel

DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64"),
)
_KEPT_OPTIONS = ("fastmath", "boundscheck", "error_model")


@dataclasses.dataclass(frozen=True)
class Source:
    """A function that Numba can compile: every parameter positional, none with a default."""

    name: str
    function: types.FunctionType
    parameters: tuple[str, ...]  # before the '*'
    arguments: tuple[Argument, ...]
    options: dict[str, Any]  # of numba.njit, from a function that came already jitted

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.function) or ""


@dataclasses.dataclass(frozen=True)
class Definition:
    """All that the user gave: the kernel's function, its setup's if there is one, the ports of the
    signature, the dtypes of outputs that it leaves open, and Numba's options."""

    kernel: Source
    rule: Source | None
    ports: Ports
    out_dtypes: Any
    options: dict[str, Any]

    @property
    def scalars(self) -> list[bool]:
        """Which inputs are passed as numbers: those that the signature writes without brackets."""
        return [port.dims is None for port in self.ports.inputs]

    @property
    def rule_arguments(self) -> list[int]:
        """The numbers of the kernel's arguments that setup takes."""
        names = [argument.name for argument in self.kernel.arguments]
        return [names.index(argument.name) for argument in self.rule.arguments] if self.rule else []

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.kernel.parameters[len(self.ports.inputs) :]


def read(thing: Any, name: str | None = None, what: str = "kernel") -> Source:
    """What ``thing`` says: a function, a jitted one, or a partial. Raises OpabiTypeError."""
    thing, keywords, options = _unwrap(thing, what)
    if numba_autograph.is_rewritten(thing):
        thing = numba_autograph.original(thing)
    if inspect.isgeneratorfunction(thing) or inspect.iscoroutinefunction(thing):
        raise OpabiTypeError(
            f"{what} '{thing.__name__}' is a generator or coroutine; write a plain function."
        )
    name = name or thing.__name__
    if what == "kernel" and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise OpabiTypeError(f"{what}: {name!r} cannot be its name. Pass name='...', or use def.")
    parameters, named = _parameters(thing, f"{what} '{name}'")
    unknown = [key for key in keywords if key not in {p.name for p in named}]
    if unknown:
        raise OpabiTypeError(
            f"{what} '{name}': the partial sets '{unknown[0]}', which is no parameter after the "
            "'*'."
        )
    arguments = tuple(_argument(p, keywords, thing, f"{what} '{name}'") for p in named)
    return Source(name, _positional(thing), parameters, arguments, options)


def is_cfunc(thing: Any) -> bool:
    """Whether it is what ``numba.cfunc`` makes."""
    return isinstance(getattr(thing, "address", None), int) and hasattr(thing, "native_name")


def dtype_name(value: Any) -> str | None:
    """The name of an element type: a string, a NumPy or Numba type, or a Python class; or None."""
    if isinstance(value, str):
        return value if value in DTYPES else None
    if isinstance(value, numba.types.Type):
        name = str(value)
        return name if name in DTYPES else None
    if not isinstance(value, type | np.dtype):
        return None
    try:
        name = np.dtype(value).name
    except TypeError:
        return None
    return name if name in DTYPES else None


def _unwrap(thing: Any, what: str) -> tuple[types.FunctionType, dict[str, Any], dict[str, Any]]:
    if isinstance(thing, functools.partial):
        if thing.args:
            raise OpabiTypeError(
                f"{what}: a partial can set named arguments only; this one sets the first "
                f"{len(thing.args)} by position. Write them after a '*' and set them by name."
            )
        function, keywords, options = _unwrap(thing.func, what)
        return function, {**keywords, **thing.keywords}, options
    if is_jitted(thing):
        jitted: Any = thing
        return jitted.py_func, {}, _options(jitted, what)
    if isinstance(thing, types.FunctionType):
        return thing, {}, {}
    raise OpabiTypeError(f"{what}: {_refusal(thing)}")


def _options(dispatcher: Any, what: str) -> dict[str, Any]:
    options = getattr(dispatcher, "targetoptions", {})
    for option, advice in (
        ("parallel", "The host runs samples on its threads already; jit it without parallel=True."),
        ("forceobj", "Object mode needs Python's lock; jit it in nopython mode."),
    ):
        if options.get(option):
            name = dispatcher.py_func.__name__
            raise OpabiTypeError(f"{what} '{name}' is jitted with {option}=True. {advice}")
    return {key: options[key] for key in _KEPT_OPTIONS if options.get(key) is not None}


def _refusal(thing: Any) -> str:
    if isinstance(thing, Kernel):
        return f"'{thing.name}' is a kernel already."
    if is_cfunc(thing):
        return "expected a function, found a cfunc."
    if isinstance(thing, types.MethodType):
        return (
            f"'{thing.__name__}' is a bound method, whose self Numba cannot compile. Make it a "
            "function, and what it needs of self named arguments."
        )
    if isinstance(thing, type):
        return f"'{thing.__name__}' is a class. Write a function that takes inputs and outputs."
    kind = type(thing)
    if isinstance(thing, np.ufunc) or kind.__module__.startswith("numba.np.ufunc"):
        return (
            f"'{getattr(thing, '__name__', 'it')}' is a ufunc. Call it in a function: "
            "def kernel(x, out): out[...] = f(x)"
        )
    if kind.__module__.startswith("numba.cuda"):
        return "it is a CUDA function. This adapter is for the CPU."
    if callable(thing):
        return (
            f"expected a function, found a {kind.__name__}, which is callable but no function that "
            "Numba can compile. Write a function; what the object holds can be named arguments or "
            "globals."
        )
    return f"expected a function, found a {kind.__name__}."


def _parameters(
    function: types.FunctionType, what: str
) -> tuple[tuple[str, ...], tuple[inspect.Parameter, ...]]:
    ports, named = [], []
    for parameter in inspect.signature(function, follow_wrapped=False).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise OpabiTypeError(
                f"{what}: '{stars}{parameter.name}' does not say which ports or arguments there "
                "are. Write one parameter for each, inputs first, outputs last, arguments after a "
                "'*'."
            )
        if parameter.kind is parameter.KEYWORD_ONLY:
            named.append(parameter)
        elif parameter.default is not parameter.empty:
            raise OpabiTypeError(
                f"{what}: '{parameter.name}' has a default, but stands where inputs and outputs "
                "stand. Put named arguments after a '*': (..., *, "
                f"{parameter.name}={parameter.default!r})."
            )
        else:
            ports.append(parameter.name)
    return tuple(ports), tuple(named)


def _argument(
    parameter: inspect.Parameter, keywords: dict[str, Any], function: types.FunctionType, what: str
) -> Argument:
    default = MISSING if parameter.default is parameter.empty else parameter.default
    default = keywords.get(parameter.name, default)
    dtype, ndim = None, None
    if parameter.annotation is not parameter.empty:
        dtype, ndim = _annotation(parameter, function, what)
    return Argument(parameter.name, dtype, ndim, default)


def _annotation(
    parameter: inspect.Parameter, function: types.FunctionType, what: str
) -> tuple[str | None, int | None]:
    """``float32``: a number; ``float32[:, :]``: an array of rank 2; ``float32[...]``: any rank."""
    value = _evaluate(parameter.annotation, function)
    if value is str:
        return "uint8", 1
    if isinstance(value, numba.types.Array) and dtype_name(value.dtype):
        return dtype_name(value.dtype), value.ndim
    if isinstance(value, str):
        scalar, _, inside = value.partition("[")
        if scalar in DTYPES and inside == "...]":
            return scalar, None
        if scalar in DTYPES and re.fullmatch(r"(:(, ?:)*)\]", inside):
            return scalar, inside.count(":")
    dtype = dtype_name(value)
    if dtype is not None:
        return dtype, 0
    raise OpabiTypeError(
        f"{what}: the annotation {parameter.annotation!r} of '{parameter.name}' is no type of an "
        f"argument. Write a dtype ({', '.join(DTYPES)}), str, or an array such as 'float32[:, :]' "
        "or 'float32[...]'."
    )


def _evaluate(annotation: Any, function: types.FunctionType) -> Any:
    """An annotation that is a string may be a type's name, or an expression kept as text."""
    if not isinstance(annotation, str) or annotation.partition("[")[0] in DTYPES:
        return annotation
    try:
        value = eval(annotation, function.__globals__, inspect.getclosurevars(function).nonlocals)
    except Exception:
        return annotation
    return value


def _positional(function: types.FunctionType) -> types.FunctionType:
    """The same function with its keyword-only parameters positional, as Numba passes them."""
    code = function.__code__
    if not code.co_kwonlyargcount and not function.__defaults__:
        return function
    code = code.replace(
        co_argcount=code.co_argcount + code.co_kwonlyargcount,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
    )
    copy = types.FunctionType(
        code, function.__globals__, function.__name__, None, function.__closure__
    )
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    copy.__doc__ = function.__doc__
    return copy


def check_count(source: Source, n_in: int, n_out: int) -> None:
    """Raises OpabiTypeError unless there is one parameter for each port."""
    found = len(source.parameters)
    if found == n_in + n_out:
        return
    names = ", ".join(source.parameters) or "none"
    raise OpabiTypeError(
        f"kernel '{source.name}': the signature has {n_in} input{'s' * (n_in != 1)} and {n_out} "
        f"output{'s' * (n_out != 1)}, so the function takes {n_in + n_out} by position, inputs "
        f"first, outputs last. Found {found}: {names}. Named arguments go after a '*'."
    )


def one_dtype(value: Any, what: str) -> str:
    """The name of an element type. Raises OpabiValueError that lists those there are."""
    name = dtype_name(value)
    if name is None:
        raise OpabiValueError(
            f"{what}: {value!r} is no element type. Write one of {', '.join(DTYPES)}."
        )
    return name
