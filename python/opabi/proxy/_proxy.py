"""The transform: what the user's dataset calls."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable
from typing import Any

from opabi.errors import OpabiRuntimeError, OpabiTypeError, OpabiValueError
from opabi.proxy._call import Call, Output, collate
from opabi.proxy._engine import Engine
from opabi.proxy._inputs import Input, snapshot
from opabi.proxy._outputs import FRAMEWORKS, RAGGED

_engines: weakref.WeakValueDictionary[str, Engine] = weakref.WeakValueDictionary()


class Proxy:
    """Stands for a pipeline of the main process; made by :func:`pipeline` and :func:`kernel`.

    Call it with the pipeline's inputs, by position or by name, in any process or thread. It gives
    back an
    :class:`Output`, or a tuple of them for several outputs, to be put anywhere in the sample. It
    has no state, and is pickled without the pipeline.
    """

    def __init__(
        self,
        key: str,
        name: str,
        inputs: tuple[Input, ...],
        n_outputs: int,
        engine: Engine | None = None,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.n_outputs = n_outputs
        self._key = key
        self._where = f"proxy '{name}'"
        self._names = [port.name for port in inputs]
        self._engine = engine
        if engine is not None:
            _engines[key] = engine
        _teach_torch()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Note down a call.

        Raises OpabiTypeError for inputs that are missing, unknown, or of a kind, dtype or rank that
        the pipeline does not take.
        """
        if len(args) + len(kwargs) != len(self.inputs) or kwargs:
            args = self._bind(args, kwargs)
        values = zip(args, self.inputs, strict=True)
        call = Call(self._key, self.name, [snapshot(x, port, self._where) for x, port in values])
        if self.n_outputs == 1:
            return Output(call, 0)
        return tuple([Output(call, i) for i in range(self.n_outputs)])

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        expected = ", ".join(self._names)
        given = dict(zip(self._names, args, strict=False))
        if len(args) > len(self._names):
            raise OpabiTypeError(f"{self._where}: expected ({expected}), found {len(args)} inputs.")
        for name, value in kwargs.items():
            if name not in self._names:
                raise OpabiTypeError(f"{self._where}: no input '{name}'. Expected ({expected}).")
            if name in given:
                raise OpabiTypeError(f"{self._where}: input '{name}' is given twice.")
            given[name] = value
        missing = [name for name in self._names if name not in given]
        if missing:
            raise OpabiTypeError(
                f"{self._where}: input '{missing[0]}' is missing. Expected ({expected})."
            )
        return tuple(given[name] for name in self._names)

    def __reduce__(self) -> tuple[Any, ...]:
        return Proxy, (self._key, self.name, self.inputs, self.n_outputs)

    def __repr__(self) -> str:
        return f"<opabi proxy '{self.name}'({', '.join(self._names)}), {self.n_outputs} outputs>"


def pipeline(
    pipe: Any,
    *,
    name: str | None = None,
    framework: str = "torch",
    ragged: str = "list",
    **options: Any,
) -> Proxy:
    """A proxy for a DALI pipeline: a ``pipeline_def`` function, called with ``options``, or a
    Pipeline.

    Every ``fn.external_source`` without a source of its own is an input, in the order of the
    pipeline; give it a name.
    ``framework``: what outputs become, "torch", "numpy", "cupy" or "jax". ``ragged``: outputs of
    unlike shapes are a "list", or are filled with zeros to one tensor, "pad". ``name``: for
    messages and for states, where it must be unique.

    A function can be made anew, which :meth:`Stage.load_state_dict` needs.
    """
    from opabi.proxy._dali import DaliBackend

    _one_of("framework", framework, FRAMEWORKS)
    _one_of("ragged", ragged, RAGGED)
    name = name or str(getattr(pipe, "__name__", "pipeline"))
    backend = DaliBackend(name, pipe, options, framework, ragged)
    return _proxy(name, backend)


def kernel(
    function: Any,
    *,
    name: str | None = None,
    framework: str = "torch",
    ragged: str = "list",
    **arguments: Any,
) -> Proxy:
    """A proxy for an opabi kernel on the CPU, without DALI. ``arguments`` are the kernel's, the
    same for all calls."""
    from opabi.proxy._kernel import KernelBackend

    _one_of("framework", framework, FRAMEWORKS)
    _one_of("ragged", ragged, RAGGED)
    name = name or function.name
    return _proxy(name, KernelBackend(name, function, arguments, framework, ragged))


def _proxy(name: str, backend: Any) -> Proxy:
    return Proxy(uuid.uuid4().hex, name, backend.inputs, backend.n_outputs, Engine(backend))


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise OpabiValueError(f"{option}: expected one of {', '.join(known)}, found {value!r}.")


def engine_of(call: Call) -> Engine:
    engine = _engines.get(call.key)
    if engine is None:
        raise OpabiRuntimeError(
            f"proxy '{call.name}': its pipeline is not in this process. Make the proxy in the "
            f"process that runs "
            f"the stage, and keep it."
        )
    return engine


def engine_named(name: str) -> Engine:
    found = [engine for engine in _engines.values() if engine.name == name]
    if len(found) != 1:
        raise OpabiValueError(
            f"state of pipeline '{name}': expected one proxy of this name, found {len(found)}. "
            f"Make the proxies as for the state that was saved, each with name= of its own."
        )
    return found[0]


_taught: Callable[..., Any] | None = None


def _teach_torch() -> None:
    """Lets default_collate of torch make batches of outputs; in spawned workers too, which unpickle
    a proxy."""
    global _taught
    if _taught is None:
        from torch.utils.data._utils.collate import default_collate_fn_map

        default_collate_fn_map[Output] = collate
        _taught = collate
