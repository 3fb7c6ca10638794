# SPDX-License-Identifier: Apache-2.0
"""A Triton kernel; Triton reads its source from a file."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def add_one(x, y, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1.0, mask=at < n)


def compile_add() -> Any:
    # Seven elements from an odd address: the compiler assumes no alignment and no divisibility.
    x = torch.zeros(8, device="cuda")[1:]
    return add_one[(1,)](x, torch.zeros(8, device="cuda")[1:], 7, BLOCK)
