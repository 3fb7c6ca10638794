# SPDX-License-Identifier: Apache-2.0
"""``python -m opabi``: the command line."""

from opabi.cli import app

app(prog_name="opabi")
