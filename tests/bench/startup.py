# SPDX-License-Identifier: Apache-2.0
"""What a user waits for once: imports, the plugin, the first call. Each in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from measure import SCRATCH, Case, Group, Target, interleave

IMPORT = """
start = time.perf_counter()
import opabi
"""
KERNEL = """
start = time.perf_counter()
import opabi.kernel
"""
LOAD = """
import nvidia.dali, opabi.kernel
start = time.perf_counter()
from opabi.dali.plugin import plugin
plugin()
"""
BUILD = """
import tempfile
cache = tempfile.TemporaryDirectory()
os.environ["XDG_CACHE_HOME"] = cache.name
from opabi.dali import build
start = time.perf_counter()
build.plugin_path()
"""
NUMBA = """
import numba, numpy
start = time.perf_counter()
import opabi
@opabi.numba.kernel("T[h,w,c] -> T[h,w,c]")
def solarize(image, out, *, threshold=128):
    a, o = image.reshape(-1), out.reshape(-1)
    for i in range(a.size):
        o[i] = a[i] if a[i] < threshold else 255 - a[i]
solarize(numpy.zeros((4, 4, 3), numpy.uint8), threshold=100)
"""
PARTS = {
    "import opabi": IMPORT,
    "import opabi.kernel": KERNEL,
    "plugin, cached, after import nvidia.dali": LOAD,
    "Numba kernel, cached, first call after import numba": NUMBA,
}
LIMITS = {
    "import opabi": 100,
    "import opabi.kernel": 100,
    "plugin, cached, after import nvidia.dali": 20,
    "Numba kernel, cached, first call after import numba": 200,
    "plugin, built": 12_000,
}


def milliseconds(script: Path, environment: Mapping[str, str]) -> float:
    """From ``start`` in the script to its end."""
    done = subprocess.run(
        [sys.executable, str(script)],
        env=dict(environment),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(done.stdout.split()[-1])


def cases(parts: Mapping[str, str]) -> list[Case]:
    # As where Python may keep the bytecode of its modules.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(SCRATCH / "bytecode")
    made = []
    for name, body in parts.items():
        script = SCRATCH / f"{name}.py"
        script.write_text(
            f"import os, time\n{body}print(1e3 * (time.perf_counter() - start))\n", encoding="utf-8"
        )

        def run(script: Path = script) -> float:
            return milliseconds(script, environment)

        made.append(Case(name, run))
    return made


def startup(repeats: int) -> Iterator[Group]:
    second = cases(PARTS)
    for case in second:
        case.run()  # fills the caches
    yield interleave("startup", "second process", "ms", second, repeats)
    yield interleave(
        "startup", "first process", "ms", cases({"plugin, built": BUILD}), min(repeats, 3)
    )


def targets(group: Group) -> list[Target]:
    return [Target(name, group.median(name), LIMITS[name], "ms") for name in group.values]
