# SPDX-License-Identifier: Apache-2.0
"""Kernels that break a rule when called, under the eager host: named and survived."""

from __future__ import annotations

from typing import Any

import numpy as np
import opabi
import pytest

X = np.uint8([1, 2, 3])


@pytest.fixture(autouse=True)
def next_call_is_right(c_kernels: Any) -> Any:
    """Whatever a kernel did, another's next call gives the right result."""
    yield
    np.testing.assert_array_equal(c_kernels.invert([X, X])[1], 255 - X)


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        # statuses and messages
        ("returns_zero", opabi.OpabiRuntimeError, "OPABI-K-001"),
        ("returns_garbage", opabi.OpabiRuntimeError, "returns_garbage"),
        ("returns_negative", opabi.OpabiRuntimeError, r"sample \d.*its own code.*-42"),
        ("silent", opabi.OpabiValueError, "silent"),
        ("message_long", opabi.OpabiValueError, "é{300}"),
        ("message_not_utf8", opabi.OpabiValueError, r"a\ufffd+\(b"),
        ("message_unterminated", opabi.OpabiValueError, "x{300}"),
        ("where_out_of_range", opabi.OpabiValueError, "far away"),
        # setup
        ("setup_nothing", opabi.OpabiError, "OPABI-K-011.*output 0"),
        ("setup_zero", opabi.OpabiRuntimeError, "OPABI-K-001"),
        ("setup_fails", opabi.OpabiIndexError, r"sample 1.*no such size"),
        ("setup_negative", opabi.OpabiError, "OPABI-K-.*-5"),
        ("setup_huge", opabi.OpabiError, "1125899906842624"),
        ("setup_overflow", opabi.OpabiError, "1099511627776"),
        ("setup_wrong_rank", opabi.OpabiError, "OPABI-K-"),
        ("setup_rank_16", opabi.OpabiError, "16"),
        ("setup_rank_unset", opabi.OpabiError, "OPABI-K-011"),
        ("setup_unknown_dtype", opabi.OpabiError, "dtype 0x00028005"),
        ("setup_dtype_unset", opabi.OpabiError, "OPABI-K-011"),
        ("setup_changes_shape", opabi.OpabiError, "OPABI-K-012"),
        ("setup_changes_dtype", opabi.OpabiError, "OPABI-K-012"),
        ("setup_layout_unterminated", opabi.OpabiError, "layout"),
        ("setup_layout_too_long", opabi.OpabiError, "HWC"),
        ("setup_scratch_negative", opabi.OpabiError, "scratch"),
        ("setup_scratch_huge", opabi.OpabiError, "scratch"),
        # actual sizes
        ("actual_unset", opabi.OpabiError, "OPABI-K-028"),
        ("actual_too_large", opabi.OpabiError, "OPABI-K-028.*4"),
        ("actual_negative", opabi.OpabiError, "OPABI-K-028.*-2"),
        # create and specialize
        ("create_fails", opabi.OpabiMemoryError, "no room"),
        ("specialize_fails", opabi.OpabiTypeError, "not for these types"),
        ("specialize_null", opabi.OpabiError, "specialize_null"),
    ],
)
@pytest.mark.parametrize("checked", [False, True])
def test_broken_duty_is_an_error_that_names_it(
    hostile: Any, name: str, kind: type[Exception], text: str, checked: bool
) -> None:
    for _ in range(2):
        with pytest.raises(kind, match=f"(?s){text}") as raised:
            hostile[name]([X, X], checked=checked)
        assert name in str(raised.value)
        str(raised.value).encode()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("writes_past", "OPABI-K-022"),
        ("writes_before", "OPABI-K-022"),
        ("writes_input", "OPABI-K-021"),
        ("writes_half", "OPABI-K-020"),
        ("scratch_past", "OPABI-K-027"),
    ],
)
def test_checked_mode_names_what_was_written_where(hostile: Any, name: str, text: str) -> None:
    sample = np.arange(32, dtype=np.uint8)
    with pytest.raises(opabi.OpabiError, match=text):
        hostile[name]([sample, sample], checked=True)


def test_checked_mode_passes_a_kernel_that_keeps_the_rules(c_kernels: Any) -> None:
    batch = [np.float32([3, 1, 2]), np.float32([5])]
    plain, checked = c_kernels.median(batch), c_kernels.median(batch, checked=True)
    np.testing.assert_array_equal(plain, checked)
