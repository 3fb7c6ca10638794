# SPDX-License-Identifier: Apache-2.0
"""The demo's kernels in Numba: one takes images and labels together, one is measured."""

from __future__ import annotations

import math

import opabi


@opabi.numba.kernel(
    "T[h,w,c], float32[n], T[h2,w2,c], float32[n] -> T[h,w,c], float32[n]",
    pure=True,
    deterministic=True,
)
def cutmix(image, label, other, other_label, mixed, mixed_label, *, keep=0.5, x=0.5, y=0.5):  # type: ignore[no-untyped-def]
    """An oval of the other image on this one, and a label that says how much of each is seen.

    ``keep`` is the part of this image that stays if the border cuts nothing off the oval; ``x``
    and ``y`` are the oval's middle, from 0 to 1. The label counts what is seen, so it is right
    where the border cuts too.
    """
    height, width, channels = image.shape
    radius = math.sqrt((1.0 - keep) / math.pi)
    edge = 0.02
    seen = 0.0
    for i in range(height):
        v = (i + 0.5) / height
        for j in range(width):
            u = (j + 0.5) / width
            outside = math.hypot(u - x, v - y) - radius
            share = min(1.0, max(0.0, 0.5 - outside / edge))
            seen += share
            if share == 0.0:
                for k in range(channels):
                    mixed[i, j, k] = image[i, j, k]
                continue
            row = min(max(int((0.5 + v - y) * other.shape[0]), 0), other.shape[0] - 1)
            column = min(max(int((0.5 + u - x) * other.shape[1]), 0), other.shape[1] - 1)
            for k in range(channels):
                mixed[i, j, k] = (1.0 - share) * image[i, j, k] + share * other[row, column, k]
    share = seen / max(1, height * width)
    for k in range(label.size):
        mixed_label[k] = (1.0 - share) * label[k] + share * other_label[k]


@opabi.numba.kernel("T[...] -> T[...]", pure=True, deterministic=True)
def invert(x, out):  # type: ignore[no-untyped-def]
    """255 minus each element."""
    source, target = x.reshape(-1), out.reshape(-1)
    for i in range(source.size):
        target[i] = 255 - source[i]
