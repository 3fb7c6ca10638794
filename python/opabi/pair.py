"""Two versions of one kernel, for the CPU and for the GPU, as one thing to call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opabi.errors import OpabiValueError
from opabi.kernel import Kernel

_CUDA = 2  # DLPack's number


class Pair:
    """Calls the version that works where the data is::

        blur = opabi.Pair(cpu=blur_on_the_cpu, cuda=blur_on_the_gpu)

    The GPU's serves where an input is there, else the CPU's. Their signatures and arguments agree.
    """

    def __init__(self, *, cpu: Kernel, cuda: Kernel) -> None:
        for kernel, device in ((cpu, "cpu"), (cuda, "cuda")):
            if kernel.device != device:
                raise OpabiValueError(
                    f"{device}=: kernel '{kernel.name}' works on device '{kernel.device}'."
                )
        theirs = [[(a.name, a.dtype, a.ndim) for a in kernel.arguments] for kernel in (cpu, cuda)]
        if cpu.signature != cuda.signature or theirs[0] != theirs[1]:
            raise OpabiValueError(
                f"expected two kernels with equal signatures and arguments, found {cpu}, {cuda}."
            )
        self.cpu = cpu
        self.cuda = cuda
        self.__name__ = cpu.name
        self.__doc__ = cpu.__doc__

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        on_gpu = any(map(_on_gpu, _flat(inputs)))
        return (self.cuda if on_gpu else self.cpu)(*inputs, **options)

    def __repr__(self) -> str:
        return f"<opabi pair {self.cpu!r} and {self.cuda!r}>"


def _flat(inputs: Any) -> Iterator[Any]:
    for value in inputs:
        yield from value if isinstance(value, list) else (value,)


def _on_gpu(value: Any) -> bool:
    device = getattr(value, "device", None)
    if isinstance(device, str):  # a node of a pipeline
        return device == "gpu"
    asked = getattr(value, "__dlpack_device__", None)
    return asked is not None and int(asked()[0]) == _CUDA
