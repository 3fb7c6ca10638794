# SPDX-License-Identifier: Apache-2.0
"""The kernels of the cases in Numba; tests/c/kernels.c has the same in C."""

from __future__ import annotations

import opabi


@opabi.numba.kernel("int32[n], int32[m] -> int32[?]", setup=lambda a, b: (a[0] + b[0],))
def joined(a, b, out):
    out[: a.size] = a
    out[a.size :] = b


@opabi.numba.kernel("T[...] -> float32[...]")
def to_float(x, out):
    flat, o = x.reshape(-1), out.reshape(-1)
    for i in range(flat.size):
        o[i] = flat[i] / 255.0


@opabi.numba.kernel("int32[n] -> int32[n]")
def fail_on_one(x, out):
    if x.size and x[0] == 1:
        raise ValueError("no face")
    for i in range(x.size):
        out[i] = x[i] + 10


@opabi.numba.kernel("float32[n] -> float32[n]")
def affine(x, out, *, gain, bias=0.0):
    out[:] = gain * x + bias


@opabi.numba.kernel("T[h,w,c]@HWC -> T[c,h,w]@CHW")
def transpose_chw(x, out):
    for channel in range(x.shape[2]):
        out[channel] = x[:, :, channel]


@opabi.numba.kernel("T[...] -> T[...]")
def identity(x, out):
    out[...] = x


@opabi.numba.kernel("int16[a], int16[b] -> int16[b], int16[a]")
def swap(x, y, p, q):
    p[:] = y
    q[:] = x + 1
