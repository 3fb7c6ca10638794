"""Adding a kernel's operator to the pipeline that is being defined."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from nvidia.dali import fn, types
from nvidia.dali.data_node import DataNode
from nvidia.dali.pipeline import Pipeline, do_not_convert

from opabi.dali import constants
from opabi.dali.plugin import Registration, plugin
from opabi.errors import OpabiRuntimeError, OpabiTypeError
from opabi.kernel import Kernel

_DEVICES = {"cpu": "cpu", "cuda": "gpu"}


@do_not_convert
def add_operator(
    kernel: Kernel, inputs: Sequence[Any], arguments: Mapping[str, Any], *, checked: bool = False
) -> DataNode | tuple[DataNode, ...] | None:
    """The outputs for ``inputs``: a node, a tuple of them, or None for a kernel without outputs.

    Inputs and arguments are nodes, or values that all samples share.
    """
    if kernel._wants_seed and "seed" not in arguments:
        arguments = {**arguments, "seed": random_seed()}
    kernel._core.check_call(len(inputs), list(arguments))
    nodes, lines = _inputs(kernel, inputs)
    names: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, DataNode):
            _check_device(kernel, f"argument '{name}'", value, "cpu")
            names.append(name)
            nodes.append(value)
        else:
            lines.append(constants.encode_argument(kernel, name, value))
    loaded = plugin()
    registration = None if kernel.library else loaded.registration(kernel)
    which: dict[str, Any] = {"library": kernel.library, "symbol": kernel.symbol}
    if registration:
        which = {"handle": registration.handle}
    outputs = fn.opabi.call(
        *nodes,
        device=_DEVICES[kernel.device],
        n_outputs=kernel.n_outputs,
        argument_names=names,
        constants=lines,
        checked=checked,
        # DALI merges equal calls and drops unused ones: not those with effects, and not sinks.
        preserve=not kernel.pure or kernel.n_outputs == 0,
        **which,
    )
    outputs = [outputs] if isinstance(outputs, DataNode) else outputs
    if registration:
        _keep(registration, outputs)
        _refuse_to_travel(kernel)
    return tuple(outputs) if len(outputs) > 1 else outputs[0] if outputs else None


def _inputs(kernel: Kernel, inputs: Sequence[Any]) -> tuple[list[DataNode], list[str]]:
    nodes, lines = [], []
    # A kernel on the GPU takes batches on the CPU beside one that is there, and copies them over
    # itself.
    mixed = kernel.device == "cuda" and any(
        isinstance(value, DataNode) and value.device == "gpu" for value in inputs
    )
    for port, value in enumerate(inputs):
        if isinstance(value, DataNode):
            if not mixed:
                _check_device(kernel, f"input {port}", value, _DEVICES[kernel.device])
            nodes.append(value)
        else:
            lines.append(constants.encode_input(kernel, port, value))
    return nodes, lines


def _check_device(kernel: Kernel, what: str, node: DataNode, device: str) -> None:
    if node.device == device:
        return
    why = "Arguments are on the CPU" if what.startswith("argument") else "The kernel works there"
    raise OpabiTypeError(
        f"kernel '{kernel.name}', {what}: expected a node on the {device.upper()}, found one on "
        f"the {node.device.upper()}. {why}: pass it through .{device}(), or compute it there."
    )


def random_seed() -> DataNode:
    """A fresh int64 for each sample, from operators of DALI's: they keep seeds and checkpoints.

    Eight random bytes; DALI rounds them from a float range, so 0 and 255 come half as often.
    """
    noise = fn.random.uniform(range=[0, 255], dtype=types.UINT8, shape=[8])
    return fn.reinterpret(noise, dtype=types.INT64, shape=[])


def _keep(registration: Registration, outputs: Sequence[DataNode]) -> None:
    """The registration lives as long as the operator is in a graph that DALI may still build."""
    owner = outputs[0].source if outputs else Pipeline.current()
    weakref.finalize(owner, _end, registration).atexit = False


def _end(registration: Registration) -> None:
    """Called when the finalizer's hold on the registration ends."""


def _refuse_to_travel(kernel: Kernel) -> None:
    """Has the current pipeline say, when it is serialised, what to do instead.

    DALI would write the handle, which the operator refuses in another process: safe, but late.
    DALI's own refusal is a flag of the schema, for every operator of it, and names no way out. An
    argument of the C++ spec that throws when it is written also throws when DALI compares operators
    to merge equal ones. So this one pipeline gets a method of its own.
    """
    name = kernel.name

    def serialize(*args: Any, **kwargs: Any) -> bytes:
        raise OpabiRuntimeError(
            f"this pipeline cannot be serialized: kernel '{name}' was made from a function or an "
            "address, and lives in this process only. Kernels of a shared library travel, as the "
            f"library's path and the kernel's name: build one and call opabi.load(path).{name}."
        )

    pipeline = Pipeline.current()
    if pipeline is not None:
        pipeline.serialize = serialize
