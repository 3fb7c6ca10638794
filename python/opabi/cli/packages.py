# SPDX-License-Identifier: Apache-2.0
"""The packages that opabi can use: which are there, and how to get the others."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util

from opabi.errors import OpabiRuntimeError


@dataclasses.dataclass(frozen=True)
class Package:
    """``distributions``: the names under which pip may know it; the first is to be installed."""

    title: str
    module: str
    distributions: tuple[str, ...]

    @property
    def installed(self) -> bool:
        try:
            return importlib.util.find_spec(self.module) is not None
        except ModuleNotFoundError:  # of the package that it is in
            return False

    @property
    def version(self) -> str:
        """The version, ``""`` if it is not installed; nothing is imported."""
        for name in self.distributions if self.installed else ():
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return ""

    @property
    def command(self) -> str:
        return f"pip install {self.distributions[0]}"


PACKAGES = {
    "dali": Package(
        "DALI", "nvidia.dali", ("nvidia-dali-cuda120", "nvidia-dali-cuda130", "nvidia-dali-cuda110")
    ),
    "numba": Package("Numba", "numba", ("numba",)),
    "numpy": Package("NumPy", "numpy", ("numpy",)),
    "pillow": Package("Pillow", "PIL", ("pillow",)),
    "matplotlib": Package("Matplotlib", "matplotlib", ("matplotlib",)),
    "scikit-learn": Package("scikit-learn", "sklearn", ("scikit-learn",)),
}


def require(what: str, *names: str) -> None:
    """Raises OpabiRuntimeError, with the command that helps, if a package is not installed."""
    missing = [PACKAGES[name] for name in names if not PACKAGES[name].installed]
    if missing:
        titles = ", ".join(package.title for package in missing)
        command = " ".join(package.distributions[0] for package in missing)
        raise OpabiRuntimeError(
            f"{what} needs {titles}, not installed here. Install with\n  pip install {command}"
        )
