# SPDX-License-Identifier: Apache-2.0
"""Kernels for the GPU that numba-cuda compiles: functions over arrays, as ``@numba.cuda.jit`` has.

Each sample is a launch. Where samples are small and many, ``opabi.cupy`` does a batch in one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opabi.adapters import cuda
from opabi.adapters.cuda import Const, Launch
from opabi.errors import OpabiRuntimeError, OpabiTypeError
from opabi.kernel import MISSING, Argument, Kernel, TensorType

__all__ = ["kernel"]

_ANNOTATIONS = {float: "float32", int: "int32", bool: "bool"}


def kernel(
    signature: str,
    *,
    grid: str | Sequence[str] | None = None,
    block: int | Sequence[int] = 256,
    shared: int = 0,
    name: str | None = None,
    **traits: Any,
) -> Callable[[Callable[..., Any]], Kernel]:
    """Makes a kernel of a function over the arrays of one sample::

        @opabi.numba_cuda.kernel("x: T[h,w] -> y: T[h,w]", grid=("h", "w"), block=(16, 16))
        def brighten(x, y, *, gain: float = 1.2):
            i, j = cuda.grid(2)
            if i < x.shape[0] and j < x.shape[1]:
                y[i, j] = min(255, x[i, j] * gain)

    Parameters are the inputs, then the outputs; after ``*`` the named arguments, annotated
    ``float`` (float32), ``int`` (int32), ``bool`` or with a NumPy scalar type. ``grid`` says what
    each axis of blocks is counted over, by default the elements of output 0; ``cuda.grid`` goes
    over all threads. numba-cuda compiles the function for the dtypes that arrive.
    """

    def decorate(function: Callable[..., Any]) -> Kernel:
        function = getattr(function, "py_func", function)
        label = name or function.__name__
        arguments = _arguments(function, label)
        launches: dict[Any, Launch] = {}

        def compile_for(
            inputs: tuple[TensorType, ...], values: tuple[TensorType, ...], device: int
        ) -> tuple[int, Any]:
            from opabi import _core

            tensors = _tensors(signature, inputs)
            launches[inputs, values] = Launch(
                block=block, grid=grid, parameters=_parameters(tensors, arguments), shared=shared
            )
            ptx, entry = _compile(function, label, [t for _, t in tensors], values, device)
            return _core.load_cuda_function(device, ptx.encode(), entry), None

        return cuda.from_compiler(
            compile_for,
            signature,
            lambda inputs, values: launches[inputs, values],
            name=label,
            arguments=arguments,
            doc=inspect.getdoc(function) or "",
            **traits,
        )

    return decorate


def _arguments(function: Callable[..., Any], label: str) -> list[Argument]:
    found = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        kind = parameter.annotation
        dtype = _ANNOTATIONS.get(kind)
        if dtype is None and isinstance(kind, type) and issubclass(kind, np.generic):
            dtype = np.dtype(kind).name
        if dtype is None:
            raise OpabiTypeError(
                f"kernel '{label}', argument '{parameter.name}': expected the annotation float, "
                f"int, bool or a NumPy scalar type, found {kind!r}."
            )
        default = MISSING if parameter.default is inspect.Parameter.empty else parameter.default
        found.append(Argument(parameter.name, dtype, 0, default))
    return found


def _tensors(signature: str, inputs: tuple[TensorType, ...]) -> list[tuple[str, TensorType]]:
    """Name, dtype and rank of each input and output."""
    from opabi import _core

    parsed = _core.parse_signature(signature)
    variables: dict[str, str] = {}
    found = []
    for i, (port, arrived) in enumerate(zip(parsed["inputs"], inputs, strict=True)):
        variables[_type_name(port)] = arrived.dtype
        found.append((f"in{i}", arrived))
    ranks = {arrived.ndim for arrived in inputs}
    for i, port in enumerate(parsed["outputs"]):
        dtype = variables.get(_type_name(port), _type_name(port))
        ndim = port["ndim"]
        if ndim is None and len(ranks) == 1 and re.search(r"\[\s*\.\.\.\w*\s*\]", port["text"]):
            ndim = ranks.pop()
        if ndim is None or dtype == "?":
            raise OpabiTypeError(
                f"numba_cuda: output {i} of '{signature}' needs a dtype and a rank."
            )
        found.append((f"out{i}", TensorType(dtype, ndim)))
    return found


def _type_name(port: Any) -> str:
    text = port["text"].split(":", 1)[-1] if port["name"] else port["text"]
    matched = re.match(r"\s*(\w+|\?)", text)
    return matched.group(1) if matched else ""


def _parameters(
    tensors: Sequence[tuple[str, TensorType]], arguments: Sequence[Argument]
) -> list[Any]:
    """An array to numba-cuda: two owners, two counts, data, extents, strides in bytes."""
    found: list[Any] = []
    for port, tensor in tensors:
        item = np.dtype(tensor.dtype).itemsize
        found += [
            Const(0, "int64"),
            Const(0, "int64"),
            cuda.numel(port, "int64"),
            Const(item, "int64"),
            port,
        ]
        found += [cuda.extent(port, d, "int64") for d in range(tensor.ndim)]
        found += [cuda.stride(port, d, in_bytes=True) for d in range(tensor.ndim)]
    return [*found, *(argument.name for argument in arguments)]


def _compile(
    function: Callable[..., Any],
    label: str,
    tensors: Sequence[TensorType],
    values: Sequence[TensorType],
    device: int,
) -> tuple[str, str]:
    try:
        from numba import cuda as compiler
        from numba import types
    except Exception as error:
        raise OpabiRuntimeError(
            f"numba-cuda does not load ({type(error).__name__}: {error}). It needs a NumPy that it "
            "knows: see its documentation, or install 'numba-cuda' and an older NumPy."
        ) from error
    scalars = [
        getattr(types, value.dtype if value.dtype != "bool" else "boolean") for value in values
    ]
    arrays = [
        types.Array(
            getattr(types, tensor.dtype if tensor.dtype != "bool" else "boolean"), tensor.ndim, "C"
        )
        for tensor in tensors
    ]
    try:
        signature = types.void(*arrays, *scalars)
        ptx, _ = compiler.compile(
            _positional(function), signature, device=False, abi="numba", output="ptx"
        )
    except Exception as error:
        raise OpabiRuntimeError(f"numba-cuda could not compile '{label}':\n{error}") from error
    text = ptx.decode() if isinstance(ptx, bytes) else ptx
    entry = re.search(r"\.entry\s+([\w$]+)", text)
    if entry is None:
        raise OpabiRuntimeError(f"numba-cuda compiled '{label}' to no kernel.")
    return text, entry.group(1)


def _positional(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its named arguments as positional ones, which is all numba-cuda knows."""
    import types

    code = function.__code__
    made = types.FunctionType(
        code.replace(co_argcount=code.co_argcount + code.co_kwonlyargcount, co_kwonlyargcount=0),
        function.__globals__,
        function.__name__,
        None,
        function.__closure__,
    )
    made.__module__ = function.__module__
    made.__qualname__ = function.__qualname__
    return made
