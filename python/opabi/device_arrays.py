"""Calls of CUDA kernels with arrays: whose arrays they are, and on which stream."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from opabi import _core
from opabi.errors import OpabiTypeError
from opabi.kernel import Kernel

_CUDA = 2  # DLPack's number
_LEGACY_STREAM = 1  # the default stream's handle where 0 cannot be told from none


class CupyArrays:
    @staticmethod
    def stream(device_id: int) -> int:
        import cupy

        with cupy.cuda.Device(device_id):
            return int(cupy.cuda.get_current_stream().ptr)

    @staticmethod
    def new(device_id: int, dtype: str, shape: tuple[int, ...]) -> Any:
        import cupy

        with cupy.cuda.Device(device_id):
            return cupy.empty(shape, dtype)


class TorchArrays:
    @staticmethod
    def stream(device_id: int) -> int:
        import torch

        return int(torch.cuda.current_stream(device_id).cuda_stream)

    @staticmethod
    def new(device_id: int, dtype: str, shape: tuple[int, ...]) -> Any:
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=f"cuda:{device_id}")


LIBRARIES: dict[str, Any] = {"cupy": CupyArrays, "torch": TorchArrays}
"""Where the stream and new arrays come from, by the package of the first input on the device."""


def call(
    kernel: Kernel,
    inputs: tuple[Any, ...],
    arguments: Mapping[str, Any] | None,
    out: Any,
    checked: bool,
) -> Any:
    """Runs the kernel on the current stream of its arrays' library, and does not wait for it."""
    first, device_id = _first_on_device(kernel, inputs, out)
    library = LIBRARIES[_package(first)]
    new = functools.partial(library.new, device_id)
    stream = library.stream(device_id) or _LEGACY_STREAM
    return _core.call_cuda(
        kernel._core, inputs, arguments, out, checked, device_id, stream, new, first
    )


def _first_on_device(kernel: Kernel, inputs: tuple[Any, ...], out: Any) -> tuple[Any, int]:
    for value in _flat((inputs, out)):
        if hasattr(value, "__dlpack_device__"):
            kind, device_id = value.__dlpack_device__()
            if int(kind) == _CUDA and _package(value) in LIBRARIES:
                return value, int(device_id)
    known = " or ".join(LIBRARIES)
    raise OpabiTypeError(
        f"kernel '{kernel.name}' works on the GPU: expected an input that is a {known} array "
        "there, found none. Copy the data to the GPU first, for example with cupy.asarray()."
    )


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]
