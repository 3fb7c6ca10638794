"""The kernel object: one thing to call with arrays or with pipeline nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any


class _Missing:
    def __repr__(self) -> str:
        return "required"


MISSING: Any = _Missing()
"""The default of an argument that has none."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """A named argument of a kernel.

    ``dtype`` is a name such as ``"float32"``, or None for any; ``ndim`` a rank, or None for any; ``default``
    a scalar, string or array, or MISSING: the argument is required.
    """

    name: str
    dtype: str | None = None
    ndim: int | None = None
    default: Any = MISSING
    doc: str = ""


@dataclasses.dataclass(frozen=True)
class TensorType:
    """dtype (``"uint8"``) and rank of an input or argument."""

    dtype: str
    ndim: int


@dataclasses.dataclass(frozen=True)
class Functions:
    """Addresses that follow ``opabi_run_fn`` and ``opabi_setup_fn``, and what must live as long as they."""

    run: int
    setup: int = 0
    user_data: int = 0
    keep: Any = None


Specialize = Callable[[tuple[TensorType, ...], tuple[TensorType, ...]], Functions]
"""Called with the types of the inputs and of the arguments; may be slow; errors become the caller's."""
