# SPDX-License-Identifier: Apache-2.0
"""What all tests share: libraries of example kernels, compiled once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import opabi
import pytest
from hypothesis import settings

settings.register_profile("opabi", deadline=None)
settings.load_profile("opabi")

SOURCES = Path(__file__).parent / "c"


def _library(source: str) -> Any:
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    return opabi.c.compile(SOURCES / source, flags=("-Wall", "-Wextra"))


@pytest.fixture(scope="session")
def c_kernels() -> Any:
    """The library of tests/c/kernels.c."""
    return _library("kernels.c")


@pytest.fixture(scope="session")
def cc_kernels() -> Any:
    """The library of tests/c/kernels.cc, written with opabi.hpp."""
    return _library("kernels.cc")


@pytest.fixture(scope="session")
def hostile() -> Any:
    """The library of tests/c/hostile.c: each kernel breaks one rule when it is called."""
    return _library("hostile.c")


@pytest.fixture(scope="session")
def broken() -> Callable[..., Any]:
    """``broken("-DNULL_KERNEL")``: tests/c/broken.c, compiled with these flags and loaded."""

    def load(*flags: str) -> Any:
        return opabi.c.compile(SOURCES / "broken.c", flags=("-Wno-override-init", *flags))

    return load
