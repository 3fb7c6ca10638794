# SPDX-License-Identifier: Apache-2.0
"""All that needs a GPU: tests, then times. Writes RESULTS.md beside this file, or where it is told.

python tests/gpu/run.py [--output FILE] [--no-bench]
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def versions() -> str:
    import cupy

    lines = [f"Python {sys.version.split()[0]}", f"CuPy {cupy.__version__}"]
    for name in ("nvidia.dali", "torch", "triton", "numba", "numba_cuda"):
        try:
            lines.append(f"{name} {__import__(name, fromlist=['__version__']).__version__}")
        except (ImportError, AttributeError):
            continue
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    driver = cupy.cuda.runtime.driverGetVersion()
    return f"{device}, CUDA {driver // 1000}.{driver % 1000 // 10}; {', '.join(lines)}."


def sanitize(tool: str) -> str:
    """ "0 errors" or "0 hazards", as the tool counts them."""
    without = "not failures and not illegal and not compile and not triton"
    command = ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", sys.executable]
    command += ["-m", "pytest", str(HERE / "test_eager.py"), "-q", "-k", without]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    summary = re.search(r"SUMMARY: (\d+ \w+)", done.stdout)
    return summary.group(1) if summary and " passed" in done.stdout else "did not run"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE / "RESULTS.md")
    parser.add_argument("--no-bench", action="store_true")
    options = parser.parse_args()
    try:
        where = versions()
    except Exception as error:  # no CuPy, no GPU, no driver
        print(f"no GPU to test on: {error}")
        return 0
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(HERE),
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
    ]
    tests = subprocess.run(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    print(tests.stdout, flush=True)
    report = ["# Results on a GPU", "", "Written by `python tests/gpu/run.py`.", "", where, ""]
    report += ["## Tests", "", f"`{tests.stdout.strip().splitlines()[-1].strip('= ')}`", ""]
    if shutil.which("compute-sanitizer"):
        found = ", ".join(f"{tool} {sanitize(tool)}" for tool in ("memcheck", "racecheck"))
        report += [f"Under compute-sanitizer, without the tests of failures: {found}.", ""]
    options.output.write_text("\n".join(report), encoding="utf-8")
    if not options.no_bench:
        sys.path.insert(0, str(HERE))
        import bench
        import opabi

        report += ["## Times", "", bench.__doc__ or "", ""]
        report.append(bench.measure(opabi.cuda.compile(HERE / "kernels.cu")))
        options.output.write_text("\n".join(report), encoding="utf-8")
    print("\n".join(report))
    return tests.returncode


if __name__ == "__main__":
    raise SystemExit(main())
