# SPDX-License-Identifier: Apache-2.0
"""The demo's input: regions of JPEG files that well-kept packages ship."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

LABELS = ("temple", "flower", "portrait")
CREDIT = (
    "Photographs: china.jpg by danielbuechele and flower.jpg by vultilion (CC BY 2.0), from "
    "scikit-learn; grace_hopper.jpg by the US Navy (public domain), from matplotlib."
)

_CHINA = ("sklearn", "datasets/images/china.jpg")
_FLOWER = ("sklearn", "datasets/images/flower.jpg")
_HOPPER = ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg")


@dataclasses.dataclass(frozen=True)
class Region:
    """A rectangle of a file, in pixels, and what it shows: an index into LABELS."""

    file: tuple[str, str]
    label: int
    left: int
    top: int
    width: int
    height: int

    @property
    def path(self) -> Path:
        package, name = self.file
        return package_folder(package) / name


REGIONS = (
    Region(_CHINA, 0, 84, 18, 240, 236),
    Region(_FLOWER, 1, 160, 72, 272, 284),
    Region(_HOPPER, 2, 126, 12, 248, 288),
    Region(_CHINA, 0, 44, 150, 284, 214),
    Region(_FLOWER, 1, 186, 116, 240, 180),
    Region(_HOPPER, 2, 140, 110, 236, 200),
)


def package_folder(package: str) -> Path:
    """Where an installed package lies; it is not imported. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    return Path(spec.origin).parent
