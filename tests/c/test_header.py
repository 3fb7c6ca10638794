# SPDX-License-Identifier: Apache-2.0
"""opabi.h: every C and C++ compiler takes it, and its offsets are what its comments say."""

from __future__ import annotations

import keyword
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from opabi import _abi

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "include/opabi/opabi.h").read_text(encoding="utf-8")
STRUCTS = (
    "opabi_tensor",
    "opabi_arg",
    "opabi_create",
    "opabi_specialize",
    "opabi_setup",
    "opabi_call",
    "opabi_state",
    "opabi_kernel",
    "opabi_library",
)
GROWING = sorted(set(STRUCTS) - {"opabi_tensor", "opabi_arg"})
WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wpadded", "-Wshadow", "-Werror")
USE = """
#define OPABI_NEEDS OPABI_VERSION(1, 0)
#include <opabi/opabi.h>
static int32_t run(const opabi_call *call) {
  if (opabi_numel(call->inputs) < 0) return OPABI_FAIL(call, 0, OPABI_ERROR_VALUE, "negative");
  return OPABI_OK;
}
"""
C_KERNEL = 'OPABI_KERNEL(run, "T[...] -> T[...]", .doc = "Nothing.");\n'
CPP_KERNEL = (
    "static const opabi_kernel run_kernel = {OPABI_MAGIC, sizeof(opabi_kernel), OPABI_NEEDS, "
    '"run", 0, "T[...] -> T[...]", 0, 0, OPABI_CPU, 0, 0, 0, 0, 0, 0, 0, run, 0, 0, 0};\n'
)
LIBRARY = 'OPABI_LIBRARY("name", "1.0", &run_kernel)\n'


def comments_of(struct: str) -> dict[str, int]:
    """The offsets in the comments of a struct, by field, and "sizeof" for the one at its end."""
    found = re.search(
        rf"typedef struct {struct} {{\n(.*?)^}} {struct};\s*/\* *(\d+)", HEADER, re.S | re.M
    )
    assert found, struct
    body, size = found.groups()
    fields = re.findall(r"^  [^/\n*]*?[^;\n]*?;\s*/\* *(\d+)", body, re.M)
    declarations = re.findall(r"^  (?!\s|/|\*)([^;]*);", body, re.M)
    names = [_declared(declaration) for declaration in declarations]
    assert len(fields) == len(names), (
        f"{struct}: each field has a comment that begins with its offset"
    )
    return {**dict(zip(names, map(int, fields), strict=True)), "sizeof": int(size)}


def _declared(declaration: str) -> str:
    pointer = re.search(r"\(\*(\w+)\)", declaration)
    return pointer.group(1) if pointer else re.findall(r"\w+", declaration)[-1]


def compile_text(command: list[str], language: str, text: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        whole = [*command, f"-I{ROOT / 'include'}", "-c", "-x", language, "-o", "made.o", "-"]
        return subprocess.run(
            whole, input=text, capture_output=True, text=True, check=False, cwd=folder
        )


def layout_asserts(assertion: str) -> str:
    """Source that compiles only where every offset and size is what the comments say."""
    lines = ["#include <stddef.h>", "#include <opabi/opabi.h>"]
    for struct in STRUCTS:
        for field, offset in comments_of(struct).items():
            value = f"sizeof({struct})" if field == "sizeof" else f"offsetof({struct}, {field})"
            lines.append(f'{assertion}({value} == {offset}, "{struct}.{field}");')
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def gcc() -> str:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    return "gcc"


@pytest.fixture(scope="module")
def zig() -> list[str]:
    """A compiler for any target."""
    pytest.importorskip("ziglang")
    return [sys.executable, "-m", "ziglang", "cc"]


# ---- Compilers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("standard", ["c99", "c11", "c17", "c2x"])
def test_header_compiles_as_c_without_a_warning(gcc: str, standard: str) -> None:
    done = compile_text([gcc, f"-std={standard}", *WARNINGS], "c", USE + C_KERNEL + LIBRARY)
    assert done.stderr == ""


@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17", "c++20"])
def test_header_compiles_as_cpp_without_a_warning(gcc: str, standard: str) -> None:
    done = compile_text([gcc, f"-std={standard}", *WARNINGS], "c++", USE + CPP_KERNEL + LIBRARY)
    assert done.stderr == ""


@pytest.mark.parametrize("language", ["c", "c++"])
def test_header_compiles_with_clang_without_a_warning(zig: list[str], language: str) -> None:
    warnings = [*WARNINGS, "-Weverything", "-Wno-unsafe-buffer-usage", "-Wno-c++98-compat-pedantic"]
    warnings += ["-Wno-declaration-after-statement", "-Wno-old-style-cast", "-Wno-pre-c11-compat"]
    warnings += ["-Wno-zero-as-null-pointer-constant", "-Wno-implicit-void-ptr-cast"]
    kernel = C_KERNEL if language == "c" else CPP_KERNEL
    done = compile_text([*zig, *warnings], language, USE + kernel + LIBRARY)
    assert done.stderr == ""


def test_library_macro_exports_an_unmangled_entry_from_cpp(gcc: str, tmp_path: Path) -> None:
    source, made = tmp_path / "library.cc", tmp_path / "library.so"
    source.write_text(USE + CPP_KERNEL + LIBRARY)
    flags = ["-shared", "-fPIC", "-fvisibility=hidden", f"-I{ROOT / 'include'}"]
    subprocess.run([gcc, *flags, str(source), "-o", str(made)], check=True)
    symbols = subprocess.run(["nm", "-D", str(made)], capture_output=True, text=True).stdout
    assert re.search(r" T opabi_library_v1$", symbols, re.M)


def test_header_includes_stdint_alone() -> None:
    assert re.findall(r"^#include (.*)", HEADER, re.M) == ["<stdint.h>"]


# ---- Layout --------------------------------------------------------------------------------------


@pytest.mark.parametrize("struct", STRUCTS)
def test_offsets_in_comments_are_the_offsets_here(struct: str) -> None:
    ctype = _abi.ffi.typeof(struct)
    found = {name: field.offset for name, field in ctype.fields}
    assert comments_of(struct) == {**found, "sizeof": _abi.ffi.sizeof(ctype)}


def test_struct_list_is_complete() -> None:
    declared = re.findall(r"^typedef struct (\w+) \{", _abi.declarations(), re.M)
    assert tuple(declared) == STRUCTS


@pytest.mark.parametrize("struct", STRUCTS)
def test_struct_has_no_hidden_padding(struct: str) -> None:
    ctype = _abi.ffi.typeof(struct)
    at = 0
    for name, field in ctype.fields:
        assert field.offset == at, name
        at += _abi.ffi.sizeof(field.type)
    assert at == _abi.ffi.sizeof(ctype)
    assert at % 8 == 0


@pytest.mark.parametrize("struct", STRUCTS)
def test_fields_are_fixed_width_integers_or_pointers(struct: str) -> None:
    allowed = {"int32_t", "uint32_t", "int64_t", "uint64_t"}
    for name, field in _abi.ffi.typeof(struct).fields:
        pointer = field.type.kind in ("pointer", "function")
        assert pointer or field.type.cname in allowed, name


@pytest.mark.parametrize("struct", GROWING)
def test_growing_struct_states_its_size_and_the_size_of_each_minor(struct: str) -> None:
    names = [name for name, _ in _abi.ffi.typeof(struct).fields]
    begin = ["magic", "struct_size", "abi_min"] if "magic" in names else ["struct_size", "abi"]
    assert names[: len(begin)] == begin
    assert f"#define {struct.upper()}_SIZE_1_0 " in HEADER


@pytest.mark.parametrize(
    "target", ["aarch64-linux-gnu", "x86_64-windows-gnu", "aarch64-macos", "riscv64-linux-gnu"]
)
def test_layout_is_the_same_for(zig: list[str], target: str) -> None:
    text = layout_asserts("_Static_assert")
    done = compile_text([*zig, "-target", target], "c", text)
    assert done.stderr == ""
    wrong = text.replace("offsetof(opabi_call, err) == 176", "offsetof(opabi_call, err) == 184")
    assert wrong != text
    done = compile_text([*zig, "-target", target], "c", wrong)
    assert "opabi_call.err" in done.stderr


def test_layout_is_the_same_in_cpp_and_with_short_enums(gcc: str) -> None:
    cpp = [gcc, "-std=c++11", "-Wno-invalid-offsetof"]
    assert compile_text(cpp, "c++", layout_asserts("static_assert")).stderr == ""
    short = [gcc, "-std=c11", "-fshort-enums"]
    assert compile_text(short, "c", layout_asserts("_Static_assert")).stderr == ""


def test_records_have_the_layout_of_the_structs() -> None:
    for struct in STRUCTS:
        record = _abi.record(struct)
        ctype = _abi.ffi.typeof(struct)
        assert record.itemsize == _abi.ffi.sizeof(ctype)
        assert {name: field[1] for name, field in record.fields.items()} == {
            name: field.offset for name, field in ctype.fields
        }
    assert _abi.record("opabi_call")["inputs"] == "int64"
    assert _abi.record("opabi_tensor")["dtype"] == "uint32"


# ---- Text ----------------------------------------------------------------------------------------

WORDS = {
    "C++": """alignas alignof and asm auto bitand bitor bool break case catch char class compl
        concept const constexpr continue decltype default delete do double else enum explicit export
        extern false float for friend goto if inline int long mutable namespace new noexcept not
        nullptr operator or private protected public register requires return short signed sizeof
        static struct switch template this throw true try typedef typeid typename union unsigned
        using virtual void volatile wchar_t while xor""",
    "Rust": """as async await become box break const continue crate do dyn else enum extern false
        final fn for gen if impl in let loop macro match mod move mut override priv pub ref return
        self static struct super trait true try type typeof union unsafe unsized use virtual where
        while yield abstract""",
    "Zig": """addrspace align allowzero and anyframe anytype asm async await break callconv catch
        comptime const continue defer else enum errdefer error export extern fn for if inline
        linksection noalias noinline nosuspend opaque or orelse packed pub resume return struct
        suspend switch test threadlocal try type union unreachable usingnamespace var volatile
        while""",
    "Python": " ".join([*keyword.kwlist, *keyword.softkwlist]),
}


@pytest.mark.parametrize("language", WORDS)
def test_no_field_is_a_keyword_of(language: str) -> None:
    words = set(WORDS[language].split())
    for struct in STRUCTS:
        taken = words & {name for name, _ in _abi.ffi.typeof(struct).fields}
        assert not taken, f"{struct}: {taken}"


@pytest.mark.parametrize("struct", STRUCTS)
def test_field_names_are_legal_in_fortran(struct: str) -> None:
    """It has no reserved words, no case and no name that begins with an underscore."""
    names = [name for name, _ in _abi.ffi.typeof(struct).fields]
    assert all(re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name) for name in names)


def test_declarations_have_no_preprocessor_line() -> None:
    assert not re.findall(r"^\s*#", _abi.declarations(), re.M)


def test_every_rule_that_the_header_mentions_is_in_the_rules() -> None:
    with open(ROOT / "spec/rules.toml", "rb") as file:
        rules: list[dict[str, Any]] = tomllib.load(file)["rule"]
    mentioned = set(re.findall(r"OPABI-[DKHS]-\d{3}", HEADER))
    assert mentioned
    assert mentioned <= {rule["id"] for rule in rules}


def test_constants_match_a_compiled_program(gcc: str, tmp_path: Path) -> None:
    constants = _abi.constants
    lines = [
        f'printf("%s %lld\\n", "{n}", (long long){n});' for n in constants if n != "OPABI_VERSION"
    ]
    source, made = tmp_path / "constants.c", tmp_path / "constants"
    body = "\n".join(lines)
    source.write_text(
        f"#include <stdio.h>\n#include <opabi/opabi.h>\nint main(void) {{\n{body}\n}}\n"
    )
    subprocess.run([gcc, f"-I{ROOT / 'include'}", str(source), "-o", str(made)], check=True)
    printed = subprocess.run([str(made)], capture_output=True, text=True, check=True).stdout
    found = {name: int(value) for name, value in map(str.split, printed.splitlines())}
    assert found == {n: v for n, v in constants.items() if n != "OPABI_VERSION"}


def test_fail_cuts_its_message_at_a_character_for_any_capacity(gcc: str, tmp_path: Path) -> None:
    source, made = tmp_path / "fail.c", tmp_path / "fail"
    source.write_text(
        "#include <stdio.h>\n#include <string.h>\n#include <opabi/opabi.h>\n"
        "int main(void) {\n"
        '  const char *text = "\\xC3\\xA9\\xE2\\x82\\xAC\\xF0\\x9F\\x98\\x80x";\n'
        "  for (int64_t cap = 0; cap < 16; cap++) {\n"
        "    char err[32];\n"
        "    int64_t where[4] = {-1, -1, -1, -1};\n"
        "    memset(err, '#', sizeof err);\n"
        "    if (opabi_fail(cap ? err : NULL, cap, where, 3, 7, text) != 7) return 1;\n"
        "    if (where[2] != 3 || where[0] != -1) return 2;\n"
        "    if (cap && !memchr(err, 0, (size_t)cap)) return 3;\n"
        "    for (int i = (int)cap; i < 32; i++) if (err[i] != '#') return 4;\n"
        "    if (cap) puts(err);\n"
        "  }\n"
        "  return opabi_fail(NULL, 0, NULL, 0, 5, text) != 5;\n"
        "}\n"
    )
    subprocess.run([gcc, f"-I{ROOT / 'include'}", str(source), "-o", str(made)], check=True)
    printed = subprocess.run([str(made)], capture_output=True, check=True).stdout.decode()
    whole = "é€😀x"
    expected = []
    for cap in range(1, 16):
        expected.append(whole.encode()[: cap - 1].decode("utf-8", "ignore"))
    assert printed.splitlines() == expected
