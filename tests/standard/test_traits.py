# SPDX-License-Identifier: Apache-2.0
"""What kernels claim by traits and dtypes is so, for kernels that our adapters and headers make."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from typing import Any

import bare_host
import numpy as np
import opabi
import pytest
from bare_host import Case
from test_duties import check, counts, descriptors

REENTRANT = """
#include <opabi/opabi.h>
#include <stdlib.h>
static int32_t create(const opabi_create *create) {
  *create->out_instance = calloc(1, sizeof(int64_t));
  return *create->out_instance ? OPABI_OK : OPABI_ERROR_OUT_OF_MEMORY;
}
static void destroy(void *user_data, void *instance) { (void)user_data; free(instance); }
static int32_t tally(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    int64_t n = __atomic_add_fetch((int64_t *)call->instance, 1, __ATOMIC_RELAXED);
    *(int64_t *)call->outputs[s].data = n > 0;
  }
  return OPABI_OK;
}
OPABI_KERNEL(tally, "int32[n] -> int64", .create = create, .destroy = destroy,
             .traits = OPABI_REENTRANT);
static int32_t tallied(const opabi_call *call) {
  *(int64_t *)call->outputs[0].data = *(int64_t *)call->instance;
  return OPABI_OK;
}
OPABI_KERNEL(tallied, "int32[n] -> int64");
OPABI_LIBRARY("reentrant", "1", &tally_kernel, &tallied_kernel)
"""

POSITIVE = """
#include <opabi/opabi.hpp>
static void positive(opabi::flat<const float> in, opabi::flat<bool> out) {
  for (int64_t i = 0; i < in.size(); i++) out[i] = in[i] > 0;
}
OPABI_CPP_KERNEL(positive, "float32[...] -> bool[...]");
OPABI_LIBRARY("positive", "1", &positive_kernel)
"""


def test_reentrant_kernel_bears_calls_that_overlap_on_one_instance() -> None:
    """OPABI-K-050"""
    kernels = descriptors(opabi.c.compile(REENTRANT, language="c").path)
    kernel = kernels["tally"]
    instance = bare_host.create(kernel)
    gate = threading.Barrier(4, timeout=60)

    def work() -> None:
        case = Case(kernel, [[np.zeros(3, np.int32)]] * 50, lambda x: [np.array(1)])
        for _ in range(4):
            check(case, bare_host.run(case, instance=instance, gate=gate.wait))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts(kernels["tallied"], instance, 1) == [4 * 4 * 50]
    kernel.destroy(kernel.user_data, instance)


def positive_in_cpp() -> Any:
    return opabi.c.compile(POSITIVE, language="c++").positive


def positive_in_numba() -> Any:
    pytest.importorskip("numba")

    @opabi.numba.kernel("float32[n] -> bool[n]")
    def positive(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] > 0

    return positive


def positive_in_python() -> Any:
    @opabi.python.kernel("float32[n] -> bool[n]")
    def positive(x: Any, out: Any) -> None:
        out[...] = x > 0

    return positive


@pytest.mark.parametrize("make", [positive_in_cpp, positive_in_numba, positive_in_python])
def test_bool_output_holds_0_and_1_alone(make: Any) -> None:
    """OPABI-K-015"""
    x = np.linspace(-3, 5, 33, dtype=np.float32)
    found = make()(x)
    assert found.dtype == np.bool_
    assert found.view(np.uint8).tolist() == (x > 0).view(np.uint8).tolist()


def test_python_kernel_says_that_it_takes_the_lock() -> None:
    """OPABI-K-054"""
    assert "takes_gil" in positive_in_python().traits


def test_kernels_without_python_do_not_say_so(c_kernels: Any, cc_kernels: Any) -> None:
    """OPABI-K-054"""
    for library in (c_kernels, cc_kernels):
        assert not any("takes_gil" in kernel.traits for kernel in library.values())


def test_library_stays_loaded_when_nobody_holds_it(c_kernels: Any) -> None:
    """OPABI-H-029"""
    program = """
import ctypes, gc, os, sys
import opabi
def is_loaded():
    try:
        return bool(ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_NOLOAD))
    except OSError:
        return False
assert not is_loaded()
library = opabi.load(sys.argv[1])
kernel = library.invert
del library, kernel
gc.collect()
assert is_loaded()
"""
    command = [sys.executable, "-c", program, c_kernels.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_lock_of_python_is_not_held_while_another_thread_is_waited_for() -> None:
    """OPABI-H-021"""
    program = """
import threading, time
import numpy as np
import opabi

@opabi.python.kernel("float32[n] -> float32[n]")
def late(x, out):
    time.sleep(0.001)  # gives up the lock inside the call
    out[...] = x + 1

def work():
    for n in range(20):
        batch = [np.zeros(n % 3, np.float32)] * 3
        for y in late(batch, num_threads=3):
            assert (y == 1).all()

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_specialize_from_many_threads_of_python_does_not_hang() -> None:
    """OPABI-H-021"""
    pytest.importorskip("numba")
    program = """
import threading
import numpy as np
import opabi

@opabi.numba.kernel("T[n] -> T[n]")
def plus_one(x, out):
    for i in range(x.size): out[i] = x[i] + 1

def work(dtype):
    for _ in range(20): assert plus_one(np.zeros(3, dtype)).tolist() == [1, 1, 1]

dtypes = [np.uint8, np.float32, np.uint8, np.float64]
threads = [threading.Thread(target=work, args=(dtype,)) for dtype in dtypes]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")


def test_seed_that_nobody_gives_is_fresh_for_each_sample(c_kernels: Any) -> None:
    """OPABI-H-026"""
    x = np.zeros(2, np.float32)
    random.seed(3)
    first = [int(seed) for seed in c_kernels.seeded([x] * 5)]
    second = [int(seed) for seed in c_kernels.seeded([x] * 5)]
    assert len({*first, *second, int(c_kernels.seeded(x))}) == 11
    random.seed(3)
    assert [int(seed) for seed in c_kernels.seeded([x] * 5)] == first
    assert [int(seed) for seed in c_kernels.seeded([x, x], seed=[7, 8])] == [7, 8]
    assert c_kernels.seeded([], seed=[]) == []
