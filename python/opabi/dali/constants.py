"""Constants as text in a pipeline's definition; src/dali/spec.h has the form and reads it."""

from __future__ import annotations

from typing import Any

import numpy as np

from opabi.errors import OpabiTypeError, OpabiValueError

DTYPES = frozenset(
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64".split()
)
MAX_NDIM = 15


def encode(kernel: str, name: str | int, value: Any) -> str:
    """``value`` for the argument ``name``, or for the input of that number."""
    label = f"kernel '{kernel}', " + (f"input {name}" if isinstance(name, int) else f"argument '{name}'")
    array, weak = _array(label, value)
    shape = ",".join(map(str, array.shape)) if array.ndim else "-"
    data = np.ascontiguousarray(array).tobytes().hex() or "-"
    return f"{name} {'weak' if weak else 'exact'} {array.dtype.name} {shape} {data}"


def _array(label: str, value: Any) -> tuple[np.ndarray, bool]:
    if isinstance(value, str | bytes):
        data = value.encode() if isinstance(value, str) else value
        return np.frombuffer(data, dtype=np.uint8), False
    if _is_scalar_constant(value):
        value = np.asarray(value.value, dtype=_dali_dtype(value.dtype))
    weak = isinstance(value, bool | int | float | list | tuple)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise OpabiTypeError(f"{label}: cannot make an array of {type(value).__name__}: {error}") from error
    if array.dtype.name not in DTYPES:
        too_large = array.dtype == object and weak
        error = OpabiValueError if too_large else OpabiTypeError
        found = "a value beyond 64 bits or an uneven list" if too_large else f"dtype {array.dtype}"
        raise error(f"{label}: expected one of the dtypes {', '.join(sorted(DTYPES))}, found {found}.")
    if array.ndim > MAX_NDIM:
        raise OpabiTypeError(f"{label}: expected a rank of 0 to {MAX_NDIM}, found {array.ndim}.")
    return array.astype(array.dtype.newbyteorder("="), copy=False), weak


def _is_scalar_constant(value: Any) -> bool:
    from nvidia.dali.types import ScalarConstant

    return isinstance(value, ScalarConstant)


def _dali_dtype(dtype: Any) -> Any:
    from nvidia.dali import types

    return types.to_numpy_type(dtype)
