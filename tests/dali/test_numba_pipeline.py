# SPDX-License-Identifier: Apache-2.0
"""Numba kernels in pipelines: the faults of numba_function that show only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import opabi
import pytest
from nvidia.dali import fn, types
from pipelines import build, feed, run, same, samples

numba = pytest.importorskip("numba")
kernel = opabi.numba.kernel
PLUS = 5


@kernel("T[h,w,c] -> T[h,w,c]")
def solarize(image, out, *, threshold=128):
    for i in range(image.size):
        value = image.flat[i]
        out.flat[i] = value if value < threshold else 255 - value


@kernel("uint8[n] -> uint8[n]")
def face(x, out):
    if x[0] == 1:
        raise ValueError("no face")
    out[0] = x[0] + 10


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def test_argument_per_sample_gives_what_the_eager_call_gives() -> None:
    images = [image(4, 5, 3), image(2, 2, 1)]

    def define() -> Any:
        threshold = fn.random.uniform(range=(64, 192), seed=7)
        return solarize(feed(images), threshold=threshold), threshold

    found, thresholds = run(define, batch_size=2)
    assert same(found, [solarize(i, threshold=t) for i, t in zip(images, thresholds, strict=True)])


def test_a5_failing_sample_is_named_with_the_pipelines_line_and_the_next_batch_is_right() -> None:
    batches = [[np.array([v], np.uint8) for v in values] for values in ((0, 1, 2), (0, 2, 3))]
    pipeline = build(lambda: face(feed(*batches)), batch_size=3)
    with pytest.raises(ValueError, match="no face") as caught:
        pipeline.run()
    for text in ("face", "sample 1", "test_numba_pipeline.py"):
        assert text in str(caught.value)
    assert [int(out[0]) for out in samples(pipeline.run()[0])] == [10, 12, 13]


def test_a14_layout_is_kept_and_a_stated_one_set() -> None:
    @kernel("T[h,w,c]@HWC -> T[c,h,w]@CHW")
    def transpose(x, out):
        for c in range(x.shape[2]):
            out[c] = x[:, :, c]

    def define() -> Any:
        x = feed([image(4, 5, 3)], layout="HWC")
        kept = solarize(x)
        return kept, transpose(x), fn.crop(kept, crop=(2, 2))

    pipeline = build(define, batch_size=1)
    kept, turned, cropped = pipeline.run()
    assert (kept.layout(), turned.layout()) == ("HWC", "CHW")
    assert samples(cropped)[0].shape == (2, 2, 3)


def test_a15_serialising_says_which_form_can_travel() -> None:
    pipeline = build(lambda: face(feed([np.array([0], np.uint8)])), batch_size=1)
    with pytest.raises(RuntimeError, match="library"):
        pipeline.serialize()


def make_thresholded(limit: int) -> Any:
    @kernel("T[n] -> T[n]")
    def thresholded(x, out, *, k=1):
        for i in range(out.size):
            if x[i] > limit:
                out[i] = x[i] + limit * k + PLUS
            else:
                out[i] = 0

    return thresholded


def test_a18_kernels_defined_in_a_conditional_pipeline_are_compiled_as_written() -> None:
    def define() -> Any:
        limit = 3

        @kernel("T[n] -> T[n]")
        def inner(x, out, *, k=1):
            "A kernel's doc."
            for i in range(out.size):
                if x[i] > limit:
                    out[i] = x[i] + limit * k + PLUS
                else:
                    out[i] = 0

        def plain(x, out):
            for i in range(out.size):
                if x[i] == 1:
                    raise ValueError("one")
                out[i] = x[i]

        x = types.Constant(np.array([2, 4, 5], np.int32))
        assert inner.__doc__ == "A kernel's doc."
        return inner(x, k=2), make_thresholded(4)(x), kernel("T[n] -> T[n]")(plain)(x)

    inner, nested, plain = run(define, batch_size=1, enable_conditionals=True)
    assert inner[0].tolist() == [0, 4 + 6 + PLUS, 5 + 6 + PLUS]
    assert nested[0].tolist() == [0, 0, 5 + 4 + PLUS]
    assert plain[0].tolist() == [2, 4, 5]


def test_a18_kernel_in_a_branch_sees_its_samples_only() -> None:
    def define() -> Any:
        x = feed([np.array([v], np.uint8) for v in (0, 5, 6)])
        if fn.reductions.max(x) > np.uint8(4):  # noqa: SIM108
            y = face(x)
        else:
            y = x
        return y

    found = run(define, batch_size=3, enable_conditionals=True)
    assert [int(out[0]) for out in found] == [0, 15, 16]


def test_a18_jitted_helper_in_a_conditional_pipeline_is_named() -> None:
    def define() -> Any:
        @numba.njit
        def helper(v):
            return v + 1

        @kernel("T[n] -> T[n]")
        def uses_helper(x, out):
            out[0] = helper(x[0])

        return uses_helper(feed([np.array([0], np.uint8)]))

    with pytest.raises(Exception, match=r"rewrites 'helper'.*Define it outside"):
        run(define, batch_size=1, enable_conditionals=True)


def test_filter_cuts_its_output() -> None:
    @kernel("float32[n] -> float32[<=n]")
    def keep(x, out):
        n = 0
        for value in x:
            if value > 4:
                out[n] = value
                n += 1
        return n

    batch = [np.array(values, np.float32) for values in ([5, 1, 7], [1, 2], [])]
    found = run(lambda: keep(feed(batch)), batch_size=3)
    assert [out.tolist() for out in found] == [[5, 7], [], []]


def test_setup_in_a_pipeline_gives_each_sample_its_shape() -> None:
    @kernel("T[h,w] -> T[?,w]", setup=lambda x, *, n: (x[0] + n, x[1]))
    def padded(x, out, *, n):
        out[:] = 0
        out[: x.shape[0]] = x

    batch = [np.ones((2, 2), np.int16), np.ones((1, 2), np.int16)]
    define = lambda: padded(feed(batch), n=types.Constant(np.int32(1)))  # noqa: E731
    assert [out.shape for out in run(define, batch_size=2)] == [(3, 2), (2, 2)]
