# SPDX-License-Identifier: Apache-2.0
"""Tests that need a GPU: ``python tests/gpu/run.py`` runs them and measures. Without one they are skipped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if os.environ.get("OPABI_CUDA_DRIVER"):
    pytest.skip(
        "this process has the fake driver of tests/cuda: run tests/gpu alone",
        allow_module_level=True,
    )
cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
try:
    cupy.cuda.runtime.getDeviceCount()
except cupy.cuda.runtime.CUDARuntimeError as error:
    pytest.skip(f"no GPU: {error}", allow_module_level=True)


@pytest.fixture(scope="session")
def library() -> Any:
    """kernels.cu by nvcc."""
    import opabi

    return opabi.cuda.compile(Path(__file__).parent / "kernels.cu")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
