"""DALI, and all of its private interfaces that the proxy uses, in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from nvidia.dali import Pipeline
from nvidia.dali.external_source import ExternalSource
from nvidia.dali.types import to_numpy_type

from opabi.errors import OpabiRuntimeError, OpabiTypeError, OpabiValueError
from opabi.proxy._engine import NotFedError
from opabi.proxy._inputs import Input
from opabi.proxy._outputs import take, together

_STACKED = 4096
"""Samples of fewer bytes are fed as one array: the call for each costs more than the copy."""


class DaliBackend:
    def __init__(
        self, name: str, pipe: Any, options: dict[str, Any], framework: str, ragged: str
    ) -> None:
        self.name = name
        self._define: Any = None
        self._options = options
        self._framework = framework
        self._ragged = ragged
        if isinstance(pipe, Pipeline):
            if options:
                raise OpabiTypeError(
                    f"proxy '{name}': options ({', '.join(options)}) are for a pipeline_def "
                    f"function; "
                    f"this Pipeline is made already."
                )
            self._pipe = pipe
        elif getattr(pipe, "_is_pipeline_def", False):
            self._define = pipe
            self._pipe = pipe(**options)
        else:
            raise OpabiTypeError(
                f"proxy '{name}': expected a DALI Pipeline or a function with @pipeline_def, found "
                f"{type(pipe).__qualname__}."
            )
        self.inputs = _inputs(self._pipe, name)
        self.n_outputs = len(self._pipe._graph_outputs)

    def depth(self) -> int:
        """Runs under way. A pipeline that is not asynchronous would block in the second."""
        pipe = self._pipe
        if not (pipe.exec_async and pipe.exec_pipelined):
            return 1
        return max(1, min(int(pipe.cpu_queue_size), int(pipe.gpu_queue_size)))

    def max_batch(self) -> int | None:
        return int(self._pipe.max_batch_size)

    def start(self, columns: list[Any]) -> None:
        self._pipe.build()
        for i, (port, column) in enumerate(zip(self.inputs, columns, strict=True)):
            try:
                self._pipe.feed_input(port.name, _dense(column))
            except Exception as error:
                if i:
                    raise NotFedError from error
                raise
        try:
            # schedule_run would, the first time, run as often as the queue is long.
            self._pipe._run_once()
        except Exception as error:
            raise NotFedError from error

    def finish(self) -> tuple[Any, ...]:
        copy = not self._pipe.exec_dynamic
        return tuple([self._convert(output, copy) for output in self._pipe.outputs()])

    def rebuild(self, checkpoint: Any = None) -> None:
        if self._define is None:
            raise OpabiRuntimeError(
                f"proxy '{self.name}': the pipeline has to be made anew, for a state or after "
                f"inputs it refused in "
                f"part. Give opabi.proxy.pipeline the pipeline_def function instead of a Pipeline."
            )
        more = {} if checkpoint is None else {"checkpoint": checkpoint}
        self._pipe = self._define(**self._options, **more)
        _inputs(self._pipe, self.name)

    def checkpoint(self) -> Any:
        return self._pipe.checkpoint() if self._pipe._enable_checkpointing else None

    def _convert(self, output: Any, copy: bool) -> Any:
        if output.is_dense_tensor():
            return take(output.as_tensor(), self._framework, copy=copy)
        samples = [take(sample, self._framework, copy=copy) for sample in output]
        return together(samples, self._framework, self._ragged)


def _dense(column: Any) -> Any:
    if isinstance(column, list):
        first = column[0]
        if first.nbytes < _STACKED and all(array.shape == first.shape for array in column):
            return np.stack(column)
    return column


def _inputs(pipe: Any, name: str) -> tuple[Input, ...]:
    if pipe._deserialized:
        raise OpabiValueError(
            f"proxy '{name}': a deserialized pipeline does not tell its inputs. Make it from its "
            f"definition."
        )
    if not pipe._py_graph_built:
        pipe._build_graph()
    found = []
    for op in pipe._ops:
        if isinstance(op._op, ExternalSource) and op._callback is None:
            dtype = op._op._dtype
            declared = None if dtype is None else np.dtype(to_numpy_type(dtype)).name
            found.append(Input(op.name, declared, op._op._ndim))
    if not found:
        raise OpabiValueError(
            f"proxy '{name}': the pipeline has no input: no fn.external_source without a source "
            f"of its own."
        )
    return tuple(found)
