# SPDX-License-Identifier: Apache-2.0
"""The command ``opabi``. Each subcommand imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

import opabi
from opabi.errors import OpabiError

console = Console(highlight=False)
error_console = Console(stderr=True, highlight=False)


class _Commands(TyperGroup):
    """Ends an OpabiError in its message and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OpabiError as error:
            if ctx.params.get("debug"):
                raise
            error_console.print(f"[bold red]opabi:[/] {escape(str(error))}", soft_wrap=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=_Commands,
    help="Function-pointer operators for NVIDIA DALI.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"opabi {opabi.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    pass


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The contact sheet.")] = Path(
        "demo.png"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Measure less.")] = False,
) -> None:
    """Run kernels in C and Numba on real JPEGs: a contact sheet, and a table of times."""
    from opabi.cli import packages

    packages.require("the demo", "dali", "numba", "pillow", "matplotlib", "scikit-learn")
    from opabi import demo as shown

    shown.run(console, output, quick=quick)


@app.command()
def info() -> None:
    """Show versions, where DALI's operator comes from, and what is missing."""
    from opabi.cli import report

    report.show(console)
