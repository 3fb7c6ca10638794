"""The kernel object: one thing to call with arrays or with pipeline nodes."""

from __future__ import annotations

import dataclasses
import os
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opabi import _core
from opabi.errors import OpabiTypeError, OpabiValueError


class _Missing:
    def __repr__(self) -> str:
        return "required"


MISSING: Any = _Missing()
"""The default of an argument that has none."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """A named argument of a kernel.

    ``dtype`` is a name such as ``"float32"``, or None for any; ``ndim`` a rank, or None for any;
    ``default`` a scalar, string or array, or MISSING: the argument is required.
    """

    name: str
    dtype: str | None = None
    ndim: int | None = None
    default: Any = MISSING
    doc: str = ""


@dataclasses.dataclass(frozen=True)
class TensorType:
    """dtype (``"uint8"``) and rank of an input or argument."""

    dtype: str
    ndim: int


@dataclasses.dataclass(frozen=True)
class Functions:
    """Addresses that follow ``opabi_run_fn`` and ``opabi_setup_fn``, and what must live as long
    as they.
    """

    run: int
    setup: int = 0
    user_data: int = 0
    keep: Any = None


Specialize = Callable[..., Functions]
"""Called with the types of the inputs and of the arguments, and for kernels on the GPU with the
device's number; may be slow; errors become the caller's."""


_DEVICES = {"cpu": 1, "cuda": 2}
_TRAITS = {
    "reentrant": 1,
    "pure": 2,
    "deterministic": 4,
    "any_strides": 8,
    "capture_safe": 16,
    "takes_gil": 32,
    "syncs_stream": 64,
}
_CRITICAL = {"whole_batch": 1, "setup_reads_data": 2, "device_tables": 4}
_RESERVED = frozenset({"out", "checked", "num_threads"})

_CHECKED = os.environ.get("OPABI_CHECKED", "") not in ("", "0")


class Kernel:
    """A kernel, called with arrays or with the nodes of a DALI pipeline.

    Kernels come from the adapters (``opabi.numba.kernel``, ``opabi.c.compile``, ``opabi.load``,
    ...); nobody makes one by hand except through :meth:`make`.

    With arrays the call runs at once and gives back NumPy arrays::

        solarize(image, threshold=100)                    # one sample
        solarize([image, other], threshold=[100, 120])    # a batch: a list is per sample
        solarize(image, out=buffer)                       # no allocation

    With DALI nodes it adds an operator to the pipeline and gives back its outputs.
    """

    __slots__ = ("__dict__", "__weakref__", "_core", "_direct")

    autograph_info__ = None
    """Pipelines with enable_conditionals=True call what has this attribute as it is, instead of
    rewriting it.
    """

    def __init__(self, core: Any, *, library: str | None = None) -> None:
        self._core = core
        self.library = library
        taken = sorted(_RESERVED & {a["name"] for a in core.arguments})
        if taken:
            raise OpabiValueError(
                f"kernel '{core.name}' has an argument named '{taken[0]}', which every kernel call "
                f"uses for itself ({', '.join(sorted(_RESERVED))}). Rename it."
            )
        self._wants_seed = any(
            (a["name"], a["dtype"], a["ndim"]) == ("seed", "int64", 0) and "default" not in a
            for a in core.arguments
        )
        self._on_device = core.device == _DEVICES["cuda"]
        indirect = _CHECKED or self._wants_seed or self._on_device
        self._direct = None if indirect else _core.direct(core)
        self.__name__ = core.name
        self.__doc__ = core.doc or None

    @classmethod
    def from_library(cls, path: str, name: str) -> Kernel:
        """The kernel ``name`` of the shared library at ``path``.

        Raises OpabiRuntimeError if the library does not load, OpabiValueError if it breaks a rule
        or has no such kernel.
        """
        return cls(_core.Kernel.from_library(path, name), library=path)

    @classmethod
    def make(
        cls,
        *,
        name: str,
        signature: str,
        doc: str = "",
        arguments: Sequence[Argument] = (),
        device: str = "cpu",
        run: int = 0,
        setup: int = 0,
        user_data: int = 0,
        create: int = 0,
        destroy: int = 0,
        save: int = 0,
        restore: int = 0,
        release: int = 0,
        specialize: Specialize | int | None = None,
        keep: Any = None,
        **traits: bool,
    ) -> Kernel:
        """A kernel from addresses that follow ``opabi.h``; what every adapter ends in.

        ``specialize`` is a Python callable or an address. ``keep`` lives as long as the kernel
        does.
        ``traits`` are ``pure``, ``deterministic``, ``reentrant``, ``any_strides``, ``takes_gil``,
        ``whole_batch``, ``setup_reads_data``, ``capture_safe``, ``syncs_stream`` and
        ``device_tables``: see the header.

        Raises OpabiValueError with the rule's id if the descriptor breaks a rule.
        """
        unknown = sorted(set(traits) - set(_TRAITS) - set(_CRITICAL))
        if unknown:
            known = ", ".join([*_TRAITS, *_CRITICAL])
            raise OpabiTypeError(f"kernel '{name}': unknown trait '{unknown[0]}'. Known: {known}.")
        if not isinstance(device, str) or device not in _DEVICES:
            raise OpabiValueError(
                f"kernel '{name}': expected device 'cpu' or 'cuda', found {device!r}."
            )
        if isinstance(specialize, bool) or not (
            specialize is None or callable(specialize) or hasattr(specialize, "__index__")
        ):
            raise OpabiTypeError(
                f"kernel '{name}': expected specialize to be a function or an address, found "
                f"{type(specialize).__name__}."
            )
        if isinstance(arguments, str) or not isinstance(arguments, Iterable):
            arguments = (arguments,)
        arguments = list(arguments)
        for argument in arguments:
            if not isinstance(argument, Argument):
                raise OpabiTypeError(
                    f"kernel '{name}': expected arguments to be a list of opabi.Argument, found "
                    f"{type(argument).__name__}."
                )
        fields = {
            "name": name,
            "signature": signature,
            "doc": doc or "",
            "arguments": arguments,
            "device": _DEVICES[device],
            "run": run,
            "setup": setup,
            "user_data": user_data,
            "create": create,
            "destroy": destroy,
            "save": save,
            "restore": restore,
            "release": release,
            "specialize": specialize,
            "keep": keep,
            "traits": sum(bit for trait, bit in _TRAITS.items() if traits.get(trait)),
            "critical": sum(bit for trait, bit in _CRITICAL.items() if traits.get(trait)),
        }
        return cls(_core.Kernel(fields))

    def __call__(
        self,
        *inputs: Any,
        out: Any = None,
        checked: bool | None = None,
        num_threads: int = 1,
        **arguments: Any,
    ) -> Any:
        """Run the kernel on arrays, or add it to the pipeline that ``inputs`` are nodes of.

        Each input is an array (NumPy, or anything with DLPack, the buffer protocol or the array
        interface) or a number; a list is a batch of samples. Arguments go by name: a scalar,
        string or array for all samples, or in a batch call a list with one for each.

        ``out``: the array to write to, a tuple of them for several outputs, lists of them for a
        batch.
        ``checked``: run in checked mode (guard bytes, poison, inputs compared); default: the
        environment variable OPABI_CHECKED. ``num_threads``: threads for the samples of a batch. A
        required int64 argument ``seed`` that is not given gets fresh numbers from Python's
        ``random``.

        Returns an array, a tuple of arrays for several outputs, None for none; lists of arrays for
        a batch; DALI nodes for nodes. Raises OpabiTypeError, OpabiValueError, OpabiIndexError,
        OpabiMemoryError or OpabiRuntimeError, as the kernel reports or the host finds.
        """
        if checked is None:
            checked = _CHECKED
        nodes = sys.modules.get("nvidia.dali.data_node")
        if nodes is not None and _in_pipeline(nodes.DataNode, inputs, arguments):
            from opabi.dali.call import add_operator

            if out is not None:
                raise OpabiTypeError(f"kernel '{self.name}': out= is for calls with arrays.")
            return add_operator(self, inputs, arguments, checked=checked)
        if self._wants_seed and "seed" not in arguments:
            arguments["seed"] = _fresh_seed(inputs)
        if self._on_device:
            from opabi import device_arrays

            return device_arrays.call(self, inputs, arguments or None, out, checked)
        return _core.call(self._core, inputs, arguments or None, out, checked, num_threads)

    @property
    def name(self) -> str:
        return self._core.name  # type: ignore[no-any-return]

    @property
    def symbol(self) -> str | None:
        """The kernel's name in its library, or None if it comes from an address."""
        return self.name if self.library else None

    @property
    def signature(self) -> str:
        return self._core.signature  # type: ignore[no-any-return]

    @property
    def arguments(self) -> list[Argument]:
        """The declared arguments; defaults are NumPy arrays."""
        return [Argument(**declared) for declared in self._core.arguments]

    @property
    def ports(self) -> dict[str, Any]:
        """The parsed signature: lists ``inputs`` and ``outputs`` of dicts name, text, dtype,
        ndim, layout.
        """
        return self._core.ports  # type: ignore[no-any-return]

    @property
    def n_inputs(self) -> int:
        return len(self.ports["inputs"])

    @property
    def n_outputs(self) -> int:
        return len(self.ports["outputs"])

    @property
    def device(self) -> str:
        """Where run works: ``"cpu"`` or ``"cuda"``."""
        return next(name for name, number in _DEVICES.items() if number == self._core.device)

    @property
    def traits(self) -> frozenset[str]:
        """The traits that are set, by the names that :meth:`make` takes."""
        advisory, critical = self._core.traits, self._core.critical
        return frozenset(
            [name for name, bit in _TRAITS.items() if advisory & bit]
            + [name for name, bit in _CRITICAL.items() if critical & bit]
        )

    @property
    def pure(self) -> bool:
        return "pure" in self.traits

    @property
    def stateful(self) -> bool:
        """Whether the kernel keeps an instance for each operator."""
        return self._core.stateful  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        arguments = "".join(f", {a.name}" for a in self.arguments)
        return f"<opabi kernel {self.name}: {self.signature}{arguments}>"


def _fresh_seed(inputs: tuple[Any, ...]) -> Any:
    """One for each sample (OPABI-H-026), from ``random``: ``random.seed`` repeats them."""
    batch = next((value for value in inputs if isinstance(value, list)), None)
    if batch is None:
        return random.getrandbits(63)
    return [random.getrandbits(63) for _ in batch]


_core.set_call_slot(Kernel)  # calls with NumPy arrays go straight to the core where _direct is set


def _in_pipeline(node: type, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> bool:
    for value in inputs:
        if isinstance(value, node):
            return True
    for value in arguments.values():
        if isinstance(value, node):
            return True
    if inputs:
        return False
    pipeline = sys.modules.get("nvidia.dali.pipeline")
    return pipeline is not None and pipeline.Pipeline.current() is not None
