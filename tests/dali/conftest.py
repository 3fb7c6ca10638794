# SPDX-License-Identifier: Apache-2.0
"""What the tests of the operator share. They run under each DALI release that opabi supports."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import opabi
import pytest

pytest.importorskip("nvidia.dali")


@pytest.fixture(scope="session")
def addresses() -> Any:
    """The functions of addresses.c, as ctypes has them."""
    library = opabi.c.compile(Path(__file__).parent / "addresses.c", flags=("-Wall", "-Wextra"))
    functions = ctypes.CDLL(library.path)
    functions.take_collected.restype = ctypes.c_int64
    return functions


@pytest.fixture
def by_address(addresses: Any) -> Callable[..., Any]:
    """``by_address("invert", "uint8[n] -> uint8[n]")``: a kernel of one of these functions."""

    def make(name: str, signature: str, **traits: Any) -> Any:
        return opabi.c.function(getattr(addresses, f"{name}_run"), signature, name=name, **traits)

    return make


@pytest.fixture(scope="session")
def plugin() -> Any:
    """The loaded plugin; with it ``fn.opabi.call`` is there."""
    from opabi.dali.plugin import plugin

    return plugin()
