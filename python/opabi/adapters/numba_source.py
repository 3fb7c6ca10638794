# SPDX-License-Identifier: Apache-2.0
"""The text of the cfuncs that go over the samples of a call and hand them to the user's function.

This is what comes out for ``uint8[h,w] -> uint8[h,w]`` with one argument::

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
                result = kernel(i0, o0, a0)
            except Exception:
                return explain(call, s, 0)
        return 24589
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opabi import _abi
from opabi.adapters.numba_access import CALL, DATA, OK, SETUP, SHAPE, TENSOR_SIZE, offset
from opabi.adapters.numba_ports import OutputType, Types
from opabi.kernel import TensorType


def run(types: Types, scalars: Sequence[bool], counts: Iterable[tuple[int, int, str]]) -> str:
    """``scalars``: which inputs are passed as numbers. ``counts``: output, dimension and expression
    of
    each actual extent to report."""
    n_in, n_out = len(types.inputs), len(types.outputs)
    lines = [
        "def run(call):",
        "    base = address(call)",
        f"    inputs = load(base + {offset(CALL, 'inputs')})",
        f"    outputs = load(base + {offset(CALL, 'outputs')})",
        f"    args = load(base + {offset(CALL, 'args')})",
        f"    actual = load(base + {offset(CALL, 'out_actual')})",
        f"    row = pointer(base + {offset(CALL, 'max_ndim')}, int32)[0]",
        f"    for s in range(load(base + {offset(CALL, 'n_samples')})):",
    ]
    for i, t in enumerate(types.inputs):
        value = _number(t) if scalars[i] else f"readonly({_array(t)})"
        lines += _tensor("inputs", n_in, i, f"i{i}", value)
    for i, output in enumerate(types.outputs):
        lines += _tensor("outputs", n_out, i, f"o{i}", _array(output))
    lines += _arguments(types.arguments, range(len(types.arguments)))
    names = [*_names("i", n_in), *_names("o", n_out), *_names("a", len(types.arguments))]
    lines += _guarded_call(names, "call", slot=0)
    for port, d, count in counts:
        at = f"actual + 8 * (({n_out} * s + {port}) * row + {d})"
        lines.append(f"        carray(pointer({at}, int64), 1)[0] = {count}")
    return _text(lines)


def setup(types: Types, numbers: Sequence[int], extents: Mapping[int, Sequence[str]]) -> str:
    """``numbers``: which arguments the user's function takes. ``extents``: the expressions of the
    extents
    of each output whose shape it gives."""
    n_out = len(types.outputs)
    lines = [
        "def setup(setup):",
        "    base = address(setup)",
        f"    inputs = load(base + {offset(SETUP, 'inputs')})",
        f"    args = load(base + {offset(SETUP, 'args')})",
        f"    shapes = load(base + {offset(SETUP, 'out_shape')})",
        f"    row = pointer(base + {offset(SETUP, 'max_ndim')}, int32)[0]",
        f"    dtypes = carray(pointer(load(base + {offset(SETUP, 'out_dtype')}), uint32), {n_out})",
        f"    ndims = carray(pointer(load(base + {offset(SETUP, 'out_ndim')}), int32), {n_out})",
    ]
    for i, output in enumerate(types.outputs):
        dtype = _abi.constants[f"OPABI_{output.dtype}".upper()]
        lines += [f"    dtypes[{i}] = {dtype}", f"    ndims[{i}] = {output.ndim}"]
    if extents:
        lines += _shapes(types, numbers, extents)
    return _text(lines)


def _shapes(
    types: Types, numbers: Sequence[int], extents: Mapping[int, Sequence[str]]
) -> list[str]:
    n_in, n_out = len(types.inputs), len(types.outputs)
    lines = [f"    for s in range(load(base + {offset(SETUP, 'n_samples')})):"]
    for i, t in enumerate(types.inputs):
        lines += _tensor("inputs", n_in, i, f"i{i}", f"extents(load(at + {SHAPE}), {t.ndim})")
    lines += _arguments(types.arguments, numbers)
    lines += _guarded_call([*_names("i", n_in), *(f"a{a}" for a in numbers)], "setup", slot=1)
    for port, expressions in extents.items():
        at = f"shapes + 8 * row * ({n_out} * s + {port})"
        lines.append(f"        shape = carray(pointer({at}, int64), row)")
        for d, extent in enumerate(expressions):
            # -1 would pass for an extent that was not set.
            lines += [
                f"        if {extent} < 0:",
                "            return explain(setup, s, 1)",
                f"        shape[{d}] = {extent}",
            ]
    return lines


def _arguments(arguments: Sequence[TensorType], numbers: Iterable[int]) -> list[str]:
    lines = []
    for a in numbers:
        t = arguments[a]
        value = f"readonly({_array(t)})" if t.ndim else _number(t)
        lines += _tensor("args", len(arguments), a, f"a{a}", value)
    return lines


def _tensor(table: str, n: int, i: int, name: str, value: str) -> list[str]:
    return [f"        at = {table} + {TENSOR_SIZE} * ({n} * s + {i})", f"        {name} = {value}"]


def _number(t: TensorType | OutputType) -> str:
    return f"pointer(load(at + {DATA}), {t.dtype})[0]"


def _array(t: TensorType | OutputType) -> str:
    shape = f"extents(load(at + {SHAPE}), {t.ndim})"
    return f"carray(pointer(load(at + {DATA}), {t.dtype}), {shape})"


def _guarded_call(names: Iterable[str], struct: str, slot: int) -> list[str]:
    return [
        "        try:",
        f"            result = kernel({', '.join(names)})",
        "        except Exception:",
        f"            return explain({struct}, s, {slot})",
    ]


def _names(letter: str, n: int) -> list[str]:
    return [f"{letter}{i}" for i in range(n)]


def _text(lines: Iterable[str]) -> str:
    return "\n".join([*lines, f"    return {OK}", ""])
