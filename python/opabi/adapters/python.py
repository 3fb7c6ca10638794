# SPDX-License-Identifier: Apache-2.0
"""Kernels from plain Python functions: the slow last resort.

Every sample takes Python's global lock, so threads do not help, and each call costs ten to
twenty microseconds. For prototypes and for calls into libraries; what shall be fast goes through
``opabi.numba`` or ``opabi.c``.
"""

from __future__ import annotations

import gc
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opabi import _abi, _core
from opabi.adapters.c import name_of
from opabi.errors import OpabiTypeError
from opabi.kernel import MISSING, Argument, Kernel

__all__ = ["Spec", "kernel"]

_FFI, _CONSTANTS = _abi.ffi, _abi.constants
_OK, _UNSET = _CONSTANTS["OPABI_OK"], _CONSTANTS["OPABI_UNSET"]
_DTYPES = {
    _CONSTANTS[f"OPABI_{name.upper()}"]: np.dtype(name)
    for name in (
        *("bool", "float16", "float32", "float64"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
}
_WORDS = {dtype: word for word, dtype in _DTYPES.items()}
_STATUSES = (  # the first that fits
    (MemoryError, "OPABI_ERROR_OUT_OF_MEMORY"),
    (NotImplementedError, "OPABI_ERROR_UNSUPPORTED"),
    (IndexError, "OPABI_ERROR_INDEX"),
    (TypeError, "OPABI_ERROR_TYPE"),
    (ValueError, "OPABI_ERROR_VALUE"),
)
_ANNOTATIONS = {float: ("float64", 0), int: ("int64", 0), bool: ("bool", 0), str: ("uint8", 1)}


class Spec:
    """What a setup function knows of an input: ``shape``, ``dtype``, ``ndim``, ``layout``."""

    __slots__ = ("dtype", "layout", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], layout: str = "") -> None:
        self.shape, self.dtype, self.layout = shape, dtype, layout

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype}, {self.layout!r})"


def kernel(
    signature: str,
    *,
    setup: Callable[..., Any] | None = None,
    name: str | None = None,
    **traits: Any,
) -> Callable[[Callable[..., Any]], Kernel]:
    """Makes a kernel of a Python function that writes into NumPy arrays::

        @opabi.python.kernel("T[h,w] -> T[h,w]")
        def gamma(image, out, *, power: float = 2.0):
            out[...] = 255 * (image / 255) ** power

    **Slow**: each call takes Python's global lock.

    Parameters are the inputs (read-only arrays), the outputs (arrays to fill), and after ``*`` the
    named arguments: arrays, Python numbers for rank 0, and str where the annotation or the default
    is one. An annotation ``float``, ``int``, ``bool`` or ``str`` fixes an argument's type. The
    memory of the arrays is gone after the call, so keeping one is an error; keep a copy.

    An exception is the kernel's error, but for Ctrl-C and SystemExit, which pass a call with
    arrays. A function whose signature has ``<=`` returns the actual
    extent (or shape) of that output, or a tuple with one for each.

    ``setup`` is called with a :class:`Spec` for each input and the same named arguments, and
    returns the output's shape, or ``(shape, dtype)`` where the signature leaves the type open; a
    list with one for each, if there are several outputs.

    ``traits`` are the keywords of ``Kernel.make``, such as ``pure=True``.
    """

    def decorate(function: Callable[..., Any]) -> Kernel:
        if not callable(function):
            raise OpabiTypeError(f"expected a function, found {type(function).__name__}.")
        arguments, strings = _arguments(function)
        names = [argument.name for argument in arguments]
        run = _Callback("opabi_run_fn", lambda call: _run(call, function, names, strings))
        made_setup = None
        if setup is not None:
            made_setup = _Callback("opabi_setup_fn", lambda s: _setup(s, setup, names, strings))
        made = Kernel.make(
            name=name or name_of(function),
            signature=signature,
            doc=inspect.getdoc(function) or "",
            arguments=arguments,
            run=run.address,
            setup=made_setup.address if made_setup else 0,
            keep=(run, made_setup),
            takes_gil=True,
            **traits,
        )
        _check_positional(function, made)
        return made

    return decorate


def _arguments(function: Callable[..., Any]) -> tuple[list[Argument], set[str]]:
    """The keyword-only parameters as named arguments, and which of them are strings."""
    found, strings = [], set()
    for parameter in _parameters(function):
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        default = MISSING if parameter.default is inspect.Parameter.empty else parameter.default
        dtype, ndim = _ANNOTATIONS.get(parameter.annotation, (None, None))
        if isinstance(default, str) or parameter.annotation is str:
            strings.add(parameter.name)
            dtype, ndim = _ANNOTATIONS[str]
        found.append(Argument(parameter.name, dtype, ndim, default))
    return found, strings


def _parameters(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError:  # an annotation that is not defined here
        signature = inspect.signature(function)
    return signature.parameters.values()


def _check_positional(function: Callable[..., Any], made: Kernel) -> None:
    kinds = [parameter.kind for parameter in _parameters(function)]
    found = sum(
        kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for kind in kinds
    )
    expected = made.n_inputs + made.n_outputs
    if found != expected and inspect.Parameter.VAR_POSITIONAL not in kinds:
        raise OpabiTypeError(
            f"kernel '{made.name}': the signature {made.signature!r} has {made.n_inputs} inputs "
            f"and {made.n_outputs} outputs, so the function takes {expected} positional "
            f"parameters, and named arguments after *; found {found}."
        )


class _Callback:
    """A C function that calls ``body(struct)`` and reports its exceptions by status and message."""

    def __init__(self, c_type: str, body: Callable[[Any], None]) -> None:
        def call(struct: Any) -> int:
            try:
                body(struct)
            except BaseException as error:
                return _fail(struct, error)
            return _OK

        self.handle = _FFI.callback(c_type, call, error=_CONSTANTS["OPABI_ERROR_INTERNAL"])
        self.address = int(_FFI.cast("uintptr_t", self.handle))


class _SampleError(Exception):
    """Carries a sample's number next to its exception, the cause."""

    def __init__(self, sample: int) -> None:
        self.sample = sample


def _fail(struct: Any, error: BaseException) -> int:
    if isinstance(error, _SampleError):
        struct.err_where[_CONSTANTS["OPABI_WHERE_SAMPLE"]] = error.sample
        error = error.__cause__ or error
    if not isinstance(error, Exception):  # Ctrl-C or SystemExit: meant for more than the kernel
        _core.raise_after_call(error)
    text = _describe(error).replace("\0", "\\0").encode("utf-8", "backslashreplace")
    if struct.err_cap > 0:
        cut = text[: struct.err_cap - 1].decode("utf-8", "ignore").encode()
        _FFI.memmove(struct.err, cut + b"\0", len(cut) + 1)
    name = next((n for kind, n in _STATUSES if isinstance(error, kind)), "OPABI_ERROR_INTERNAL")
    return _CONSTANTS[name]


def _describe(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _each_sample(struct: Any, body: Callable[[int], None]) -> None:
    for sample in range(struct.n_samples):
        try:
            body(sample)
        except BaseException as error:
            raise _SampleError(sample) from error


# ---- run -----------------------------------------------------------------------------------------


def _run(call: Any, function: Callable[..., Any], names: list[str], strings: set[str]) -> None:
    _each_sample(call, lambda sample: _run_sample(call, sample, function, names, strings))


def _run_sample(
    call: Any, sample: int, function: Callable[..., Any], names: list[str], strings: set[str]
) -> None:
    views = _Views()
    inputs = [views.read(call.inputs[sample * call.n_in + port]) for port in range(call.n_in)]
    outputs = [views.write(call.outputs[sample * call.n_out + p]) for p in range(call.n_out)]
    values = _values(call, sample, names, strings)
    result = function(*inputs, *outputs, **values)
    if call.out_actual:
        _set_actual(call, sample, outputs, result)
    elif result is not None:
        raise TypeError(
            f"a kernel writes into its outputs (out[...] = value) and returns None; this one "
            f"returned {type(result).__name__}"
        )
    result = None
    del inputs, outputs
    views.close()


class _Views:
    """Arrays over the memory of one call, with a check that nothing keeps them."""

    def __init__(self) -> None:
        self._buffers: list[Any] = []
        self._counts: list[int] = []

    def write(self, tensor: Any) -> np.ndarray[Any, Any]:
        shape, dtype = _shape(tensor), _DTYPES[tensor.dtype]
        if 0 in shape:
            return np.empty(shape, dtype)
        self._buffers.append(_FFI.buffer(tensor.data, dtype.itemsize * math.prod(shape)))
        self._counts.append(sys.getrefcount(self._buffers[-1]))
        return np.ndarray(shape, dtype, self._buffers[-1])

    def read(self, tensor: Any) -> np.ndarray[Any, Any]:
        array = self.write(tensor)
        array.flags.writeable = False
        return array

    def close(self) -> None:
        if self._kept():
            gc.collect()
            if self._kept():
                raise ValueError(
                    "the function keeps an array of the call (or a view of one) whose memory is "
                    "gone after it; keep a copy: array.copy() [OPABI-K-026]"
                )

    def _kept(self) -> bool:
        return any(
            sys.getrefcount(self._buffers[i]) > count for i, count in enumerate(self._counts)
        )


def _shape(tensor: Any) -> tuple[int, ...]:
    ndim = tensor.ndim
    return tuple(_FFI.unpack(tensor.shape, ndim)) if ndim else ()


def _values(struct: Any, sample: int, names: list[str], strings: set[str]) -> dict[str, Any]:
    return {
        name: _value(struct.args[sample * struct.n_args + index], name in strings)
        for index, name in enumerate(names)
    }


def _value(tensor: Any, is_string: bool) -> Any:
    shape, dtype = _shape(tensor), _DTYPES[tensor.dtype]
    size = dtype.itemsize * math.prod(shape)
    data = bytes(_FFI.buffer(tensor.data, size)) if size else b""
    if is_string:
        return data.decode("utf-8")
    array = np.frombuffer(data, dtype).reshape(shape)
    return array if shape else array.item()


def _set_actual(call: Any, sample: int, outputs: Sequence[Any], result: Any) -> None:
    """Writes the sizes that the function returned, and moves the data to where they say."""
    rows = [call.out_actual + (sample * call.n_out + p) * call.max_ndim for p in range(call.n_out)]
    bounded = [
        port
        for port, array in enumerate(outputs)
        if any(rows[port][d] == _UNSET for d in range(array.ndim))
    ]
    results = [result] if len(bounded) == 1 else result
    if not isinstance(results, (list, tuple)) or len(results) != len(bounded):
        raise TypeError(
            f"the signature bounds {len(bounded)} outputs with '<=', so the function returns a "
            f"tuple of as many sizes; it returned {result!r}"
        )
    for port, size in zip(bounded, results, strict=True):
        array, row = outputs[port], rows[port]
        actual = _actual_shape(array.shape, [row[d] for d in range(array.ndim)], size)
        block = array[tuple(slice(extent) for extent in actual)].copy()
        array.reshape(-1)[: block.size] = block.reshape(-1)
        for d, extent in enumerate(actual):
            row[d] = extent


def _actual_shape(bound: tuple[int, ...], row: list[int], size: Any) -> tuple[int, ...]:
    if isinstance(size, (int, np.integer)) and row.count(_UNSET) == 1:
        actual = [int(size) if extent == _UNSET else extent for extent in row]
    elif isinstance(size, (list, tuple)) and len(size) == len(bound):
        actual = [int(extent) for extent in size]
    else:
        raise TypeError(f"expected the actual extent or shape of an output, found {size!r}")
    if any(not 0 <= extent <= most for extent, most in zip(actual, bound, strict=True)):
        raise IndexError(f"the actual shape {tuple(actual)} is not within the bound {bound}")
    return tuple(actual)


# ---- setup ---------------------------------------------------------------------------------------


def _setup(setup: Any, function: Callable[..., Any], names: list[str], strings: set[str]) -> None:
    layouts = [_FFI.string(setup.in_layouts[p]).decode() for p in range(setup.n_in)]
    _each_sample(setup, lambda s: _setup_sample(setup, s, function, layouts, names, strings))


def _setup_sample(
    setup: Any,
    sample: int,
    function: Callable[..., Any],
    layouts: list[str],
    names: list[str],
    strings: set[str],
) -> None:
    tensors = [setup.inputs[sample * setup.n_in + port] for port in range(setup.n_in)]
    specs = [
        Spec(_shape(tensor), _DTYPES[tensor.dtype], layout)
        for tensor, layout in zip(tensors, layouts, strict=True)
    ]
    result = function(*specs, **_values(setup, sample, names, strings))
    results = [result] if setup.n_out == 1 else result
    if not isinstance(results, (list, tuple)) or len(results) != setup.n_out:
        raise TypeError(f"setup returned {result!r}; expected a list of {setup.n_out} shapes")
    for port, one in enumerate(results):
        shape, dtype = _split(one)
        if len(shape) > setup.max_ndim:
            raise ValueError(
                f"setup gives output {port} {len(shape)} extents; expected at most {setup.max_ndim}"
            )
        if min(shape, default=0) < 0:
            raise ValueError(f"setup gives output {port} the shape {shape}")
        setup.out_ndim[port] = len(shape)
        if dtype is not None:
            setup.out_dtype[port] = dtype
        row = setup.out_shape + (sample * setup.n_out + port) * setup.max_ndim
        for d, extent in enumerate(shape):
            row[d] = extent


def _split(result: Any) -> tuple[tuple[int, ...], int | None]:
    """An output's shape and, if given, its dtype's word: 5, (5, 3), ((5, 3), "float32")."""
    dtype = None
    if isinstance(result, (list, tuple)) and len(result) == 2 and _is_dtype(result[1]):
        result, name = result
        dtype = _WORDS.get(np.dtype(name))
        if dtype is None:
            raise TypeError(f"setup gives dtype {name!r}, which opabi does not have")
    if isinstance(result, (int, np.integer)):
        return (int(result),), dtype
    if isinstance(result, (list, tuple)) and all(isinstance(e, (int, np.integer)) for e in result):
        return tuple(int(extent) for extent in result), dtype
    raise TypeError(f"setup returned {result!r} for an output; expected a shape or (shape, dtype)")


def _is_dtype(value: Any) -> bool:
    return isinstance(value, (str, type, np.dtype))
