# SPDX-License-Identifier: Apache-2.0
"""Where what was compiled is kept for other processes."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """The user's cache for opabi, by the XDG rules: relative paths in the variable do not count."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "opabi")
