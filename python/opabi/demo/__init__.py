# SPDX-License-Identifier: Apache-2.0
"""What ``opabi demo`` runs: a pipeline with kernels in C and Numba, a contact sheet, a table."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

import opabi
from opabi.errors import OpabiValueError


def run(console: Console, output: Path, *, quick: bool = False) -> None:
    """Writes the contact sheet to ``output``, then measures and prints the table."""
    if not output.absolute().parent.is_dir():
        raise OpabiValueError(
            f"cannot write {output}: there is no folder {output.absolute().parent}."
        )
    import numba
    import nvidia.dali

    from opabi.demo import pipeline, sheet, table

    versions = (
        f"opabi {opabi.__version__}, DALI {nvidia.dali.__version__}, "
        f"Numba {numba.__version__}, on the CPU"
    )
    with console.status("Decoding, painting, printing, mixing"):
        samples = pipeline.run()
    try:
        sheet.save(samples, output, versions)
    except OSError as error:
        raise OpabiValueError(f"cannot write {output}: {error.strerror or error}.") from error
    console.print(
        f"{output.absolute()}: {len(samples)} pictures, through kernels in C and Numba.",
        soft_wrap=True,
    )
    with console.status("Measuring"):
        measured = table.table(table.QUICK if quick else table.FULL)
    console.print(measured)
