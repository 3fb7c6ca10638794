# SPDX-License-Identifier: Apache-2.0
"""A CUDA driver for machines without a GPU, and arrays that say they lie on one of its devices."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opabi import device_arrays
from opabi.adapters import c_build

HERE = Path(__file__).parent


def _build(source: str, language: str, folder: Path) -> str:
    target = folder / f"{Path(source).stem}.so"
    command = [*c_build.find_compiler(language, None), "-shared", "-fPIC", "-O1", "-Wall"]
    if language == "c++":
        command += ["-std=c++17", f"-I{HERE.parents[1] / 'include'}"]
    subprocess.run([*command, str(HERE / source), "-o", str(target)], check=True)
    return str(target)


_folder = tempfile.TemporaryDirectory(prefix="opabi-fake-")
os.environ["OPABI_CUDA_DRIVER"] = _build("fake_driver.c", "c", Path(_folder.name))


class Record(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in [
                "launches",
                "copies",
                "copied_bytes",
                "allocs",
                "frees",
                "host_allocs",
                "host_frees",
            ]
        ),
        *((name, ctypes.c_int64) for name in ["syncs", "waits", "events", "records"]),
        ("grid", ctypes.c_uint64 * 3),
        ("block", ctypes.c_uint64 * 3),
        *((name, ctypes.c_uint64) for name in ("shared", "stream", "function")),
    ]


class FakeArray:
    """A NumPy array that claims to lie on a device."""

    __module__ = "fakearray"

    def __init__(self, array: Any, device_id: int = 0) -> None:
        self.array = np.asarray(array)
        self.device_id = device_id

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device_id

    def __dlpack__(self, *, stream: int) -> Any:
        return self.array.__dlpack__()


class FakeLibrary:
    current_stream = 0x1234

    @classmethod
    def stream(cls, device_id: int) -> int:
        return cls.current_stream

    @staticmethod
    def new(device_id: int, dtype: str, shape: tuple[int, ...]) -> FakeArray:
        return FakeArray(np.full(shape, 0, dtype), device_id)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    library = ctypes.CDLL(os.environ["OPABI_CUDA_DRIVER"])
    library.fake_get.restype = ctypes.POINTER(Record)
    library.fake_reset()
    monkeypatch.setitem(device_arrays.LIBRARIES, "fakearray", FakeLibrary)
    yield library
    library.fake_hold(0)
    library.fake_param_size(8192)
    assert library.fake_depth() == 0, "a context was left current"


@pytest.fixture
def record(driver: Any) -> Record:
    return driver.fake_get().contents


@pytest.fixture(scope="session")
def functions() -> Any:
    """name -> address of the fake's functions."""
    library = ctypes.CDLL(_build("fake_kernels.cc", "c++", Path(_folder.name)))
    return lambda name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value


@pytest.fixture
def gpu(driver: Any) -> type[FakeArray]:
    return FakeArray
