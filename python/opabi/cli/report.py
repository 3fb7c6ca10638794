# SPDX-License-Identifier: Apache-2.0
"""``opabi info``: versions, the operator, the adapters, and how to get what is missing."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

import opabi
from opabi import _abi, _core
from opabi.adapters import c_build
from opabi.cli.packages import PACKAGES, Package
from opabi.dali import build
from opabi.errors import OpabiError

COMPILER = "apt install g++"
_COMPILERS = {"c": "C compiler", "c++": "C++ compiler"}


@dataclasses.dataclass(frozen=True)
class Row:
    """``fix``: the command that gets what is missing."""

    title: str
    found: str
    fix: str = ""


def show(console: Console) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for title, rows in (
        ("Versions", _versions()),
        ("Pipelines", _dali()),
        ("Adapters", _adapters()),
        ("Demo", _demo()),
    ):
        grid.add_row(Text(title, "bold"))
        for row in rows:
            found = Text(row.found, "yellow" if row.fix else "")
            if row.fix:
                found.append(f"; get it with: {row.fix}", "bold")
            grid.add_row(f"  {row.title}", found)
    console.print(grid)


def _versions() -> Iterator[Row]:
    major, minor = _core.ABI_VERSION
    yield Row("opabi", f"{opabi.__version__}, ABI {major}.{minor}")
    yield Row("header", str(_abi.include_dir() / "opabi" / "opabi.h"))
    yield Row("Python", f"{platform.python_version()}, {sys.executable}")
    yield _package(PACKAGES["numpy"])
    yield _package(PACKAGES["numba"])
    for language, title in _COMPILERS.items():
        command = _compiler(language)
        yield Row(title, _describe(command)) if command else Row(title, "not found", COMPILER)


def _dali() -> Iterator[Row]:
    if not PACKAGES["dali"].installed:
        yield _package(PACKAGES["dali"])
        return
    try:
        dali = build.find_dali()
        yield Row("DALI", f"{dali.version}, git {dali.git_sha or 'unknown'}")
        state, path = build.plan(dali)
    except OpabiError as error:
        yield Row("opabi's operator", str(error))
        return
    yield Row(
        "opabi's operator",
        f"{state} at first use, in about 10 s" if state == "to be built" else state,
    )
    yield Row("", str(path))


def _adapters() -> Iterator[Row]:
    numba = PACKAGES["numba"]
    yield Row("opabi.load", "ready")
    for language, title in _COMPILERS.items():
        what = f"opabi.c, from {language.upper()}"
        yield Row(what, "ready") if _compiler(language) else Row(what, f"needs a {title}", COMPILER)
    yield (
        Row("opabi.numba", "ready")
        if numba.installed
        else Row("opabi.numba", "needs Numba", numba.command)
    )
    yield Row("opabi.python", "ready")


def _demo() -> Iterator[Row]:
    for name in ("pillow", "matplotlib", "scikit-learn"):
        yield _package(PACKAGES[name])


def _package(package: Package) -> Row:
    return (
        Row(package.title, package.version)
        if package.installed
        else Row(package.title, "not found", package.command)
    )


def _compiler(language: str) -> tuple[str, ...] | None:
    try:
        return c_build.find_compiler(language, None)
    except OpabiError:
        return None


def _describe(command: tuple[str, ...]) -> str:
    asked = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, errors="replace", check=False
    )
    return f"{' '.join(command)}, {asked.stdout.partition(chr(10))[0]}"
