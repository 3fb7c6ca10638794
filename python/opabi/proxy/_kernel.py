"""An opabi kernel as what runs, without DALI."""

from __future__ import annotations

import collections
from typing import Any

from opabi.errors import OpabiTypeError
from opabi.proxy._inputs import Input
from opabi.proxy._outputs import take, together


class KernelBackend:
    def __init__(
        self, name: str, kernel: Any, arguments: dict[str, Any], framework: str, ragged: str
    ) -> None:
        if kernel.device != "cpu":
            raise OpabiTypeError(
                f"proxy '{name}': expected a kernel on the CPU, found device {kernel.device}."
            )
        self.name = name
        self._kernel = kernel
        self._arguments = arguments
        self._framework = framework
        self._ragged = ragged
        ports = kernel.ports["inputs"]
        self.inputs = tuple(
            Input(port["name"] or f"input{i}", None, None) for i, port in enumerate(ports)
        )
        self.n_outputs = kernel.n_outputs
        self._results: collections.deque[tuple[Any, ...]] = collections.deque()

    def depth(self) -> int:
        return 1

    def max_batch(self) -> int | None:
        return None

    def start(self, columns: list[Any]) -> None:
        outputs = self._kernel(*[list(column) for column in columns], **self._arguments)
        self._results.append((outputs,) if self.n_outputs == 1 else tuple(outputs or ()))

    def finish(self) -> tuple[Any, ...]:
        results = []
        for samples in self._results.popleft():
            taken = [take(sample, self._framework, copy=False) for sample in samples]
            results.append(together(taken, self._framework, self._ragged))
        return tuple(results)

    def rebuild(self, checkpoint: Any = None) -> None:
        """Nothing is kept from call to call."""

    def checkpoint(self) -> Any:
        return None
