"""Constants as text in a pipeline's definition; src/dali/spec.h has the form and reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
from nvidia.dali import types


def encode_argument(kernel: Any, name: str, value: Any) -> str:
    """``value`` for a named argument, converted as an eager call converts it."""
    return _text(name, *kernel._core.normalize_argument(name, _plain(value)))


def encode_input(kernel: Any, port: int, value: Any) -> str:
    """``value`` for an input that all samples share."""
    return _text(str(port), *kernel._core.normalize_input(port, _plain(value)))


def _plain(value: Any) -> Any:
    if isinstance(value, types.ScalarConstant):
        return np.asarray(value.value, dtype=types.to_numpy_type(value.dtype))
    return value


def _text(name: str, dtype: str, shape: tuple[int, ...], data: bytes) -> str:
    return f"{name} {dtype} {','.join(map(str, shape)) or '-'} {data.hex() or '-'}"
