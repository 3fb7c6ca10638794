# SPDX-License-Identifier: Apache-2.0
"""Kernels from CUDA functions: a handle that any compiler gives, and what its parameters are.

``kernel`` takes a handle and a ``Launch``; the adapters for CuPy and numba-cuda use the same parts.
``compile`` makes a library of CUDA C++ source whose kernels launch themselves, with nvcc.
"""

from __future__ import annotations

import dataclasses
import numbers
import os
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opabi.errors import OpabiTypeError, OpabiValueError
from opabi.kernel import Argument, Functions, Kernel, TensorType

__all__ = ["Const", "Launch", "compile", "extent", "kernel", "numel", "stride"]

_Types = tuple[TensorType, ...]

_OUTPUTS, _ARGUMENTS = 64, 128
_BATCH, _POINTER, _EXTENT, _STRIDE, _NUMEL, _VALUE, _SAMPLE, _CONSTANT = range(8)

BATCH_WORDS = 1016
"""OPABI_BATCH_WORDS of opabi/opabi.cuh, where parameters may have more than 4 KB."""
SMALL_BATCH_WORDS = 504


@dataclasses.dataclass(frozen=True)
class Const:
    """A parameter with a fixed value: ``Const(3, "int32")``."""

    value: float | int | bool
    dtype: str = "int32"


@dataclasses.dataclass(frozen=True)
class _Part:
    kind: int
    port: str
    dim: int = -1
    size: int = 8
    in_bytes: bool = False


def extent(port: str, dim: int, dtype: str = "int32") -> _Part:
    """A parameter with an extent of an input or output."""
    return _Part(_EXTENT, port, dim, np.dtype(dtype).itemsize)


def stride(port: str, dim: int, dtype: str = "int64", *, in_bytes: bool = False) -> _Part:
    """A parameter with a stride, counted in elements or bytes."""
    return _Part(_STRIDE, port, dim, np.dtype(dtype).itemsize, in_bytes)


def numel(port: str, dtype: str = "int32") -> _Part:
    """A parameter with the number of elements."""
    return _Part(_NUMEL, port, -1, np.dtype(dtype).itemsize)


@dataclasses.dataclass(frozen=True)
class Launch:
    """How a function is launched.

    ``block``      threads, one to three numbers
    ``grid``       for each axis what its blocks are counted over: ``"h"``, ``"h*w"`` (dimensions)
                   or ``"out"`` (a port's elements); by default the elements of output 0
    ``per_block``  how much of it one block does, by default its threads of that axis
    ``parameters`` None for one ``OPABI_BATCH`` of opabi.cuh, and one launch for the batch; else a
                   launch for each sample, with a list of ports' names (their data), dimensions
                   (as int32), arguments' names (the value; an array's data), ``extent()``,
                   ``stride()``, ``numel()``, ``Const`` and ``"sample"``
    ``shared``     bytes of dynamic shared memory
    ``by_total``   one row of blocks for the batch's total extent, where samples differ much in size
    """

    block: int | Sequence[int] = 256
    grid: str | Sequence[str] | None = None
    per_block: int | Sequence[int] | None = None
    parameters: Sequence[Any] | None = None
    shared: int = 0
    by_total: bool = False


def kernel(
    function: Any,
    signature: str,
    launch: Launch | None = None,
    *,
    name: str | None = None,
    doc: str = "",
    arguments: Sequence[Argument] = (),
    device_id: int = 0,
    setup: int = 0,
    **traits: Any,
) -> Kernel:
    """A kernel from a CUDA function that is loaded on ``device_id``.

    ``function`` is a CUfunction or CUkernel as an integer, or an object that has one: compiled
    kernels of CuPy, cuda.core and Triton. It is kept as long as the kernel lives.
    """
    handle = handle_of(function)
    return from_compiler(
        lambda inputs, values, device: (handle, function),
        signature,
        lambda inputs, values: launch or Launch(),
        name=name or _name_of(function),
        doc=doc,
        arguments=arguments,
        device_id=device_id,
        setup=setup,
        **traits,
    )


def from_compiler(
    compile_for: Callable[..., tuple[int, Any]],
    signature: str,
    launch_for: Callable[..., Launch],
    *,
    name: str,
    device_id: int | None = None,
    arguments: Sequence[Argument] = (),
    setup: int = 0,
    words: Callable[[], int] = lambda: BATCH_WORDS,
    **fields: Any,
) -> Kernel:
    """A kernel of what ``compile_for(inputs, arguments, device)`` gives: a handle, what to keep."""
    ports = _parse(signature)

    def specialize(
        inputs: tuple[TensorType, ...], values: tuple[TensorType, ...], device: int
    ) -> Functions:
        from opabi import _core

        handle, keep = compile_for(inputs, values, device)
        launch = launch_for(inputs, values)
        program = _core.CudaProgram(
            {
                "name": name,
                "function": handle,
                "device_id": device if device_id is None else device_id,
                **_rule(launch, ports, arguments),
                "batch_words": words(),
                "setup": setup,
                "setup_data": 0,
                "keep": keep,
            }
        )
        return Functions(program.run, program.setup, program.user_data, program)

    return Kernel.make(
        name=name,
        signature=signature,
        arguments=arguments,
        device="cuda",
        specialize=specialize,
        whole_batch=True,
        **fields,
    )


def handle_of(function: Any) -> int:
    """The CUfunction in an object: an integer, or what CuPy, cuda.core and Triton call it."""
    if isinstance(function, numbers.Integral) and not isinstance(function, bool):
        return int(function)
    for path in ("kernel.ptr", "ptr", "handle", "_handle", "function"):
        found = function
        for attribute in path.split("."):
            found = getattr(found, attribute, None)
        if found is not None:
            try:
                return int(found)
            except (TypeError, ValueError):
                continue
    raise OpabiTypeError(
        "expected a CUDA function: a CUfunction as an integer, or a compiled kernel of CuPy, "
        f"cuda.core or Triton, found {type(function).__name__}."
    )


def _name_of(function: Any) -> str:
    name = getattr(function, "name", None) or getattr(function, "__name__", None)
    return name if isinstance(name, str) and name.isidentifier() else "kernel"


_Row = tuple[int, int, int, int, int]
"""A Param of src/cuda/launch.h."""

# ---- Names of a signature to numbers -------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Ports:
    numbers: dict[str, int]
    dims: dict[str, tuple[int, int]]
    n_outputs: int


def _parse(signature: str) -> _Ports:
    from opabi import _core

    parsed = _core.parse_signature(signature)
    found: dict[str, int] = {}
    dims: dict[str, tuple[int, int]] = {}
    for kind, base in (("inputs", 0), ("outputs", _OUTPUTS)):
        for i, port in enumerate(parsed[kind]):
            found[f"{'in' if base == 0 else 'out'}{i}"] = base + i
            if port["name"]:
                found[port["name"]] = base + i
            listed = re.search(r"\[(.*)\]", port["text"])
            for d, dim in enumerate(listed.group(1).split(",") if listed else ()):
                if dim.strip().isidentifier():
                    dims.setdefault(dim.strip(), (base + i, d))
    if len(parsed["inputs"]) == 1:
        found.setdefault("in", 0)
    if len(parsed["outputs"]) == 1:
        found.setdefault("out", _OUTPUTS)
    return _Ports(found, dims, len(parsed["outputs"]))


def _rule(launch: Launch, ports: _Ports, arguments: Sequence[Argument]) -> dict[str, Any]:
    block = _list(launch.block)
    grid = _list(launch.grid) if launch.grid is not None else ["out0" if ports.n_outputs else "in0"]
    per_block = _list(launch.per_block) if launch.per_block is not None else block
    if not (1 <= len(block) <= 3 and 1 <= len(grid) <= 3):
        raise OpabiValueError(f"expected one to three axes of block and grid, found {launch}.")
    per_block += [1] * (len(grid) - len(per_block))
    if launch.parameters is None and len(grid) > 1:
        raise OpabiValueError(
            "a launch for the whole batch counts its blocks over one extent: write grid='h*w', or "
            "declare parameters."
        )
    parameters = [(_BATCH, 0, 0, 0, 0)]
    if launch.parameters is not None:
        parameters = [_parameter(part, ports, arguments) for part in launch.parameters]
    return {
        "params": parameters,
        "axes": [
            ([_factor(name, ports) for name in axis.split("*")], per)
            for axis, per in zip(grid, per_block, strict=False)
        ],
        "block": block,
        "shared_bytes": launch.shared,
        "per_sample": launch.parameters is not None,
        "by_total": launch.by_total,
    }


def _list(value: Any) -> list[Any]:
    return [value] if isinstance(value, (int, str)) else list(value)


def _factor(name: str, ports: _Ports) -> tuple[int, int]:
    name = name.strip()
    if name in ports.dims:
        return ports.dims[name]
    if name in ports.numbers:
        return ports.numbers[name], -1
    raise OpabiValueError(
        f"grid: the signature has no dimension or port '{name}'. It has {_known(ports)}."
    )


def _known(ports: _Ports) -> str:
    return ", ".join([*ports.dims, *ports.numbers])


def _port(name: str, ports: _Ports) -> int:
    if name not in ports.numbers:
        raise OpabiValueError(f"the signature has no port '{name}'. It has {_known(ports)}.")
    return ports.numbers[name]


def _parameter(
    part: Any, ports: _Ports, arguments: Sequence[Argument]
) -> tuple[int, int, int, int, int]:
    names = [argument.name for argument in arguments]
    if isinstance(part, _Part):
        return part.kind, _port(part.port, ports), part.dim, part.size, int(part.in_bytes)
    if isinstance(part, Const):
        data = np.asarray(part.value, part.dtype).tobytes()
        return _CONSTANT, 0, 0, len(data), struct.unpack("<Q", data.ljust(8, b"\0"))[0]
    if part == "sample":
        return _SAMPLE, 0, 0, 4, 0
    if part in ports.numbers:
        return _POINTER, ports.numbers[part], 0, 8, 0
    if part in names:
        number, scalar = _ARGUMENTS + names.index(part), arguments[names.index(part)].ndim == 0
        return (_VALUE if scalar else _POINTER), number, 0, 8, 0
    if part in ports.dims:
        return (_EXTENT, *ports.dims[part], 4, 0)
    raise OpabiValueError(
        f"parameter {part!r}: expected the name of a port, dimension or argument ({_known(ports)}"
        f"{''.join(f', {name}' for name in names)}), extent(), stride(), numel(), Const or "
        "'sample'."
    )


def compile(
    source: str | os.PathLike[str],
    *,
    name: str | None = None,
    flags: Sequence[str] = (),
    compiler: Any = None,
) -> Any:
    """Compiles CUDA C++ with nvcc into a library of kernels, once, and loads it.

    ``source`` is a ``.cu`` file, or source text that exports ``opabi_library_v1``. ``flags`` name
    the GPUs to compile for, by default ``-arch=native``. The rest is as in ``opabi.c.compile``.
    """
    from opabi.adapters import c, c_build

    text = isinstance(source, str) and "\n" in source
    read = c_build.read_source(source, name, "cuda" if text else None)
    if not any(flag.startswith(("-arch", "-gencode", "--gpu")) for flag in flags):
        flags = ("-arch=native", *flags)
    return c.Library(c_build.build(read, flags, compiler))
