# SPDX-License-Identifier: Apache-2.0
"""Failures: the exception of the fitting kind, with kernel, sample and line; and going on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nvidia.dali import fn, types
from pipelines import build, feed, run, same, samples


def test_failing_sample_is_named_and_the_pipeline_goes_on(c_kernels: Any) -> None:
    bad = [np.int32([0]), np.int32([1]), np.int32([2])]
    good = [np.int32([0]), np.int32([2]), np.int32([3])]
    pipeline = build(lambda: c_kernels.fail_on_one(feed(bad, good)), batch_size=3)
    with pytest.raises(ValueError, match="no face") as caught:
        pipeline.run()
    text = str(caught.value)
    assert "fail_on_one" in text
    assert "sample 1" in text
    assert "lambda: c_kernels.fail_on_one(feed(bad, good))" in text
    assert same(samples(pipeline.run()[0]), [np.int32([10]), np.int32([12]), np.int32([13])])


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (1, ValueError),
        (2, TypeError),
        (3, IndexError),
        (4, TypeError),
        (5, RuntimeError),
        (6, RuntimeError),
        (7, RuntimeError),
        (8, RuntimeError),
        (-3, RuntimeError),
        (12345, RuntimeError),
        (0, RuntimeError),
    ],
)
def test_status_of_a_kernel_becomes_the_exception_of_its_kind(
    c_kernels: Any, status: int, kind: type[Exception]
) -> None:
    pipeline = build(lambda: c_kernels.fail_with(feed([np.int32(status)])), batch_size=1)
    with pytest.raises(kind, match="as it was told"):
        pipeline.run()


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("returns_zero", RuntimeError, "OPABI-K-001"),
        ("returns_garbage", RuntimeError, "OPABI-K-001"),
        ("returns_negative", RuntimeError, "its own code.*-77"),
        ("message_not_utf8", ValueError, "a"),
        ("setup_nothing", RuntimeError, "OPABI-K-011"),
        ("setup_zero", RuntimeError, "OPABI-K-001"),
        ("setup_fails", IndexError, "no such size"),
        ("setup_negative", ValueError, "-5"),
        ("setup_huge", RuntimeError, "OPABI-H-005"),
        ("setup_overflow", RuntimeError, "OPABI-H-005"),
        ("setup_rank_16", RuntimeError, "OPABI-K-011"),
        ("setup_unknown_dtype", RuntimeError, "OPABI-K-011"),
        ("setup_changes_shape", RuntimeError, "OPABI-K-012"),
        ("setup_changes_dtype", RuntimeError, "OPABI-K-012"),
        ("setup_layout_too_long", RuntimeError, "layout 'HWC'"),
        ("setup_scratch_huge", RuntimeError, "scratch"),
        ("actual_unset", RuntimeError, "OPABI-K-028"),
        ("actual_too_large", RuntimeError, "OPABI-K-028"),
        ("actual_negative", RuntimeError, "OPABI-K-028"),
        ("specialize_fails", TypeError, "not for these types"),
    ],
)
@pytest.mark.parametrize("exec_dynamic", [True, False])
def test_kernel_that_breaks_a_rule_is_named_and_another_goes_on(
    c_kernels: Any, hostile: Any, name: str, kind: type[Exception], message: str, exec_dynamic: bool
) -> None:
    batch = [np.uint8([1, 2])] * 3
    pipeline = build(lambda: hostile[name](feed(batch)), batch_size=3, exec_dynamic=exec_dynamic)
    for _ in range(2 if exec_dynamic else 1):  # DALI's old executors do not go on after an error
        with pytest.raises(kind, match=message) as caught:
            pipeline.run()
        assert name in str(caught.value)
    assert same(
        run(lambda: c_kernels.invert(feed(batch)), batch_size=3), [np.uint8([254, 253])] * 3
    )


def test_kernel_whose_create_fails_is_refused_when_the_pipeline_is_built(hostile: Any) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)building pipeline.*create failed: no room"):
        build(lambda: hostile.create_fails(feed([np.uint8([1])])))


@pytest.mark.parametrize(
    ("batch", "message"),
    [([np.float32([1])], "input 0.*uint8.*float32"), ([np.complex64([1])], ".")],
)
def test_input_of_a_type_the_kernel_does_not_take_is_refused(
    c_kernels: Any, batch: Any, message: str
) -> None:
    pipeline = build(lambda: c_kernels.invert(feed(batch)), batch_size=1)
    with pytest.raises((TypeError, RuntimeError), match=message):
        pipeline.run()


def test_input_of_enumerators_is_refused_by_the_types_name(c_kernels: Any) -> None:
    def define() -> Any:
        return c_kernels.identity(fn.random.choice([types.INTERP_NN, types.INTERP_LINEAR]))

    pipeline = build(define, batch_size=1)
    with pytest.raises(TypeError, match=r"input 0.*DALIInterpType is no element type"):
        pipeline.run()


def test_inputs_of_unlike_extents_are_refused_by_sample(
    c_kernels: Any, by_address: Callable[..., Any]
) -> None:
    kernel = by_address("any", "int32[n], int32[n] -> int32[n], int32[n]")
    a, b = [np.int32([1]), np.int32([1, 2])], [np.int32([1]), np.int32([1])]
    pipeline = build(lambda: tuple(kernel(feed(a), feed(b))), batch_size=2)
    with pytest.raises(ValueError, match="sample 1"):
        pipeline.run()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, ValueError, "either a handle, or a library"),
        ({"handle": 5}, ValueError, "no kernel of this process has the handle 5"),
        ({"handle": 5, "library": "x"}, ValueError, "either a handle, or a library"),
        ({"library": "/no/such/file.so", "symbol": "a"}, RuntimeError, "/no/such/file.so"),
        ({"symbol": "nothing"}, ValueError, "nothing"),
        ({"symbol": "identity", "n_outputs": 2}, ValueError, "n_outputs=1, found 2"),
        ({"symbol": "joined"}, TypeError, "expected 2 inputs"),
        ({"symbol": "affine", "argument_names": ["gian"]}, TypeError, "no argument 'gian'"),
        (
            {"symbol": "identity", "constants": ["gain float32 - 00000040"]},
            TypeError,
            "no argument 'gain'",
        ),
    ],
)
def test_definition_that_cannot_be_is_refused_when_it_is_built(
    plugin: Any, c_kernels: Any, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    if "library" not in arguments and "symbol" in arguments:
        arguments = {**arguments, "library": c_kernels.path}

    def define() -> Any:
        outputs = fn.opabi.call(feed([np.uint8([1])]), **arguments)
        return tuple(outputs) if isinstance(outputs, list) else outputs

    with pytest.raises(kind, match=message):
        build(define, batch_size=1)


@pytest.mark.parametrize(
    "constant",
    [
        "",
        "gain",
        "gain float32 -",
        "gain float32 - 00000040 ",
        "gain  float32 - 00000040",
        "gain float33 - 00000040",
        "gain any - 00000040",
        "gain float32 - 000000",
        "gain float32 - 0000004",
        "gain float32 - 0000004G",
        "gain float32 - 0000004A",
        "gain float32 2 00000040",
        "gain float32 -1 00000040",
        "gain float32 1, 00000040",
        "gain float32 99999999999999999999 -",
        "gain float32 999999999999999,999999999999999 -",
        "gain float32 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1 00000040",
        "0 float32 - 00000040",
        "99 float32 - 00000040",
        "gain float32 - 00000040\n",
        "\xff\xfe float32 - 00000040",
    ],
)
def test_constant_that_was_edited_is_refused_and_never_runs(
    plugin: Any, c_kernels: Any, constant: str
) -> None:
    def define() -> Any:
        return fn.opabi.call(
            feed([np.float32([1])]), library=c_kernels.path, symbol="affine", constants=[constant]
        )

    with pytest.raises((ValueError, TypeError)):
        build(define, batch_size=1).run()


def test_checked_mode_finds_a_write_past_an_output(hostile: Any) -> None:
    pipeline = build(
        lambda: hostile.writes_past(feed([np.uint8([1, 2])]), checked=True), batch_size=1
    )
    with pytest.raises(RuntimeError, match="OPABI-K-022"):
        pipeline.run()
