# SPDX-License-Identifier: Apache-2.0
"""Serialised pipelines: kernels of a library travel, those of an address do not."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvidia.dali import Pipeline, fn
from pipelines import build, feed, same, samples

RECEIVER = """
import sys
from nvidia.dali import Pipeline, plugin_manager
plugin_manager.load_library(sys.argv[1])
pipeline = Pipeline.deserialize(filename=sys.argv[2])
print([sample.tolist() for sample in map(pipeline.run()[0].at, range(2))])
print(sorted(name for name in sys.modules if name.split(".")[0] in ("numba", "opabi")))
"""


def receive(plugin: str, file: Path) -> subprocess.CompletedProcess[str]:
    """Runs a pipeline in a process that has DALI and the plugin, and no Python of opabi's."""
    command = [sys.executable, "-c", RECEIVER, plugin, str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def numbers() -> Any:
    return fn.cast_like(fn.random.uniform(values=[3.0]), np.float32(0))


def scaled(library: Any) -> Any:
    ones = fn.reshape(fn.random.uniform(values=[1.0]), shape=[1])
    return library.affine(ones, gain=numbers(), bias=0.5)


def test_library_kernel_runs_in_a_process_that_has_only_the_plugin(
    plugin: Any, c_kernels: Any, tmp_path: Path
) -> None:
    build(lambda: scaled(c_kernels), batch_size=2).serialize(filename=str(tmp_path / "pipeline"))
    received = receive(plugin.path, tmp_path / "pipeline")
    assert received.returncode == 0, received.stderr
    assert received.stdout.splitlines() == ["[[3.5], [3.5]]", "[]"]


def test_library_that_is_missing_at_the_destination_is_named(
    plugin: Any, c_kernels: Any, tmp_path: Path
) -> None:
    copied = tmp_path / "libcopied.so"
    copied.write_bytes(Path(c_kernels.path).read_bytes())

    def define() -> Any:
        return fn.opabi.call(numbers(), library=str(copied), symbol="identity")

    build(define, batch_size=2).serialize(filename=str(tmp_path / "pipeline"))
    copied.unlink()
    received = receive(plugin.path, tmp_path / "pipeline")
    assert received.returncode == 1
    assert str(copied) in received.stderr


def test_kernel_by_address_refuses_and_says_what_travels(by_address: Callable[..., Any]) -> None:
    kernel = by_address("invert", "uint8[n] -> uint8[n]")
    batch = [np.uint8([1])]
    pipeline = build(lambda: kernel(feed(batch)), batch_size=1)
    with pytest.raises(RuntimeError, match=r"kernel 'invert'.*opabi\.load\(path\)\.invert"):
        pipeline.serialize()
    assert same(samples(pipeline.run()[0]), [np.uint8([254])])


def test_handle_from_another_process_is_refused(
    plugin: Any, by_address: Callable[..., Any], tmp_path: Path
) -> None:
    kernel = by_address("any", "T[...] -> T[...]")
    pipeline = build(lambda: kernel(numbers()), batch_size=2)
    Pipeline.serialize(pipeline, filename=str(tmp_path / "pipeline"))
    received = receive(plugin.path, tmp_path / "pipeline")
    assert received.returncode == 1
    assert "no kernel of this process has the handle" in received.stderr
    assert "opabi.load()" in received.stderr


def test_definition_holds_no_address(addresses: Any, by_address: Callable[..., Any]) -> None:
    kernel = by_address("any", "T[...] -> T[...]")
    text = Pipeline.serialize(build(lambda: kernel(numbers()), batch_size=2))
    address = ctypes.cast(addresses.any_run, ctypes.c_void_p).value
    assert address
    assert address.to_bytes(8, "little") not in text
    assert varint(address) not in text


def varint(number: int) -> bytes:
    """As protobuf writes it."""
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])
