# SPDX-License-Identifier: Apache-2.0
"""Every scenario runs in a process of its own, which is killed at its limit: a hang is a
failure.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def child() -> Callable[..., None]:
    """``child("faults.py", "name", *args)``: runs that scenario, and fails if it fails or hangs."""
    for package in ("torch", "optree", "nvidia.dali"):
        pytest.importorskip(package)

    def run(file: str, name: str, *args: object, limit: float = 90) -> None:
        command = [sys.executable, str(HERE / file), name, *map(str, args)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            text, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            pytest.fail(f"{file} {name}: not done after {limit} s\n{text}")
        assert process.returncode == 0, f"{file} {name}: exit {process.returncode}\n{text}"
        assert "Exception ignored" not in text, text
        assert "Traceback" not in text, text

    return run
