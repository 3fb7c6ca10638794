# SPDX-License-Identifier: Apache-2.0
"""Tests that need a GPU: ``python tests/gpu/run.py`` runs them and measures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def _missing() -> str:
    """Why nothing here can run, or ""."""
    if os.environ.get("OPABI_CUDA_DRIVER"):
        return "this process has the fake driver of tests/cuda: run tests/gpu alone"
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"no GPU: {error}"
    return ""


WHY_NOT = _missing()
collect_ignore_glob = ["test_*.py"] if WHY_NOT else []


def pytest_report_header() -> str:
    return f"tests/gpu: left out, {WHY_NOT}" if WHY_NOT else "tests/gpu: on the GPU"


@pytest.fixture(scope="session")
def library() -> Any:
    """kernels.cu by nvcc."""
    import opabi

    return opabi.cuda.compile(Path(__file__).parent / "kernels.cu")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
