# SPDX-License-Identifier: Apache-2.0
"""The contact sheet: what each operator gave, and the arguments that it was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from opabi.demo.pictures import CREDIT, LABELS, package_folder

Sample = dict[str, np.ndarray]

GAP = 24
ROW_HEAD, CAPTION = 56, 40
PAPER, INK, QUIET, CODE = "#fbfaf7", "#1d1d1f", "#77756f", "#0b6e4f"
COLOURS = ("#b5432e", "#e8a33d", "#35619e")  # of the labels

ROWS = (
    ("images", "DALI", "images = fn.decoders.image_slice(files, start=corner, shape=size)"),
    ("painted", "C", "painted = c.paint(images, brush=fn.random.uniform(...))"),
    (
        "printed",
        "C",
        "printed = c.halftone(images, cell=fn.random.uniform(...), angle=fn.random.uniform(...))",
    ),
    (
        "mixed",
        "Numba",
        "mixed, mixed_label = cutmix(printed, labels, other, other_label, keep=..., x=..., y=...)",
    ),
)


def caption(row: str, s: Sample) -> str:
    """The sampled arguments of one picture."""
    height, width = s[row].shape[:2]
    return {
        "images": f"{LABELS[int(s['labels'].argmax())]}, {width} x {height}",
        "painted": f"brush {s['brush']}",
        "printed": f"cell {s['cell']:.1f}, angle {s['angle']:.0f}\N{DEGREE SIGN}",
        "mixed": f"keep {s['keep']:.2f}, x {s['x']:.2f}, y {s['y']:.2f}",
    }[row]


def save(samples: Sequence[Sample], path: Path, versions: str) -> None:
    """Writes the sheet as a PNG."""
    _Sheet(samples).draw(versions).save(path, format="PNG")


class _Sheet:
    def __init__(self, samples: Sequence[Sample]) -> None:
        fonts = package_folder("matplotlib") / "mpl-data" / "fonts" / "ttf"
        self._title = ImageFont.truetype(fonts / "DejaVuSans-Bold.ttf", 34)
        self._head = ImageFont.truetype(fonts / "DejaVuSans-Bold.ttf", 20)
        self._text = ImageFont.truetype(fonts / "DejaVuSans.ttf", 18)
        self._code = ImageFont.truetype(fonts / "DejaVuSansMono.ttf", 18)
        self._samples = samples
        self._widths = [s["images"].shape[1] for s in samples]
        self._tall = max(s["images"].shape[0] for s in samples)

    def draw(self, versions: str) -> Image.Image:
        width = sum(self._widths) + GAP * (len(self._widths) + 1)
        row_height = ROW_HEAD + self._tall + CAPTION
        height = 96 + len(ROWS) * row_height + 30 + 84
        image = Image.new("RGB", (width, height), PAPER)
        pen = ImageDraw.Draw(image)
        pen.text((GAP, 26), "opabi demo", INK, self._title)
        pen.text(
            (width - GAP, 38),
            "one DALI pipeline, arguments drawn for each sample",
            QUIET,
            self._text,
            "ra",
        )
        for number, (row, language, code) in enumerate(ROWS):
            top = 96 + number * row_height
            pen.line((GAP, top - 8, width - GAP, top - 8), "#dedbd3")
            pen.text((GAP, top + 16), language, INK, self._head, "lm")
            pen.text((GAP + 100, top + 16), code, CODE, self._code, "lm")
            self._row(image, pen, row, top + ROW_HEAD - 12)
        pen.text((GAP, height - 64), versions, QUIET, self._text)
        pen.text((GAP, height - 36), CREDIT, QUIET, self._text)
        return image

    def _row(self, image: Image.Image, pen: ImageDraw.ImageDraw, row: str, top: int) -> None:
        left = GAP
        for sample, width in zip(self._samples, self._widths, strict=True):
            pixels = sample[row]
            bottom = top + self._tall
            image.paste(Image.fromarray(pixels), (left, bottom - pixels.shape[0]))
            pen.text((left, bottom + 8), caption(row, sample), INK, self._text)
            if row == "mixed":
                self._label(pen, sample["mixed_label"], left, bottom + 36, width)
            left += width + GAP

    def _label(
        self, pen: ImageDraw.ImageDraw, label: np.ndarray, left: int, top: int, width: int
    ) -> None:
        """The label as a bar, and in words."""
        start = float(left)
        for share, colour in zip(label, COLOURS, strict=True):
            end = start + float(share) * width
            if share > 0:
                pen.rectangle((round(start), top, round(end) - 1, top + 6), colour)
            start = end
        seen = [
            f"{share:.2f} {name}" for share, name in zip(label, LABELS, strict=True) if share > 0
        ]
        pen.text((left, top + 14), ", ".join(seen), INK, self._text)
