# SPDX-License-Identifier: Apache-2.0
"""From a kernel's functions to compiled run and setup for one combination of types."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numba
import numpy as np
from numba import types as nt

from opabi.adapters import numba_access, numba_source
from opabi.adapters.numba_errors import compile_error
from opabi.adapters.numba_function import Definition
from opabi.adapters.numba_ports import OutputType, Types
from opabi.errors import OpabiTypeError
from opabi.kernel import TensorType

_MAX_NDIM = 15


def compile_cfuncs(definition: Definition, types: Types) -> dict[str, Any]:
    """The cfuncs "run" and, where the signature leaves something open, "setup"."""
    cfuncs = {}
    if any(port.open or port.type == "?" for port in definition.ports.outputs):
        jitted, extents = _compile_rule(definition, types)
        ranks = {port: len(found) for port, found in extents.items()}
        outputs = [
            OutputType(output.dtype, ranks.get(port, output.ndim))
            for port, output in enumerate(types.outputs)
        ]
        types = dataclasses.replace(types, outputs=tuple(outputs))
        text = numba_source.setup(types, definition.rule_arguments, extents)
        cfuncs["setup"] = _cfunc(text, "setup", jitted, numba_access.setup_signature)
    jitted = _compile_kernel(definition, types)
    counts = _counts(definition, jitted.nopython_signatures[0].return_type)
    text = numba_source.run(types, definition.scalars, counts)
    cfuncs["run"] = _cfunc(text, "run", jitted, numba_access.run_signature)
    return cfuncs


def _cfunc(text: str, name: str, jitted: Any, signature: Any) -> Any:
    names = {**vars(np), **vars(numba_access), "bool": np.bool_, "kernel": jitted}
    exec(compile(text, f"<opabi {name}>", "exec"), names)
    return numba.cfunc(signature)(names[name])


def _type(t: TensorType | OutputType, *, readonly: bool = False, scalar: bool = False) -> Any:
    dtype = numba.from_dtype(np.dtype(t.dtype))
    return dtype if scalar else nt.Array(dtype, t.ndim, "C", readonly=readonly)


def _argument_type(t: TensorType) -> Any:
    return _type(t, readonly=True, scalar=t.ndim == 0)


# ---- The kernel ----------------------------------------------------------------------------------


def _compile_kernel(definition: Definition, types: Types) -> Any:
    try:
        return _jit_kernel(definition, types, writable=())
    except Exception as error:
        writes = _written_inputs(definition, types) if "readonly" in str(error) else []
        raise compile_error(definition.kernel.name, types, error, writes) from error


def _jit_kernel(definition: Definition, types: Types, writable: Collection[int]) -> Any:
    inputs = [
        _type(t, readonly=i not in writable, scalar=definition.scalars[i])
        for i, t in enumerate(types.inputs)
    ]
    outputs = [_type(t) for t in types.outputs]
    arguments = [_argument_type(t) for t in types.arguments]
    signature = (*inputs, *outputs, *arguments)
    return numba.njit(signature, **definition.options)(definition.kernel.function)


def _written_inputs(definition: Definition, types: Types) -> list[str]:
    """The names of the inputs that the function writes to: it compiles once they are writable."""
    everything = set(range(len(types.inputs)))

    def compiles(writable: Collection[int]) -> bool:
        try:
            _jit_kernel(definition, types, writable)
        except Exception:
            return False
        return True

    if not compiles(everything):
        return []
    return [definition.kernel.parameters[i] for i in everything if not compiles(everything - {i})]


def _counts(definition: Definition, returned: Any) -> list[tuple[int, int, str]]:
    """Output, dimension and expression for each bounded extent that the kernel returns."""
    outputs = definition.ports.outputs
    places = [(port, d) for port, output in enumerate(outputs) for d in output.bounded]
    what = f"kernel '{definition.kernel.name}' returns {returned}."
    if not places and returned == nt.none:
        return []
    if not places:
        listed = ", ".join(definition.output_names) or "it has none"
        raise OpabiTypeError(
            f"{what} A kernel returns nothing: it writes to its outputs ({listed}), which come "
            "last."
        )
    if len(places) == 1 and isinstance(returned, nt.Integer):
        return [(*places[0], "result")]
    parts = _parts(returned)
    if len(parts) != len(places) or not all(isinstance(part, nt.Integer) for part in parts):
        expected = "one integer" if len(places) == 1 else f"a tuple of {len(places)} integers"
        raise OpabiTypeError(
            f"{what} Expected {expected}: how many it wrote, for each extent of the form '<=n'."
        )
    return [(*place, f"result[{i}]") for i, place in enumerate(places)]


def _parts(kind: Any) -> list[Any]:
    return list(kind) if isinstance(kind, nt.BaseTuple) else []


# ---- Setup ---------------------------------------------------------------------------------------


def _compile_rule(definition: Definition, types: Types) -> tuple[Any, dict[int, list[str]]]:
    """The user's setup compiled, and for each open output the expressions of its extents."""
    rule = definition.rule
    if rule is None:  # only dtypes are open
        return None, {}
    shapes = [nt.UniTuple(nt.int64, t.ndim) if t.ndim else nt.Tuple(()) for t in types.inputs]
    arguments = [_argument_type(types.arguments[a]) for a in definition.rule_arguments]
    try:
        jitted = numba.njit((*shapes, *arguments))(rule.function)
    except Exception as error:
        raise compile_error(f"{definition.kernel.name}: setup", types, error) from error
    returned = jitted.nopython_signatures[0].return_type
    extents = _extents(definition, returned)
    for port, found in extents.items():
        expected = types.outputs[port].ndim
        if len(found) > _MAX_NDIM or (expected is not None and len(found) != expected):
            raise OpabiTypeError(
                f"kernel '{definition.kernel.name}': its setup returns {len(found)} extents for "
                f"output '{definition.output_names[port]}', expected "
                f"{f'at most {_MAX_NDIM}' if expected is None else expected}."
            )
    return jitted, extents


def _extents(definition: Definition, returned: Any) -> dict[int, list[str]]:
    ports = [port for port, output in enumerate(definition.ports.outputs) if output.open]
    shapes: Sequence[tuple[str, Any]] = [("result", returned)]
    if len(ports) > 1:
        shapes = [(f"result[{i}]", part) for i, part in enumerate(_parts(returned))]
    extents = [_expressions(text, shape) for text, shape in shapes]
    if len(extents) == len(ports) and None not in extents:
        return dict(zip(ports, extents, strict=True))  # type: ignore[arg-type]
    names = ", ".join(f"'{definition.output_names[port]}'" for port in ports)
    several = ", and a tuple of these for several outputs" if len(ports) > 1 else ""
    raise OpabiTypeError(
        f"kernel '{definition.kernel.name}': its setup returns {returned}. Expected the shape of "
        f"each output that the signature leaves open ({names}): a tuple of integers{several}."
    )


def _expressions(text: str, shape: Any) -> list[str] | None:
    """The extents in what has this text and type, a tuple of integers or an integer; or None."""
    if isinstance(shape, nt.Integer):
        return [text]
    if not isinstance(shape, nt.BaseTuple) or not all(isinstance(e, nt.Integer) for e in shape):
        return None
    return [f"{text}[{d}]" for d in range(len(shape))]
