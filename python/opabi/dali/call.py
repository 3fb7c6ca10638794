"""Adding a kernel's operator to the pipeline that is being defined."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from nvidia.dali import fn, types
from nvidia.dali.data_node import DataNode
from nvidia.dali.pipeline import Pipeline, do_not_convert

from opabi.dali import constants
from opabi.dali.plugin import plugin
from opabi.errors import OpabiTypeError
from opabi.kernel import MISSING

SEED_BYTES = 8


@do_not_convert
def add_operator(
    kernel: Any, inputs: Sequence[Any], arguments: Mapping[str, Any], *, checked: bool = False
) -> DataNode | tuple[DataNode, ...] | None:
    """The kernel's outputs for ``inputs``: a node, a tuple of them, or None for a kernel without outputs.

    Inputs and arguments are nodes, or arrays that all samples share.
    """
    nodes, texts = _inputs(kernel, inputs)
    names, sources = [], []
    for name, value in _complete(kernel, arguments).items():
        if isinstance(value, DataNode):
            _check_device(kernel, f"argument '{name}'", value, "cpu")
            names.append(name)
            sources.append(value)
        else:
            texts.append(constants.encode(kernel.name, name, value))
    # An impure kernel is neither merged with an equal call nor dropped; nor is a sink, whose effect is its purpose.
    preserve = not kernel.pure or kernel.n_outputs == 0
    where, registration = _where(kernel)
    outputs = fn.opabi.call(
        *nodes,
        *sources,
        device="cpu",
        n_outputs=kernel.n_outputs,
        argument_names=names or None,
        constants=texts or None,
        checked=checked,
        preserve=preserve,
        **where,
    )
    if registration is not None:
        _keep(registration, outputs)
    if isinstance(outputs, DataNode):
        return outputs
    return tuple(outputs) if outputs else None


def _where(kernel: Any) -> tuple[dict[str, Any], Any]:
    if getattr(kernel, "library", None):
        plugin()
        return {"library": str(kernel.library), "symbol": kernel.symbol}, None
    registration = plugin().registration(kernel)
    return {"handle": registration.handle}, registration


def _keep(registration: Any, outputs: Any) -> None:
    """The registration lives as long as the operator is in DALI's graph, which builds it later."""
    node = outputs if isinstance(outputs, DataNode) else outputs[0] if outputs else None
    owner = Pipeline.current() if node is None else node.source
    weakref.finalize(owner, _release, registration).atexit = False


def _release(registration: Any) -> None:
    """Called with what a finalizer held, which ends with the call."""


def _inputs(kernel: Any, inputs: Sequence[Any]) -> tuple[list[DataNode], list[str]]:
    if len(inputs) != kernel.n_inputs:
        raise OpabiTypeError(f"kernel '{kernel.name}': expected {kernel.n_inputs} inputs, found {len(inputs)}.")
    nodes, texts = [], []
    for port, value in enumerate(inputs):
        if isinstance(value, DataNode):
            _check_device(kernel, f"input {port}", value, kernel.device)
            nodes.append(value)
        else:
            texts.append(constants.encode(kernel.name, port, value))
    return nodes, texts


def _check_device(kernel: Any, what: str, node: DataNode, device: str) -> None:
    if node.device != device:
        remedy = "Named arguments are always on the CPU" if what.startswith("argument") else f"It works on the {device}"
        raise OpabiTypeError(
            f"kernel '{kernel.name}', {what}: expected a node on the {device}, found one on the {node.device}. "
            f"{remedy}: compute it there, or use .{device}()."
        )


def _complete(kernel: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are given, checked by name, with a seed where one is due."""
    known = {argument.name: argument for argument in kernel.arguments}
    for name in arguments:
        if name not in known:
            takes = f"It takes {', '.join(map(repr, known))}." if known else "It takes no arguments."
            raise OpabiTypeError(f"kernel '{kernel.name}' has no argument '{name}'. {takes}")
    complete = dict(arguments)
    for name, argument in known.items():
        if name in complete or argument.default is not MISSING:
            continue
        if name == "seed" and argument.dtype == "int64" and argument.ndim == 0:
            complete[name] = random_seed()
            continue
        raise OpabiTypeError(
            f"kernel '{kernel.name}' needs the argument '{name}', which has no default. Pass it by name."
        )
    return complete


def random_seed() -> DataNode:
    """A fresh int64 for each sample, from a DALI operator: DALI keeps its seed and its checkpoints."""
    noise = fn.random.uniform(range=[0, 256], dtype=types.UINT8, shape=[SEED_BYTES])
    return fn.reinterpret(noise, dtype=types.INT64, shape=np.array([], dtype=np.int32))
