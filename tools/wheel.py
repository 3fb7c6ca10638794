# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel to release: ``python tools/wheel.py 2.2.0 2.3.0 2.4.0``.

It carries the operator for each of these releases of DALI, built against the headers and the
library of DALI's own wheel. The compiler and the C library of the machine decide where the result
runs: build on the oldest system that is to be served.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from opabi.dali import build

ROOT = Path(__file__).resolve().parents[1]
DALIS = ROOT / "build" / "dali"
PREBUILT = ROOT / "build" / "prebuilt"
DIST = ROOT / "dist"


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, cwd=ROOT)


def fetch(release: str) -> build.Dali:
    """DALI, unpacked and not installed."""
    target = DALIS / release
    init = target / "nvidia" / "dali" / "__init__.py"
    if not init.is_file():
        pip("install", "--no-deps", f"--target={target}", f"nvidia-dali-cuda120=={release}")
    return build.read_dali(init)


def main(releases: list[str]) -> None:
    for old in (PREBUILT, DIST, *(ROOT / "build").glob("lib.*")):
        shutil.rmtree(old, ignore_errors=True)
    for release in releases:
        target = PREBUILT / release / build.PLUGIN
        target.parent.mkdir(parents=True)
        build.build(fetch(release), build.find_compiler(), target)
    os.environ["OPABI_PREBUILT"] = str(PREBUILT)
    pip("wheel", "--no-deps", f"--wheel-dir={DIST}", ".")
    print(*sorted(map(str, DIST.glob("*.whl"))), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
