# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs: one loop over NumPy arrays of 16 bytes, called in each way.

By the thread's own time: nothing waits here, and other processes then do not count.
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sysconfig
import time
import timeit
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cffi
import numba
import numpy as np
import opabi
import pybind11
import tvm_ffi
import tvm_ffi.cpp
from measure import SCRATCH, Case, Group, Target, at_most, interleave
from opabi.dali.build import find_compiler

HERE = Path(__file__).parent
OURS, TVM = "opabi, C, out=", "tvm-ffi, NumPy arrays"

TVM_SOURCE = """
void invert(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const auto *in = static_cast<const uint8_t *>(x.data_ptr());
  auto *out = static_cast<uint8_t *>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); i++) out[i] = static_cast<uint8_t>(255 - in[i]);
}
"""


def build_peers() -> Path:
    target = SCRATCH / f"bench_peers{sysconfig.get_config_var('EXT_SUFFIX')}"
    includes = [f"-I{pybind11.get_include()}", f"-I{sysconfig.get_path('include')}"]
    flags = ["-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden"]
    subprocess.run(
        [str(find_compiler()), *flags, *includes, str(HERE / "peers.cc"), "-o", str(target)],
        check=True,
    )
    return target


def calls() -> dict[str, tuple[str, dict[str, Any]]]:
    """For each peer a statement, and the names in it beside ``x`` and ``y``."""
    library = opabi.c.compile(HERE / "kernels.c")
    path = build_peers()
    spec = importlib.util.spec_from_file_location("bench_peers", path)
    assert spec is not None
    assert spec.loader is not None
    peers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers)
    ffi = cffi.FFI()
    ffi.cdef("void bench_invert(const uint8_t *in, uint8_t *out, int64_t n);")
    plain = ctypes.CDLL(str(path)).bench_invert
    plain.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    plain.restype = None
    tvm = tvm_ffi.cpp.load_inline(
        "bench", cpp_sources=TVM_SOURCE, functions=["invert"], extra_cflags=["-O3"]
    )

    @numba.njit
    def jitted(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = 255 - x[i]

    @opabi.numba.kernel("uint8[n] -> uint8[n]")
    def numba_kernel(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = 255 - x[i]

    from_buffer = ffi.from_buffer
    return {
        OURS: ("f(x, out=y)", {"f": library.invert}),
        "opabi, C, new array": ("f(x)", {"f": library.invert}),
        "opabi, C with setup, out=": ("f(x, out=y)", {"f": library.invert_by_setup}),
        "opabi, C, named argument, out=": ("f(x, bias=3, out=y)", {"f": library.add}),
        "opabi, Numba, out=": ("f(x, out=y)", {"f": numba_kernel}),
        TVM: ("f(x, y)", {"f": tvm.invert}),
        "numba.njit": ("f(x, y)", {"f": jitted}),
        "pybind11": ("f(x, y)", {"f": peers.invert}),
        "cffi": (
            "f(b('uint8_t[]', x), b('uint8_t[]', y), x.size)",
            {"f": ffi.dlopen(str(path)).bench_invert, "b": from_buffer},
        ),
        "ctypes": ("f(x.ctypes.data, y.ctypes.data, x.size)", {"f": plain}),
        "numpy.subtract, out=": ("f(255, x, out=y)", {"f": np.subtract}),
    }


def eager(repeats: int) -> Iterator[Group]:
    x = np.arange(16, dtype=np.uint8)
    cases = []
    for name, (statement, names) in calls().items():
        y = np.zeros(16, np.uint8)
        timer = timeit.Timer(statement, timer=time.thread_time, globals={**names, "x": x, "y": y})
        timer.timeit(10)
        number = max(100, int(0.02 / (timer.timeit(1000) / 1000)))

        def run(timer: timeit.Timer = timer, number: int = number) -> float:
            return 1e9 * timer.timeit(number) / number

        cases.append(Case(name, run))
        expected = x + 3 if "argument" in name else 255 - x
        if "new array" not in name and not np.array_equal(y, expected):
            raise RuntimeError(f"{name} gives {y}")
    yield interleave("eager", "two uint8 arrays of 16", "ns a call", cases, repeats)


def targets(group: Group) -> list[Target]:
    return [at_most(group, OURS, TVM, 3.0)]
