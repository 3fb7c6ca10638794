"""The plugin's C functions, called through ctypes, and the registrations of kernels in it."""

from __future__ import annotations

import ast
import ctypes
import threading
import weakref
from typing import Any

from opabi.dali import build
from opabi.errors import OpabiRuntimeError, OpabiValueError

SCHEMA = "opabi__Call"
API = "1"
"""The first part of ``opabi_dali_version()``: of the C functions that this file calls."""

_ERR_CAP = 1024


class Registration:
    """A kernel's handle in the plugin, which is forgotten with this object.

    Operators that were built keep the kernel; a registration serves those still to be built.
    """

    def __init__(self, plugin: Plugin, handle: int) -> None:
        self.handle = handle
        weakref.finalize(self, plugin.forget, handle).atexit = False


class Plugin:
    """The loaded library."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = ctypes.CDLL(path)
        self._library.opabi_dali_version.restype = ctypes.c_char_p
        self._library.opabi_dali_error.restype = ctypes.c_char_p
        self._register = self._library.opabi_dali_register
        self._register.restype = ctypes.c_int64
        self._register.argtypes = (
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_int64,
        )
        self._forget = self._library.opabi_dali_forget
        self._forget.restype = None
        self._forget.argtypes = (ctypes.c_int64,)
        self._registrations: weakref.WeakKeyDictionary[Any, Registration] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    @property
    def version(self) -> str:
        return str(self._library.opabi_dali_version().decode())

    @property
    def error(self) -> str:
        return str(self._library.opabi_dali_error().decode(errors="replace"))

    def registration(self, kernel: Any) -> Registration:
        """The registration of a kernel object; one for all its operators."""
        with self._lock:
            found = self._registrations.get(kernel)
            if found is None:
                found = Registration(self, self._add(*kernel._core.hold()))
                self._registrations[kernel] = found
            return found

    def _add(self, descriptor: int, owner: int, drop: int) -> int:
        err = ctypes.create_string_buffer(_ERR_CAP)
        handle = int(self._register(descriptor, owner, drop, err, _ERR_CAP))
        if not handle:
            raise OpabiValueError(err.value.decode(errors="replace"))
        return handle

    def forget(self, handle: int) -> None:
        self._forget(handle)


_lock = threading.Lock()
_plugin: Plugin | None = None


def plugin() -> Plugin:
    """The plugin of this process's DALI; the first call loads it, and builds it if need be."""
    global _plugin
    if _plugin is None:
        with _lock:
            if _plugin is None:
                _plugin = _load()
    return _plugin


def _load() -> Plugin:
    from nvidia.dali import plugin_manager

    path = _loaded_before()
    if path is None:
        path = str(build.plugin_path())
        plugin_manager.load_library(path)
    loaded = Plugin(path)
    if loaded.error:
        raise OpabiRuntimeError(
            f"opabi's operator could not register itself with DALI: {loaded.error}"
        )
    if loaded.version.partition(",")[0] != API:
        raise OpabiRuntimeError(
            f"this process has loaded the plugin {path} of another opabi: found version "
            f"{loaded.version}, expected {API}. Let opabi load its own, or load that one."
        )
    return loaded


def _loaded_before() -> str | None:
    """The plugin that somebody else has loaded, perhaps a copy: it has the operator that serves."""
    from nvidia.dali import backend

    schema = backend.TryGetSchema(SCHEMA)
    return (
        None
        if schema is None
        else str(ast.literal_eval(schema.GetArgumentDefaultValueString("_plugin")))
    )
