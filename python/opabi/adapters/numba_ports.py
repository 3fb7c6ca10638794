# SPDX-License-Identifier: Apache-2.0
"""The ports of a signature as the Numba adapter needs them: names, types, and what is left open.

The core parses and checks signatures. This reads one that it accepts, or returns None: the caller
then hands the text to the core, whose message is the better one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from opabi.kernel import TensorType

_PORT = re.compile(r"\s*(?:(\w+)\s*:)?\s*(\w+|\?)\s*(?:\[(.*)\])?\s*(?:@\s*\w+\s*)?", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Port:
    text: str
    name: str
    type: str
    dims: tuple[str, ...] | None  # None: written without brackets

    @property
    def open(self) -> bool:
        """Whether setup has to give its shape or a part of it."""
        return any("?" in dim for dim in self.dims or ())

    @property
    def bounded(self) -> tuple[int, ...]:
        """The dimensions whose actual extent the kernel decides."""
        return tuple(d for d, dim in enumerate(self.dims or ()) if dim.startswith("<="))

    def ellipsis(self) -> str | None:
        return next((dim for dim in self.dims or () if dim.startswith("...")), None)


@dataclasses.dataclass(frozen=True)
class OutputType:
    """What the inputs' types say of an output; None: setup decides."""

    dtype: str | None
    ndim: int | None


@dataclasses.dataclass(frozen=True)
class Ports:
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def bind(self, in_types: Sequence[TensorType]) -> tuple[OutputType, ...]:
        """The outputs' types for inputs of these types, which the core has checked."""
        dtypes: dict[str, str] = {}
        ranks: dict[str, int] = {}
        for port, found in zip(self.inputs, in_types, strict=True):
            dtypes.setdefault(port.type, found.dtype)
            ellipsis = port.ellipsis()
            if ellipsis is not None:
                ranks.setdefault(ellipsis, found.ndim - len(port.dims or ()) + 1)
        outputs = []
        for port in self.outputs:
            dtype = None if port.type == "?" else dtypes.get(port.type, port.type)
            ellipsis = port.ellipsis()
            ndim: int | None = len(port.dims or ())
            if ellipsis is not None:
                rank = ranks.get(ellipsis)
                ndim = None if rank is None else len(port.dims or ()) - 1 + rank
            outputs.append(OutputType(dtype, ndim))
        return tuple(outputs)

    def rename(self, names: Sequence[str]) -> str:
        """The signature with these names for the ports that have none, where they can be names."""
        ports = [*self.inputs, *self.outputs]
        taken = {port.name for port in ports}
        texts = [
            port.text
            if port.name or name in taken or not name.isascii()
            else f"{name}: {port.text}"
            for port, name in zip(ports, names, strict=True)
        ]
        inputs, outputs = texts[: len(self.inputs)], texts[len(self.inputs) :]
        return f"{', '.join(inputs)} -> {', '.join(outputs)}".strip()


@dataclasses.dataclass(frozen=True)
class Types:
    """The types that one compilation is for."""

    inputs: tuple[TensorType, ...]
    arguments: tuple[TensorType, ...]
    outputs: tuple[OutputType, ...]

    def __str__(self) -> str:
        text = f"{_listed(self.inputs)} -> {_listed(self.outputs)}"
        return f"{text}, with arguments {_listed(self.arguments)}" if self.arguments else text


def _listed(types: Sequence[TensorType | OutputType]) -> str:
    return ", ".join(f"{t.dtype} of rank {t.ndim}" for t in types) or "nothing"


def read(signature: str) -> Ports | None:
    """The ports of ``signature``, or None if they cannot be told apart."""
    inputs, arrow, outputs = signature.partition("->")
    sides = [_side(inputs), _side(outputs)]
    if not arrow or None in sides:
        return None
    return Ports(*sides)  # type: ignore[arg-type]


def _side(text: str) -> tuple[Port, ...] | None:
    ports = []
    for part in _split(text):
        found = _PORT.fullmatch(part)
        if found is None:
            return None
        name, dtype, inside = found.groups()
        dims = None if inside is None else tuple(_split(inside))
        ports.append(Port(part, name or "", dtype, dims))
    return tuple(ports)


def _split(text: str) -> list[str]:
    """The parts between the commas that stand outside of all brackets, without outer blanks."""
    parts, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "[(") - (char in "])")
        if char == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return [*parts, last] if parts or last else []
