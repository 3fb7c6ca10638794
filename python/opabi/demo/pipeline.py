# SPDX-License-Identifier: Apache-2.0
"""The demo's pipeline: DALI decodes, kernels in C and Numba work on each sample in its own way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from nvidia.dali import fn, pipeline_def, types

import opabi
from opabi.demo.kernels import cutmix
from opabi.demo.pictures import LABELS, REGIONS

SOURCE = Path(__file__).parent / "kernels.c"
SEED = 14


def _corner_and_size(sample: Any) -> tuple[np.ndarray, np.ndarray]:
    region = REGIONS[sample.idx_in_batch % len(REGIONS)]
    corner, size = (region.left, region.top), (region.width, region.height)
    return np.array(corner, np.int32), np.array(size, np.int32)


def decoded() -> tuple[Any, Any]:
    """The regions, each of its own size, and their labels, one-hot."""
    files, labels = fn.readers.file(
        files=[str(r.path) for r in REGIONS], labels=[r.label for r in REGIONS]
    )
    corner, size = fn.external_source(source=_corner_and_size, num_outputs=2, batch=False)
    images = fn.decoders.image_slice(files, start=corner, shape=size, axis_names="WH")
    return images, fn.one_hot(labels, num_classes=len(LABELS))


def define() -> dict[str, Any]:
    """What the sheet shows, by name."""
    c = opabi.c.compile(SOURCE)
    images, labels = decoded()

    brush = fn.random.uniform(range=[2, 8], dtype=types.INT64)
    painted = c.paint(images, brush=brush)

    cell = fn.random.uniform(range=[3, 7])
    angle = fn.random.uniform(range=[0, 90])
    printed = c.halftone(images, cell=cell, angle=angle)

    order = fn.batch_permutation(no_fixed_points=True)
    other, other_label = (fn.permute_batch(node, indices=order) for node in (images, labels))
    keep = fn.random.uniform(range=[0.55, 0.85])
    x = fn.random.uniform(range=[0.25, 0.75])
    y = fn.random.uniform(range=[0.25, 0.75])
    mixed, mixed_label = cutmix(printed, labels, other, other_label, keep=keep, x=x, y=y)

    return {
        "images": images,
        "labels": labels,
        "painted": painted,
        "brush": brush,
        "printed": printed,
        "cell": cell,
        "angle": angle,
        "mixed": mixed,
        "mixed_label": mixed_label,
        "keep": keep,
        "x": x,
        "y": y,
    }


def run() -> list[dict[str, np.ndarray]]:
    """One batch: for each sample its arrays, by name."""
    names: list[str] = []

    @pipeline_def(
        batch_size=len(REGIONS), num_threads=2, device_id=None, seed=SEED, enable_conditionals=False
    )
    def pipeline() -> tuple[Any, ...]:
        nodes = define()
        names[:] = nodes
        return tuple(nodes.values())

    built = pipeline()
    built.build()
    outputs = dict(zip(names, built.run(), strict=True))
    return [
        {name: np.array(output.at(s)) for name, output in outputs.items()}
        for s in range(len(REGIONS))
    ]
