# SPDX-License-Identifier: Apache-2.0
"""Measures opabi beside its peers.

    python tests/bench/run.py [SECTION...] [--json FILE] [--repeats N]

All peers of a table are measured in turn, in the same run; figures are medians. Needs
``pip install 'opabi[bench]'`` and a C++ compiler. The machine's load stands below each table:
where something else runs, figures are worth little.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from measure import Group, Target
from rich.console import Console
from rich.table import Table

SECTIONS = {
    "pipeline": ("pipelines", "small", "small_targets"),
    "image": ("pipelines", "image", "image_targets"),
    "eager": ("eager", "eager", "targets"),
    "startup": ("startup", "startup", "targets"),
    "scaling": ("scaling", "scaling", "targets"),
}
PACKAGES = (
    "opabi",
    "nvidia-dali-cuda120",
    "nvidia-dali-cuda130",
    "numba",
    "numpy",
    "pybind11",
    "cffi",
    "apache-tvm-ffi",
)

console = Console(width=max(120, Console().width))


def main(
    sections: Annotated[
        list[str] | None, typer.Argument(help=f"Any of {', '.join(SECTIONS)}; default: all.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write all values there.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each peer is measured.")] = 15,
) -> None:
    unknown = sorted(set(sections or ()) - set(SECTIONS))
    if unknown:
        raise typer.BadParameter(f"no section '{unknown[0]}'; there are {', '.join(SECTIONS)}")
    report: dict[str, Any] = {
        "command": " ".join(sys.argv),
        "machine": machine(),
        "groups": [],
        "targets": [],
    }
    targets: list[Target] = []
    for section in sections or SECTIONS:
        module, measure, judge = SECTIONS[section]
        loaded = importlib.import_module(module)
        for group in getattr(loaded, measure)(repeats):
            console.print(table(group))
            report["groups"].append(dataclasses.asdict(group))
            targets += getattr(loaded, judge)(group)
    console.print(target_table(targets))
    report["targets"] = [{**dataclasses.asdict(target), "met": target.met} for target in targets]
    if json_file:
        json_file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    names = [
        line
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "cpu": names[0].partition(": ")[2] if names else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": found,
    }


def table(group: Group) -> Table:
    """Medians and their spread; beside them how many times the first row each is."""
    made = Table(
        title=f"{group.section}: {group.setting}",
        caption=f"load {group.load[0]:.1f} to {group.load[1]:.1f}",
    )
    made.add_column("", min_width=36)
    for title in (group.unit, "from", "to", "x first row"):
        made.add_column(title, justify="right")
    first = next(iter(group.values))
    for name, values in group.values.items():
        low, high = min(values), max(values)
        figures = [f"{v:,.1f}" for v in (statistics.median(values), low, high)]
        made.add_row(name, *figures, f"{group.ratio(name, first):.2f}")
    return made


def target_table(targets: list[Target]) -> Table:
    made = Table(title="targets")
    made.add_column("", min_width=36)
    for title in ("found", "target", ""):
        made.add_column(title, justify="right")
    for t in targets:
        limit = f"{'at least' if t.at_least else 'at most'} {t.limit:g} {t.unit}"
        made.add_row(
            t.text, f"{t.found:,.2f} {t.unit}", limit, "met" if t.met else "[bold red]missed"
        )
    return made


if __name__ == "__main__":
    typer.run(main)
