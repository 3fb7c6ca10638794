# SPDX-License-Identifier: Apache-2.0
"""Named arguments: constant, per sample, converted, refused; seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import opabi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.data_node import DataNode
from pipelines import build, feed, run, same, samples

X = [np.float32([1, 2, 3])] * 2


def test_argument_per_sample_beside_a_constant_scales_each(c_kernels: Any) -> None:
    found = run(
        lambda: c_kernels.affine(feed(X), gain=feed(np.float32([2, 10])), bias=1), batch_size=2
    )
    assert same(found, [np.float32([3, 5, 7]), np.float32([11, 21, 31])])


def test_argument_of_any_rank_takes_an_array(c_kernels: Any) -> None:
    found = run(lambda: c_kernels.affine(feed(X), gain=np.float32([1, 2, 3]), bias=1), batch_size=2)
    assert same(found, [np.float32([2, 5, 10])] * 2)


def test_argument_left_out_has_its_default(c_kernels: Any) -> None:
    assert same(
        run(lambda: c_kernels.affine(feed(X), gain=2), batch_size=2), [np.float32([2, 4, 6])] * 2
    )


@pytest.mark.parametrize(
    "gain", [2, 2.0, np.uint8(2), np.float32(2), [2, 2, 2], np.int16([2, 2, 2])]
)
def test_constant_of_a_lesser_type_is_widened(c_kernels: Any, gain: Any) -> None:
    assert same(
        run(lambda: c_kernels.affine(feed(X), gain=gain), batch_size=2), [np.float32([2, 4, 6])] * 2
    )


def test_dali_constant_as_argument_keeps_its_type(c_kernels: Any) -> None:
    found = run(
        lambda: c_kernels.affine(feed(X), gain=types.Constant(2, types.UINT8)), batch_size=2
    )
    assert same(found, [np.float32([2, 4, 6])] * 2)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64"])
def test_node_of_an_integer_type_feeds_a_float_argument(c_kernels: Any, dtype: str) -> None:
    gain = np.array([2, 3], dtype)
    found = run(lambda: c_kernels.affine(feed(X), gain=feed(gain)), batch_size=2)
    assert same(found, [np.float32([2, 4, 6]), np.float32([3, 6, 9])])


def test_node_of_a_wider_type_is_refused_by_name(c_kernels: Any) -> None:
    pipeline = build(lambda: c_kernels.affine(feed(X), gain=feed(np.float64([2, 3]))), batch_size=2)
    with pytest.raises(TypeError, match=r"argument 'gain'.*float64"):
        pipeline.run()


def test_node_of_another_rank_is_refused_by_name(c_kernels: Any) -> None:
    pipeline = build(
        lambda: c_kernels.affine(feed(X), gain=1, bias=feed(np.ones((2, 1), np.float32))),
        batch_size=2,
    )
    with pytest.raises(TypeError, match=r"argument 'bias'.*rank 0.*rank 1"):
        pipeline.run()


@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50))
@settings(max_examples=20)
def test_string_argument_arrives_as_utf8(c_kernels: Any, text: str) -> None:
    assert (
        run(lambda: c_kernels.spelled(feed([0]), text=text), batch_size=1)[0].tobytes()
        == text.encode()
    )


def test_argument_as_extent_sizes_the_output_per_sample(c_kernels: Any) -> None:
    found = run(
        lambda: c_kernels.sized(feed([np.uint8(0)] * 2), height=feed(np.int64([1, 2])), width=3),
        batch_size=2,
    )
    assert [a.shape for a in found] == [(1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gain": 1, "bais": 2}, "no argument 'bais'.*'gain', 'bias'"),
        ({"bias": 2}, "needs the argument 'gain'"),
        ({"gain": np.array(2, ">i4")}, "argument 'gain'.*byte order"),
        ({"gain": 1j}, "argument 'gain'"),
        ({"gain": None}, "argument 'gain'"),
        ({"gain": object()}, "argument 'gain'"),
        ({"gain": 1, "bias": [1, 2]}, "argument 'bias'.*rank 0.*rank 1"),
    ],
)
def test_argument_that_cannot_be_is_refused_when_the_graph_is_made(
    c_kernels: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        build(lambda: c_kernels.affine(feed(X), **arguments), batch_size=2)


@pytest.mark.parametrize(
    ("inputs", "arguments"),
    [
        (1, {"gain": "2"}),
        (1, {"gain": 1, "bias": "2"}),
        (1, {"gain": 1, "bais": 2}),
        (1, {"bias": 2}),
        (1, {"gain": 2**64}),
        (1, {"gain": 1e300}),
        (1, {"gain": np.float64(2)}),
        (2, {"gain": 1}),
    ],
    ids=str,
)
def test_wrong_call_is_told_alike_with_arrays_and_with_nodes(
    c_kernels: Any, inputs: int, arguments: dict[str, Any]
) -> None:
    with pytest.raises(opabi.OpabiError) as eager:
        c_kernels.affine(*[X[0]] * inputs, **arguments)
    with pytest.raises(type(eager.value)) as pipelined:
        build(lambda: c_kernels.affine(*[feed(X)] * inputs, **arguments), batch_size=2)
    assert str(pipelined.value) == str(eager.value)
    assert pipelined.value.rule == eager.value.rule


def test_gpu_node_as_argument_is_refused_by_name(c_kernels: Any) -> None:
    def define() -> Any:
        return c_kernels.affine(feed(X), gain=DataNode("gain", "gpu"))

    with pytest.raises(TypeError, match=r"argument 'gain'.*found one on the GPU"):
        build(define, batch_size=2)


def test_gpu_node_as_input_of_a_cpu_kernel_is_refused_by_number(c_kernels: Any) -> None:
    with pytest.raises(TypeError, match=r"input 0.*found one on the GPU"):
        build(lambda: c_kernels.invert(DataNode("x", "gpu")), batch_size=2)


def test_inputs_of_a_wrong_number_are_refused(c_kernels: Any) -> None:
    with pytest.raises(TypeError, match="expected 2 inputs, found 1"):
        build(lambda: c_kernels.joined(feed(X)), batch_size=2)


# ---- Seeds


def seeds(pipeline: Any, iterations: int) -> list[list[int]]:
    return [[int(seed) for seed in samples(pipeline.run()[0])] for _ in range(iterations)]


def seeded(c_kernels: Any, **options: Any) -> Any:
    return build(lambda: c_kernels.seeded(feed([0] * 8)), batch_size=8, **options)


def test_seed_left_out_is_fresh_for_each_sample(c_kernels: Any) -> None:
    drawn = [seed for batch in seeds(seeded(c_kernels), 20) for seed in batch]
    assert len(set(drawn)) == len(drawn)
    assert {seed < 0 for seed in drawn} == {True, False}


def test_seed_left_out_follows_the_pipelines_seed(c_kernels: Any) -> None:
    first, again, other = (seeds(seeded(c_kernels, seed=seed), 3) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_seed_left_out_goes_on_after_a_checkpoint(c_kernels: Any) -> None:
    @pipeline_def(batch_size=4, num_threads=2, device_id=None, enable_checkpointing=True, seed=1)
    def define() -> Any:
        return c_kernels.seeded(fn.random.uniform(range=(0, 1)))

    pipeline = define()
    pipeline.build()
    pipeline.run()
    saved = pipeline.checkpoint()
    expected = seeds(pipeline, 3)
    restored = define(checkpoint=saved)
    restored.build()
    assert seeds(restored, 3) == expected


def test_seed_that_is_given_is_used(c_kernels: Any) -> None:
    pipeline = build(lambda: c_kernels.seeded(feed([0] * 8), seed=2**62), batch_size=8)
    assert seeds(pipeline, 1) == [[2**62] * 8]


def test_two_calls_with_seeds_left_out_differ(
    c_kernels: Any, by_address: Callable[..., Any]
) -> None:
    def define() -> Any:
        x = feed([0] * 8)
        return c_kernels.seeded(x), c_kernels.seeded(x)

    first, second = run(define, batch_size=8)
    assert not same(first, second)
