"""What may be given to a proxy, and what it becomes: a NumPy array of a plain type, that nobody
else writes to."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np

from opabi.errors import OpabiTypeError

_LARGEST = 8  # bytes of an element: longdouble has no counterpart in a pipeline
_KINDS = "biuf"
_BYTES = (bytes, bytearray, memoryview)
_NUMBERS = (bool, int, float, np.generic)


@dataclasses.dataclass(frozen=True)
class Input:
    """An input of a pipeline, as it declares it; None where it takes any."""

    name: str
    dtype: str | None = None
    ndim: int | None = None


def snapshot(value: Any, port: Input, where: str) -> np.ndarray[Any, Any]:
    """``value`` as an array that stays as it is now, or OpabiTypeError.

    The call is run later, in another process: what the caller writes into a buffer afterwards must
    not show.
    """
    if isinstance(value, np.ndarray):
        array = value
    elif isinstance(value, _BYTES):
        array = np.frombuffer(value, np.uint8)
    elif isinstance(value, _NUMBERS):
        array = _number(value, port)
    else:
        array = _from_torch(value, port, where)
    kind = array.dtype.kind
    if kind not in _KINDS or array.dtype.itemsize > _LARGEST or not array.dtype.isnative:
        raise OpabiTypeError(
            f"{where}, input '{port.name}': expected an array of booleans, integers or floats of "
            f"at most 8 bytes in "
            f"native byte order, found dtype {array.dtype!r}. Convert it with .astype()."
        )
    if port.dtype is not None and array.dtype != port.dtype:
        raise OpabiTypeError(
            f"{where}, input '{port.name}': expected dtype {port.dtype}, found {array.dtype}. "
            f"Convert it with .astype({port.dtype!r}), or leave out the dtype in the pipeline."
        )
    if port.ndim is not None and array.ndim != port.ndim:
        raise OpabiTypeError(
            f"{where}, input '{port.name}': expected rank {port.ndim}, found shape {array.shape}."
        )
    if isinstance(value, bytes) or (not array.flags.writeable and array.flags.c_contiguous):
        return array
    return np.array(array, order="C")


def _number(value: Any, port: Input) -> np.ndarray[Any, Any]:
    if port.dtype is not None and not isinstance(value, np.generic):
        return np.asarray(value).astype(port.dtype)
    return np.asarray(value)


def _from_torch(value: Any, port: Input, where: str) -> np.ndarray[Any, Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            raise OpabiTypeError(
                f"{where}, input '{port.name}': expected a tensor on the CPU, found one on "
                f"{value.device}. "
                f"The pipeline moves data to the GPU; workers do not use it."
            )
        try:
            return value.detach().numpy()  # type: ignore[no-any-return]
        except (TypeError, RuntimeError) as error:
            raise OpabiTypeError(
                f"{where}, input '{port.name}': {value.dtype} tensor: {error}"
            ) from error
    kind = type(value)
    raise OpabiTypeError(
        f"{where}, input '{port.name}': expected a NumPy array, a torch tensor on the CPU, bytes "
        f"or a number, found "
        f"{kind.__module__}.{kind.__qualname__}. Convert it with numpy.asarray()."
    )
