# SPDX-License-Identifier: Apache-2.0
"""opabi.hpp: what kernels written with it do, and what it refuses to compile."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import opabi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

HERE = Path(__file__).parent


def compile_text(text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Checks C++ text without making anything of it."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    command = ["g++", "-std=c++17", *opabi.c.cflags(), *flags, "-x", "c++", "-o", "/dev/null", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


# ---- The header as C++ ---------------------------------------------------------------------------


@pytest.mark.parametrize("standard", ["c++17", "c++20", "c++23"])
def test_example_kernels_compile_without_a_warning(standard: str) -> None:
    warnings = ["-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Werror"]
    done = compile_text((HERE / "kernels.cc").read_text(), f"-std={standard}", "-S", *warnings)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("header", sorted((HERE / "../../include/opabi/cpp").glob("*.hpp")))
def test_each_part_of_the_header_compiles_alone(header: Path) -> None:
    done = compile_text(f"#include <opabi/cpp/{header.name}>\n", "-fsyntax-only")
    assert done.stderr == ""


def test_library_exports_its_entry_alone_and_runs_nothing_at_load(cc_kernels: Any) -> None:
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", cc_kernels.path], capture_output=True, text=True, check=True
    ).stdout
    strong = [line.split()[2] for line in symbols.splitlines() if line.split()[1] == "T"]
    assert strong == ["opabi_library_v1"]
    unique = [line for line in symbols.splitlines() if line.split()[1] == "u"]
    assert not [line for line in unique if "opabi" in line]  # the loader would merge them
    constructors = subprocess.run(["nm", cc_kernels.path], capture_output=True, text=True).stdout
    assert "_GLOBAL__sub_I" not in constructors


@pytest.mark.parametrize("view", ["flat", "view"])
def test_loop_over_a_view_is_vectorised(view: str) -> None:
    loops = {
        "flat": """static void f(opabi::flat<const uint8_t> in, opabi::flat<uint8_t> out) {
          for (int64_t i = 0; i < in.size(); i++) out[i] = 255 - in[i];
        }""",
        "view": """static void f(opabi::view<const uint8_t, 3> in, opabi::view<uint8_t, 3> out) {
          for (int64_t i = 0; i < in.extent(0); i++)
            for (int64_t j = 0; j < in.extent(1); j++)
              for (int64_t k = 0; k < in.extent(2); k++) out(i, j, k) = 255 - in(i, j, k);
        }""",
    }
    text = f"""#include <opabi/opabi.hpp>
    #line 1 "loop"
    {loops[view]}
    OPABI_CPP_KERNEL(f, "uint8[h,w,c] -> uint8[h,w,c]");
    OPABI_LIBRARY("l", "1", &f_kernel)
    """
    done = compile_text(text, "-O3", "-fopt-info-vec", "-c")
    assert "loop:" in done.stderr
    assert "loop vectorized using 16 byte vectors" in done.stderr


# ---- What it refuses -----------------------------------------------------------------------------

REFUSED = [
    ("number of inputs", 'OPABI_CPP_KERNEL(f, "uint8[n], uint8[n] -> uint8[n]", opabi::arg("a"));'),
    ("number of outputs", 'OPABI_CPP_KERNEL(f, "uint8[n] ->", opabi::arg("a"));'),
    ("differ in the number", 'OPABI_CPP_KERNEL(f, "uint8[n]", opabi::arg("a"));'),
    ("one for each opabi::arg", 'OPABI_CPP_KERNEL(f, "uint8[n] -> uint8[n]");'),
    (
        "more opabi::arg than",
        """static void g(int x) {}
        OPABI_CPP_KERNEL(g, "->", opabi::arg("a"), opabi::arg("b"));""",
    ),
    (
        "not a parameter type",
        """static void g(const char *x) {}
        OPABI_CPP_KERNEL(g, "int32 ->");""",
    ),
    ("default does not fit", 'OPABI_CPP_KERNEL(f, "uint8[n] -> uint8[n]", opabi::arg("a", 256));'),
    ("default does not fit", 'OPABI_CPP_KERNEL(f, "uint8[n] -> uint8[n]", opabi::arg("a", 1.5));'),
    ("default's rank", 'OPABI_CPP_KERNEL(f, "uint8[n] -> uint8[n]", opabi::arg("a", {1, 2}));'),
    (
        "reads its inputs as opabi::strided",
        """OPABI_CPP_KERNEL(
        f, "uint8[n] -> uint8[n]", opabi::arg("a"), opabi::traits(OPABI_ANY_STRIDES));""",
    ),
    (
        "variants agree",
        """
        static void g(opabi::flat<const float> x, opabi::flat<float> y, float) {}
        OPABI_CPP_VARIANTS(h, (f, g), "T[n] -> T[n]", opabi::arg("a"));""",
    ),
    (
        "strided is for inputs",
        """static void g(opabi::strided<int, 2> x) {}
        OPABI_CPP_KERNEL(g, "int32[n,m] ->");""",
    ),
    (
        "not an element type",
        """static void g(opabi::flat<const int *> x) {}
        OPABI_CPP_KERNEL(g, "int32[n] ->");""",
    ),
    (
        "as many indices",
        """
        static void g(opabi::view<const int, 2> x, int &y) { y = x(1); }
        OPABI_CPP_KERNEL(g, "int32[n,m] -> int32");""",
    ),
    (
        "push_back is for outputs of rank 1",
        """
        static void g(opabi::bounded<int, 2> x) { x.push_back(1); }
        OPABI_CPP_KERNEL(g, "-> int32[<=2,2]");""",
    ),
    (
        "inputs are read-only",
        """
        int32_t g(const opabi_call *c) { return opabi::input<int>(c, 0, 0)[0]; }""",
    ),
]


@pytest.mark.parametrize(("message", "mistake"), REFUSED, ids=[case[0] for case in REFUSED])
def test_mistake_is_refused_at_compile_time_by_a_text_that_says(message: str, mistake: str) -> None:
    text = f"""#include <opabi/opabi.hpp>
    static void f(opabi::flat<const uint8_t> x, opabi::flat<uint8_t> y, uint8_t a) {{}}
    {mistake}
    """
    done = compile_text(text, "-fsyntax-only")
    assert done.returncode != 0
    assert "error" in done.stderr
    assert message in done.stderr


def test_the_same_frame_without_a_mistake_compiles() -> None:
    text = """#include <opabi/opabi.hpp>
    static void f(opabi::flat<const uint8_t> x, opabi::flat<uint8_t> y, uint8_t a) {}
    OPABI_CPP_KERNEL(f, "uint8[n] -> uint8[n]", opabi::arg("a", 255));
    """
    assert compile_text(text, "-fsyntax-only").stderr == ""


# ---- What its kernels do -------------------------------------------------------------------------


def test_flat_kernel_uses_its_argument_and_default(cc_kernels: Any) -> None:
    x = np.uint8([[0, 127], [128, 255]])
    np.testing.assert_array_equal(cc_kernels.solarize(x), [[0, 127], [127, 0]])
    np.testing.assert_array_equal(cc_kernels.solarize(x, limit=0), 255 - x)
    argument = cc_kernels.solarize.arguments[0]
    assert (argument.name, argument.dtype, argument.ndim) == ("limit", "uint8", 0)
    assert (argument.default, argument.doc) == (128, "From here on, inverted.")
    assert cc_kernels.solarize.__doc__ == "Inverts what is bright."
    assert cc_kernels.solarize.traits == {"pure", "deterministic"}


@pytest.mark.parametrize("dtype", ["int32", "float32", "float16"])
def test_variants_are_chosen_by_type(cc_kernels: Any, dtype: str) -> None:
    x = np.array([[1, -2, 0]], dtype)
    y = cc_kernels.negate(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, -x)


def test_variants_refuse_another_type_and_list_theirs(cc_kernels: Any) -> None:
    expected = "input 0 is float64 of rank 1; this kernel takes int32 or float32 or float16"
    with pytest.raises(opabi.OpabiTypeError, match=expected):
        cc_kernels.negate(np.float64([1]))


def test_variants_refuse_a_combination_that_none_takes(cc_kernels: Any) -> None:
    np.testing.assert_array_equal(cc_kernels.add(np.int32([1]), np.int32([2])), [3])
    with pytest.raises(opabi.OpabiTypeError, match=r"no variant.*combination"):
        cc_kernels.add(np.int32([1]), np.float32([2]))


@given(hnp.arrays("float16", st.integers(0, 40), elements=hnp.from_dtype(np.dtype("float16"))))
def test_float16_negation_equals_numpys(cc_kernels: Any, x: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(cc_kernels.negate(x), -x)


def test_float16_keeps_every_value(cc_kernels: Any) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    twice = cc_kernels.negate(cc_kernels.negate(every))
    np.testing.assert_array_equal(np.isnan(twice), np.isnan(every))
    number = ~np.isnan(every)
    np.testing.assert_array_equal(twice[number].view(np.uint16), every[number].view(np.uint16))


def test_float16_rounds_as_numpy(tmp_path: Path) -> None:
    library = opabi.c.compile(
        """#include <opabi/opabi.hpp>
        static void halve(opabi::flat<const float> x, opabi::flat<opabi::float16> y) {
          for (int64_t i = 0; i < x.size(); i++) y[i] = x[i];
        }
        OPABI_CPP_KERNEL(halve, "float32[n] -> float16[n]");
        OPABI_LIBRARY("halve", "1", &halve_kernel)
        """,
        language="c++",
    )
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
    near = (rng.integers(0x33000000, 0x47900000, 1 << 20)).astype(np.uint32)
    ties = near & np.uint32(0xFFFFF000)
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, 2**-24, 2**-25])
    x = np.concatenate(
        [bits.view(np.float32), near.view(np.float32), ties.view(np.float32), special]
    )
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(library.halve(x), expected)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(
        library.halve(x)[number].view(np.uint16), expected[number].view(np.uint16)
    )


def test_view_kernel_indexes_in_row_major_order(cc_kernels: Any) -> None:
    x = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    np.testing.assert_array_equal(cc_kernels.transpose_chw(x), x.transpose(2, 0, 1))


def test_bounded_output_has_the_size_that_push_back_gave(cc_kernels: Any) -> None:
    batch = [np.int32(x) for x in ([5, 1, 7], [1, 2], [])]
    results = cc_kernels.keep_greater(batch)
    assert [list(y) for y in results] == [[5, 7], [], []]


def test_bounded_output_of_rank_2_is_laid_out_in_its_actual_shape(cc_kernels: Any) -> None:
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    np.testing.assert_array_equal(cc_kernels.keep_rows(x), x[::2])


def test_bounded_output_beyond_its_bound_is_an_index_error(cc_kernels: Any) -> None:
    with pytest.raises(opabi.OpabiIndexError, match="extent 4 where 0 to 3 are allowed"):
        cc_kernels.overrun(np.int32([1, 2, 3]))


def test_strided_input_is_read_in_place(cc_kernels: Any) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(cc_kernels.row_sums(x[:, ::2]), x[:, ::2].sum(1))
    np.testing.assert_array_equal(cc_kernels.row_sums(x.T), x.T.sum(1))
    np.testing.assert_array_equal(cc_kernels.row_sums(x[::-1]), x[::-1].sum(1))


def test_numbers_are_read_and_written_by_value(cc_kernels: Any) -> None:
    assert cc_kernels.scaled(np.int64(5)) == 10.0
    assert cc_kernels.scaled(np.int64(5), factor=0.5) == 2.5


def test_arguments_of_each_kind_have_their_type_and_default(cc_kernels: Any) -> None:
    kernel = cc_kernels.normalize
    declared = {a.name: (a.dtype, a.ndim, a.default.tolist()) for a in kernel.arguments}
    assert declared == {
        "mean": ("float32", 1, [1.0, 2.0, 3.0]),
        "scale": ("float32", None, 0.5),
        "swap": ("bool", 0, False),
    }
    x = np.full((1, 2, 3), 9, np.uint8)
    np.testing.assert_array_equal(kernel(x)[0, 0], [4, 3.5, 3])
    np.testing.assert_array_equal(kernel(x, swap=True)[0, 0], [3, 3.5, 4])
    np.testing.assert_array_equal(
        kernel(x, mean=[9.0, 8.0, 7.0], scale=[1.0, 2.0, 3.0])[0, 1], [0, 2, 6]
    )
    with pytest.raises(opabi.OpabiValueError, match="one mean for each channel"):
        kernel(x, mean=[0.0])


def test_strings_are_string_views(cc_kernels: Any) -> None:
    text = np.frombuffer(b"opabi", np.uint8)
    assert bytes(cc_kernels.spelled(text)) == b"opabi"
    assert bytes(cc_kernels.spelled(text, way="reversed")) == b"ibapo"


def test_setup_gives_shapes_types_and_layouts(cc_kernels: Any) -> None:
    np.testing.assert_array_equal(cc_kernels.joined(np.int32([1]), np.int32([2, 3])), [1, 2, 3])
    x = np.int32([1, 2])
    assert (cc_kernels.open(x).dtype, cc_kernels.open(x).shape) == (np.float32, (2, 1))
    assert cc_kernels.open(x, wide=True).dtype == np.float64


def test_scratch_and_context_reach_the_function(cc_kernels: Any) -> None:
    batch = [np.float32([3, 1, 2]), np.float32([9])]
    assert [float(y) for y in cc_kernels.median(batch)] == [2.0, 9.0]
    places = cc_kernels.place([np.int32(0), np.int32(0)])
    assert [y[0] for y in places] == [0, 1]


def test_state_is_made_for_each_operator_and_its_failure_is_reported(cc_kernels: Any) -> None:
    counts = [int(y) for y in cc_kernels.counter([np.int32([0])] * 3)]
    assert counts == list(range(counts[0], counts[0] + 3))
    with pytest.raises(opabi.OpabiValueError, match="no counting today"):
        cc_kernels.uncounted(np.int32([0]))


@pytest.mark.parametrize(
    ("which", "kind", "text"),
    [
        (1, opabi.OpabiValueError, "a bad value"),
        (2, opabi.OpabiIndexError, "an index out of range"),
        (3, opabi.OpabiMemoryError, "out of memory"),
        (4, opabi.OpabiError, "not here.*UNSUPPORTED"),
        (5, opabi.OpabiRuntimeError, "a fault"),
        (6, opabi.OpabiRuntimeError, "no std::exception"),
    ],
)
def test_exception_becomes_the_kernels_error_at_its_sample(
    cc_kernels: Any, which: int, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=f"thrown.*sample 1.*{text}"):
        cc_kernels.thrown([np.int32(0), np.int32(which), np.int32(0)])
    assert cc_kernels.thrown(np.int32(7)) == 7


def test_types_that_only_the_signature_allows_are_refused_by_port(cc_kernels: Any) -> None:
    expected = "input 0 is float32 of rank 1; this kernel takes float32 of rank 2"
    with pytest.raises(opabi.OpabiTypeError, match=expected):
        cc_kernels.mistyped(np.float32([1]))
    np.testing.assert_array_equal(cc_kernels.mistyped(np.float32([[1]])), [[1]])


def test_run_by_hand_reads_typed_views_of_a_whole_batch(cc_kernels: Any) -> None:
    batch = [np.ones((2, 3), np.float32), np.ones((1, 1), np.float32)]
    assert [float(y) for y in cc_kernels.total(batch)] == [7.0, 7.0]
    with pytest.raises(opabi.OpabiTypeError, match="input 0 is int32 of rank 1"):
        cc_kernels.total(np.int32([1]))
