# SPDX-License-Identifier: Apache-2.0
"""Kernels for the GPU that CuPy compiles.

``kernel``       a ``cupy.RawKernel``, or a function of a ``cupy.RawModule``
``source``       CUDA C++ source, with templates made for the dtypes that arrive
``elementwise``  an expression for each element: ``"out = 255 - in"``

Device code finds a batch through ``#include <opabi/opabi.cuh>``; ``options()`` are what it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opabi import _abi
from opabi.adapters import cuda
from opabi.adapters.cuda import Launch
from opabi.errors import OpabiRuntimeError, OpabiTypeError, OpabiValueError
from opabi.kernel import Argument, Kernel, TensorType

__all__ = ["Launch", "elementwise", "kernel", "options", "source"]

C_TYPES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "float16": "__half",
    "float32": "float",
    "float64": "double",
}

_BLOCK = 256
_UNROLL = 4  # kTransformUnroll of opabi.cuh
_VECTOR_BYTES = 16


def options() -> tuple[str, ...]:
    """What NVRTC needs for code that includes ``<opabi/opabi.cuh>``."""
    flags = ("--std=c++17", f"-I{_abi.include_dir()}")
    return flags if _words() == cuda.BATCH_WORDS else (*flags, f"-DOPABI_BATCH_WORDS={_words()}")


def _words() -> int:
    """NVRTC allows parameters of more than 4 KB since 12.1."""
    from cupy.cuda import nvrtc

    return cuda.BATCH_WORDS if nvrtc.getVersion() >= (12, 1) else cuda.SMALL_BATCH_WORDS


def kernel(
    function: Any,
    signature: str,
    launch: Launch | None = None,
    *,
    name: str | None = None,
    arguments: Sequence[Argument] = (),
    **fields: Any,
) -> Kernel:
    """A kernel of a ``cupy.RawKernel``; CuPy compiles it for each device where it is called.

    Without ``launch.parameters`` the function takes one ``OPABI_BATCH``: a batch is one launch.
    """
    if not hasattr(function, "kernel"):
        raise OpabiTypeError(
            "expected a cupy.RawKernel or a function of a cupy.RawModule, found "
            f"{type(function).__name__}. Source text goes to opabi.cupy.source."
        )
    return _make(
        lambda inputs, values: function,
        signature,
        lambda inputs, values: launch or Launch(),
        name or str(function.name),
        arguments,
        fields,
    )


def source(
    code: str,
    signature: str,
    entry: str,
    launch: Launch | Callable[..., Launch] | None = None,
    *,
    name: str | None = None,
    arguments: Sequence[Argument] = (),
    flags: Sequence[str] = (),
    **fields: Any,
) -> Kernel:
    """A kernel of CUDA C++ source, compiled at the first call for each combination of dtypes.

    ``entry`` is the function's name, or a template with the signature's type variables:
    ``"invert<{T}>"``. ``launch`` may be a function of the types of inputs and arguments.
    """

    def function_for(inputs: tuple[TensorType, ...], values: tuple[TensorType, ...]) -> Any:
        found = entry.format(**bind(signature, inputs))
        return compile_source(code, found, flags, template="{" in entry or "<" in entry)

    def launch_for(inputs: tuple[TensorType, ...], values: tuple[TensorType, ...]) -> Launch:
        return launch(inputs, values) if callable(launch) else launch or Launch()

    plain = re.match(r"\w+", entry.rpartition("::")[2])
    made = name or (plain.group() if plain else "kernel")
    return _make(function_for, signature, launch_for, made, arguments, fields)


def elementwise(
    expression: str,
    signature: str,
    *,
    name: str = "elementwise",
    arguments: Sequence[Argument] = (),
    preamble: str = "",
    **fields: Any,
) -> Kernel:
    """A kernel of one statement for each element: ``"out = 255 - in"``, ``"y = gain * x"``.

    Names are those of the ports and arguments; without a name, the input is ``in`` (``in0``,
    ``in1``, ... where there are several) and the one output ``out``. All have the same number of
    elements. Whatever the samples' sizes and addresses, memory is accessed 16 bytes at a time.
    """
    from opabi import _core

    parsed = _core.parse_signature(signature)
    if len(parsed["outputs"]) != 1 or not parsed["inputs"]:
        raise OpabiValueError(
            f"elementwise: expected at least one input and one output, found '{signature}'."
        )
    if any(argument.ndim != 0 or argument.dtype is None for argument in arguments):
        raise OpabiValueError("elementwise: expected arguments with a dtype and ndim=0.")
    inputs = [
        port["name"] or ("in" if len(parsed["inputs"]) == 1 else f"in{i}")
        for i, port in enumerate(parsed["inputs"])
    ]
    output = parsed["outputs"][0]["name"] or "out"

    def types_of(found: tuple[TensorType, ...]) -> tuple[list[str], str]:
        variables = {
            name: dtype for name, dtype in zip(_type_names(parsed["inputs"]), found, strict=True)
        }
        wanted = _type_names(parsed["outputs"])[0]
        made = variables[wanted].dtype if wanted in variables else wanted
        if made not in C_TYPES:
            raise OpabiValueError(
                f"elementwise: the output's type '{wanted}' is not known from the inputs."
            )
        return [port.dtype for port in found], made

    def function_for(found: tuple[TensorType, ...], values: tuple[TensorType, ...]) -> Any:
        in_types, out_type = types_of(found)
        return compile_source(
            _elementwise_code(
                expression,
                preamble,
                list(zip(inputs, in_types, strict=True)),
                (output, out_type),
                arguments,
            ),
            "opabi_elementwise",
        )

    def launch_for(found: tuple[TensorType, ...], values: tuple[TensorType, ...]) -> Launch:
        in_types, out_type = types_of(found)
        largest = max(np.dtype(dtype).itemsize for dtype in (*in_types, out_type))
        return Launch(
            block=_BLOCK, per_block=_BLOCK * _UNROLL * (_VECTOR_BYTES // largest), grid="out0"
        )

    return _make(
        function_for,
        signature,
        launch_for,
        name,
        arguments,
        {"pure": True, "capture_safe": True, **fields},
    )


def _elementwise_code(
    expression: str,
    preamble: str,
    inputs: Sequence[tuple[str, str]],
    output: tuple[str, str],
    arguments: Sequence[Argument],
) -> str:
    half = (
        "#include <cuda_fp16.h>\n" if "float16" in {dtype for _, dtype in (*inputs, output)} else ""
    )
    values = "".join(
        f"  const {C_TYPES[str(a.dtype)]} {a.name} = sample_.arg<{C_TYPES[str(a.dtype)]}>({i});\n"
        for i, a in enumerate(arguments)
    )
    parameters = ", ".join(f"{C_TYPES[dtype]} {name}" for name, dtype in inputs)
    pointers = "".join(
        f", sample_.in<{C_TYPES[dtype]}>({i})" for i, (_, dtype) in enumerate(inputs)
    )
    name, made = output[0], C_TYPES[output[1]]
    return (
        f"{half}#include <opabi/opabi.cuh>\n{preamble}\n"
        'extern "C" __global__ void opabi_elementwise(OPABI_BATCH(batch_)) {\n'
        "  const opabi::part part_ = batch_.mine();\n"
        "  const opabi::sample sample_{batch_, part_.row};\n"
        f"{values}"
        f"  const auto each_ = [=]({parameters}) {{\n"
        f"    {made} {name};\n    {expression};\n    return {name};\n  }};\n"
        "  opabi::transform_part(part_, sample_.extent(), each_, "
        f"sample_.out<{made}>(0){pointers});\n"
        "}\n"
    )


def compile_source(
    code: str, entry: str, flags: Sequence[str] = (), *, template: bool = False
) -> Any:
    """The function ``entry`` as CuPy compiles it for the current device."""
    import cupy

    names = {"name_expressions": (entry,)} if template else {}
    try:
        module = cupy.RawModule(code=code, options=(*options(), *flags), **names)
        function = module.get_function(entry)
        function.kernel  # noqa: B018  compiles
    except cupy.cuda.compiler.CompileException as error:
        raise OpabiRuntimeError(f"CuPy could not compile '{entry}':\n{error}") from error
    return function


def bind(signature: str, inputs: tuple[TensorType, ...]) -> dict[str, str]:
    """The C types of the signature's type variables."""
    from opabi import _core

    names = _type_names(_core.parse_signature(signature)["inputs"])
    return {name: C_TYPES[found.dtype] for name, found in zip(names, inputs, strict=True)}


def _type_names(ports: Sequence[Any]) -> list[str]:
    """The type of each port as it stands in the signature."""
    found = []
    for port in ports:
        text = port["text"].split(":", 1)[-1] if port["name"] else port["text"]
        found.append(re.match(r"\s*(\w+|\?)", text).group(1))  # type: ignore[union-attr]
    return found


def _make(
    function_for: Callable[..., Any],
    signature: str,
    launch_for: Callable[..., Launch],
    name: str,
    arguments: Sequence[Argument],
    fields: dict[str, Any],
) -> Kernel:
    def compile_for(inputs: Any, values: Any, device: int) -> tuple[int, Any]:
        import cupy

        with cupy.cuda.Device(device):
            function = function_for(inputs, values)
            return int(function.kernel.ptr), function

    return cuda.from_compiler(
        compile_for, signature, launch_for, name=name, arguments=arguments, words=_words, **fields
    )
