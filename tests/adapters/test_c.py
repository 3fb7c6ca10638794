# SPDX-License-Identifier: Apache-2.0
"""Kernels in C and C++: libraries, compilation and its cache, addresses."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import opabi
import pytest
from opabi import _abi
from opabi.adapters import c_build

PLUS = """
#include <opabi/opabi.h>
#ifndef PLUS
#define PLUS 1
#endif
static int32_t plus(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int32_t *x = call->inputs[s].data;
    int32_t *y = call->outputs[s].data;
    for (int64_t i = 0; i < opabi_numel(&call->inputs[s]); i++) y[i] = x[i] + PLUS;
  }
  return OPABI_OK;
}
OPABI_KERNEL(plus, "int32[n] -> int32[n]", .doc = "Adds a number.");
OPABI_LIBRARY("plus", "2.1", &plus_kernel)
"""
ADDRESSABLE = """
#include <opabi/opabi.h>
OPABI_EXPORT int32_t run(const opabi_call *call);
int32_t run(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) {
    const int32_t *x = call->inputs[s].data;
    int32_t *y = call->outputs[s].data;
    for (int64_t i = 0; i < call->outputs[s].shape[0]; i++) y[i] = x[i % 2] * 3;
  }
  return OPABI_OK;
}
OPABI_EXPORT int32_t setup(const opabi_setup *setup);
int32_t setup(const opabi_setup *setup) {
  for (int64_t s = 0; s < setup->n_samples; s++) setup->out_shape[s * setup->max_ndim] = 4;
  return OPABI_OK;
}
static int32_t unused(const opabi_call *call) { return run(call); }
OPABI_KERNEL(unused, "int32[n] -> int32[n]");
OPABI_LIBRARY("addressable", "1", &unused_kernel)
"""
X = np.array([1, 2], np.int32)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for this test; gives the folder of compiled libraries."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "opabi" / "c"


@pytest.fixture
def compiler(tmp_path: Path) -> Any:
    """A compiler that counts its compilations: ``.command`` and ``.count()``."""

    class Counting:
        log = tmp_path / "compilations"
        script = tmp_path / "counting-cc"
        command = str(script)

        def count(self) -> int:
            return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    counting = Counting()
    counting.script.write_text(
        "#!/bin/sh\n"
        f'case " $* " in *" -o "*) echo once >> {shlex.quote(str(counting.log))};; esac\n'
        'exec cc "$@"\n'
    )
    counting.script.chmod(0o755)
    return counting


# ---- Libraries -----------------------------------------------------------------------------------


def test_library_kernels_are_found_by_attribute_item_and_iteration(c_kernels: Any) -> None:
    assert c_kernels.invert is c_kernels["invert"]
    assert "invert" in list(c_kernels)
    assert "invert" in dir(c_kernels)
    assert len(c_kernels) == len(list(c_kernels)) > 20
    assert c_kernels.invert.__doc__ == "255 minus each element."
    np.testing.assert_array_equal(c_kernels.invert(np.uint8([0, 5])), [255, 250])


def test_library_repr_names_the_library_its_path_and_each_signature(c_kernels: Any) -> None:
    text = repr(c_kernels)
    assert text.startswith("<opabi library kernels 1.0.0 from /")
    assert "joined         int32[n], int32[m] -> int32[?]" in text


def test_library_unknown_kernel_is_refused_with_the_names_there_are(c_kernels: Any) -> None:
    with pytest.raises(AttributeError, match=r"no kernel 'blur'.*invert"):
        _ = c_kernels.blur
    with pytest.raises(KeyError, match=r"no kernel 'blur'.*invert"):
        _ = c_kernels["blur"]


def test_load_of_a_second_path_gives_a_working_library(c_kernels: Any, tmp_path: Path) -> None:
    copy = tmp_path / "copy.so"
    copy.write_bytes(Path(c_kernels.path).read_bytes())
    other = opabi.load(copy)
    assert other != c_kernels
    assert opabi.load(str(copy)) == other
    np.testing.assert_array_equal(other.invert(np.uint8([1])), c_kernels.invert(np.uint8([1])))


def test_load_of_a_missing_file_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(opabi.OpabiRuntimeError, match=r"gone\.so"):
        opabi.load(tmp_path / "gone.so")


def test_load_of_a_text_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.so"
    file.write_text("no library")
    with pytest.raises(opabi.OpabiRuntimeError, match=r"text\.so"):
        opabi.load(file)


def test_load_of_a_source_names_compile(tmp_path: Path) -> None:
    with pytest.raises(opabi.OpabiValueError, match=r"opabi\.c\.compile"):
        opabi.load(tmp_path / "kernel.c")


def test_load_of_something_that_is_no_path_is_refused() -> None:
    with pytest.raises(opabi.OpabiTypeError, match="int"):
        opabi.load(3)  # type: ignore[arg-type]


# ---- Broken libraries ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("-DNO_ENTRY",), "opabi_library_v1"),
        (("-DNULL_LIBRARY",), "OPABI-D-001"),
        (("-DNULL_KERNEL",), "OPABI-D-"),
        (("-DTWICE",), "OPABI-D-.*copy"),
        (("-DUNDEFINED_SYMBOL",), "nobody_defines_this"),
        (("-DMAGIC=1",), "OPABI-D-002"),
        (("-DSIZE=104",), "OPABI-D-003"),
        (("-DABI_MIN=OPABI_VERSION(2,0)",), r"OPABI-D-004.*2\.0.*1\.0"),
        (("-DABI_MIN=OPABI_VERSION(1,9)",), r"OPABI-D-004.*1\.9.*1\.0"),
        (("-DFIELDS=.critical=1<<30",), "OPABI-D-005"),
        (("-DRUN=NULL",), "OPABI-D-"),
        (('-DNAME="a b"',), "OPABI-D-"),
        (("-DNAME=NULL",), "OPABI-D-"),
        (("-DSIGNATURE=NULL",), "OPABI-D-"),
        (('-DSIGNATURE="uint8[n] -> uint8[m]"',), "OPABI-S-"),
        (('-DSIGNATURE="uint8[n] -> uint8[?]"',), "OPABI-D-.*setup"),
        (("-DLIBRARY=.magic=1",), "OPABI-D-002"),
        (("-DLIBRARY=.struct_size=48",), "OPABI-D-003"),
        (("-DLIBRARY=.abi_min=OPABI_VERSION(2,0)",), "OPABI-D-004"),
        (("-DLIBRARY=.n_kernels=-1",), "OPABI-D-"),
        (("-DLIBRARY=.kernels=NULL",), "OPABI-D-"),
        (("-DLIBRARY=.name=NULL",), "OPABI-D-"),
    ],
)
def test_broken_library_is_refused_with_its_rule(
    broken: Any, flags: tuple[str, ...], message: str
) -> None:
    with pytest.raises(opabi.OpabiError, match=message):
        broken(*flags)


@pytest.mark.parametrize(
    "flag",
    [
        "-DSIZE=sizeof(later_kernel)",  # of a later minor
        "-DFIELDS=.traits=1u<<30",  # an unknown advisory trait
        "-DLIBRARY=.struct_size=sizeof(opabi_library)",
        "-DABI_MIN=OPABI_VERSION(1,0)",
    ],
)
def test_library_within_the_rules_loads_and_runs(broken: Any, flag: str) -> None:
    np.testing.assert_array_equal(broken(flag)["copy"](np.uint8([4, 5])), [4, 5])


# ---- Compilation ---------------------------------------------------------------------------------


def test_compile_of_c_text_gives_a_library(cache: Path) -> None:
    library = opabi.c.compile(PLUS, language="c", name="plus one")
    assert (library.name, library.version) == ("plus", "2.1")
    assert Path(library.path).parent == cache
    assert Path(library.path).name.startswith("plus_one-")
    np.testing.assert_array_equal(library.plus(X), [2, 3])


@pytest.mark.parametrize("suffix", [".cc", ".cpp", ".cxx"])
def test_compile_of_a_cpp_file_gives_a_library(cache: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"kernels{suffix}"
    file.write_text(
        "#include <opabi/opabi.hpp>\n"
        "static void twice(opabi::flat<const int32_t> x, opabi::flat<int32_t> y) {\n"
        "  for (int64_t i = 0; i < x.size(); i++) y[i] = 2 * x[i];\n"
        "}\n"
        'OPABI_CPP_KERNEL(twice, "int32[n] -> int32[n]");\n'
        'OPABI_LIBRARY("twice", "1", &twice_kernel)\n'
    )
    np.testing.assert_array_equal(opabi.c.compile(file).twice(X), [2, 4])


def test_compile_flags_reach_the_compiler(cache: Path) -> None:
    library = opabi.c.compile(PLUS, language="c", flags=["-DPLUS=40"])
    np.testing.assert_array_equal(library.plus(X), [41, 42])


def test_compile_error_shows_what_the_compiler_said_and_the_command(cache: Path) -> None:
    with pytest.raises(opabi.OpabiRuntimeError) as raised:
        opabi.c.compile("int f(void) { return nowhere; }\n", language="c")
    text = str(raised.value)
    assert "nowhere" in text
    assert "-fvisibility=hidden" in text
    assert not list(cache.glob("*.so"))
    assert not list(cache.glob("build-*"))


def test_compile_without_a_compiler_says_what_to_install(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(opabi.OpabiRuntimeError, match="apt install g"):
        opabi.c.compile(PLUS, language="c")
    monkeypatch.setenv("CXX", "no-such-compiler -v")
    with pytest.raises(opabi.OpabiRuntimeError, match="CXX, 'no-such-compiler -v'"):
        opabi.c.compile(PLUS, language="c++")
    with pytest.raises(opabi.OpabiRuntimeError, match="no-such-cc"):
        opabi.c.compile(PLUS, language="c", compiler=["no-such-cc"])


def test_compile_takes_the_compiler_from_the_environment(
    cache: Path, compiler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", f"{compiler.command} -DPLUS=5")
    np.testing.assert_array_equal(opabi.c.compile(PLUS, language="c").plus(X), [6, 7])
    assert compiler.count() == 1


@pytest.mark.parametrize(
    ("source", "language", "message"),
    [
        ("kernel.f90", None, "no C or C.. source"),
        ("missing.c", None, "cannot read"),
        (PLUS, None, "language"),
        (PLUS, "fortran", "expected 'c' or 'c\\+\\+'"),
    ],
)
def test_compile_of_what_is_no_source_is_refused(
    source: str, language: str | None, message: str
) -> None:
    with pytest.raises(opabi.OpabiValueError, match=message):
        opabi.c.compile(source, language=language)


# ---- The cache -----------------------------------------------------------------------------------


def test_cache_second_compile_of_the_same_source_runs_no_compiler(
    cache: Path, compiler: Any
) -> None:
    first = opabi.c.compile(PLUS, language="c", compiler=compiler.command)
    second = opabi.c.compile(PLUS, language="c", compiler=compiler.command)
    assert first == second
    assert compiler.count() == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"flags": ["-DPLUS=2"]},
        {"source": PLUS + "\n/* changed */\n"},
        {"compiler": "cc -DPLUS=1"},
        {"source": PLUS.replace(".data", ".data + 0"), "language": "c"},
    ],
)
def test_cache_is_not_used_after_a_change(cache: Path, changed: dict[str, Any]) -> None:
    same: dict[str, Any] = {"source": PLUS, "language": "c", "flags": [], "compiler": "cc"}
    first = opabi.c.compile(**same)
    assert opabi.c.compile(**{**same, **changed}).path != first.path
    assert len(list(cache.glob("*.so"))) == 2


def _write_old(file: Path, text: str) -> None:
    """Writes a file that was last changed a while ago."""
    file.write_text(text)
    os.utime(file, (1e9, 1e9))


def test_cache_follows_an_included_header(cache: Path, compiler: Any, tmp_path: Path) -> None:
    header, source = tmp_path / "my plus.h", tmp_path / "kernel.c"
    _write_old(header, "#define PLUS 7\n")
    _write_old(source, '#include "my plus.h"\n' + PLUS)
    results = []
    for text in ("#define PLUS 7\n", "#define PLUS 8\n", "#define PLUS 7\n", "#define PLUS 7\n"):
        _write_old(header, text)
        library = opabi.c.compile(source, compiler=compiler.command)
        results.append(int(library.plus(X)[0]))
    assert results == [8, 9, 8, 8]
    assert compiler.count() == 2
    listed = json.loads(next(cache.glob("*.json")).read_text())
    assert str(header) in listed
    assert str(_abi.include_dir() / "opabi" / "opabi.h") in listed
    header.unlink()
    with pytest.raises(opabi.OpabiRuntimeError, match=r"my plus\.h"):
        opabi.c.compile(source, compiler=compiler.command)


def test_cache_survives_a_spoilt_list_of_headers(cache: Path, compiler: Any) -> None:
    opabi.c.compile(PLUS, language="c", compiler=compiler.command)
    next(cache.glob("*.json")).write_text("{ not json")
    np.testing.assert_array_equal(
        opabi.c.compile(PLUS, language="c", compiler=compiler.command).plus(X), [2, 3]
    )
    assert compiler.count() == 2


def test_cache_that_cannot_be_written_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(opabi.OpabiRuntimeError, match="XDG_CACHE_HOME"):
        opabi.c.compile(PLUS, language="c")


def test_cache_first_use_by_several_processes_at_once_works_in_each(
    cache: Path, tmp_path: Path
) -> None:
    source = tmp_path / "kernel.c"
    source.write_text(PLUS)
    script = (
        "import sys, numpy, opabi\n"
        "lib = opabi.c.compile(sys.argv[1])\n"
        "print(lib.plus(numpy.array([1], 'int32'))[0], lib.path)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(source)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    outputs = {process.communicate(timeout=120)[0] for process in running}
    assert outputs == {f"2 {next(cache.glob('*.so'))}\n"}
    assert not list(cache.glob("build-*"))


def test_parse_dependencies_reads_escapes_and_continuations(tmp_path: Path) -> None:
    file = tmp_path / "made.d"
    file.write_text("made.so: /a/one.c /a/with\\ space.h \\\n /b/two.h\n")
    found = c_build._parse_dependencies(file)
    assert found == [Path("/a/one.c"), Path("/a/with space.h"), Path("/b/two.h")]


# ---- Addresses -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def addressable() -> str:
    return opabi.c.compile(ADDRESSABLE, language="c").path


FFI = cffi.FFI()
FFI.cdef(
    _abi.declarations() + "int32_t run(const opabi_call *); int32_t setup(const opabi_setup *);"
)


class WithAddress:
    def __init__(self, address: int) -> None:
        self.address = address


def _ctypes_symbol(path: str, name: str) -> Any:
    return ctypes.CDLL(path)[name]


def _number(path: str, name: str) -> int:
    return ctypes.cast(_ctypes_symbol(path, name), ctypes.c_void_p).value or 0


def _capsule(path: str, name: str) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(_number(path, name), b"any name", None)


HOLDERS = {
    "int": _number,
    "numpy_int": lambda path, name: np.uint64(_number(path, name)),
    "ctypes": _ctypes_symbol,
    "void_pointer": lambda path, name: ctypes.c_void_p(_number(path, name)),
    "cffi": lambda path, name: getattr(FFI.dlopen(path), name),
    "cffi_void": lambda path, name: FFI.cast("void *", _number(path, name)),
    "capsule": _capsule,
    "object": lambda path, name: WithAddress(_number(path, name)),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_function_takes_an_address_from(holder: str, addressable: str) -> None:
    hold = HOLDERS[holder]
    kernel = opabi.c.function(
        hold(addressable, "run"),
        "int32[n] -> int32[?]",
        setup=hold(addressable, "setup"),
        name="triple",
        doc="Three times.",
        pure=True,
    )
    assert (kernel.name, kernel.__doc__, kernel.pure) == ("triple", "Three times.", True)
    np.testing.assert_array_equal(kernel(X), [3, 6, 3, 6])


def test_function_takes_a_cffi_callback_and_keeps_it() -> None:
    def run(call: Any) -> int:
        for s in range(call.n_samples):
            FFI.cast("int32_t *", call.outputs[s].data)[0] = 11
        return 0x600D

    kernel = opabi.c.function(FFI.callback("opabi_run_fn", run), "-> int32", takes_gil=True)
    gc.collect()
    assert kernel() == 11


def test_function_takes_a_ctypes_callback_and_keeps_it() -> None:
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    kernel = opabi.c.function(prototype(lambda call: 0x600D), "int32[n] ->", takes_gil=True)
    gc.collect()
    assert kernel(X) is None


def test_function_takes_a_numba_cfunc() -> None:
    numba = pytest.importorskip("numba")
    compiled = numba.cfunc("int32(voidptr)")(lambda call: 0x600D)
    assert opabi.c.function(compiled, "int32[n] ->")(X) is None


def test_function_whose_cffi_library_is_gone_still_works(tmp_path: Path, addressable: str) -> None:
    path = tmp_path / "gone.so"
    path.write_bytes(Path(addressable).read_bytes())
    library = FFI.dlopen(str(path))
    kernel = opabi.c.function(library.run, "int32[n] -> int32[n]")
    FFI.dlclose(library)
    del library
    gc.collect()
    np.testing.assert_array_equal(kernel(X), [3, 6])


def test_function_arguments_are_declared() -> None:
    gain = opabi.Argument("gain", "float32", 0, 2.0, "A factor.")
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    kernel = opabi.c.function(
        prototype(lambda call: 0x600D), "int32[n] ->", arguments=[gain], takes_gil=True
    )
    assert [argument.name for argument in kernel.arguments] == ["gain"]
    with pytest.raises(opabi.OpabiTypeError, match="gain"):
        kernel(X, gian=1.0)


@pytest.mark.parametrize(
    ("pointer", "kind"),
    [
        ("run", "str"),
        (None, "NoneType"),
        (True, "bool"),
        (1.5, "float"),
        (print, "builtin_function_or_method"),
        (lambda call: 0, "function"),
        (FFI.new("int[4]"), "_cffi_backend"),
        (FFI.new("int *"), "_cffi_backend"),
        (FFI, "FFI"),
        (ctypes.c_int(5), "ctypes.c_int"),
        (WithAddress("x"), "WithAddress"),  # type: ignore[arg-type]
    ],
)
def test_function_refuses_what_is_no_address_by_its_type(pointer: Any, kind: str) -> None:
    with pytest.raises(
        opabi.OpabiTypeError, match=f"run is of type .*{kind}.*expected the address"
    ):
        opabi.c.function(pointer, "int32[n] -> int32[n]")


def test_function_refuses_a_setup_that_is_no_address(addressable: str) -> None:
    with pytest.raises(opabi.OpabiTypeError, match="setup is of type str"):
        opabi.c.function(_number(addressable, "run"), "int32[n] -> int32[?]", setup="setup")


@pytest.mark.parametrize(
    "pointer",
    [
        0,
        -4096,
        np.int64(0),
        ctypes.c_void_p(None),
        FFI.cast("void *", 0),
        FFI.cast("opabi_run_fn", 0),
    ],
    ids=str,
)
def test_function_refuses_null(pointer: Any) -> None:
    with pytest.raises(opabi.OpabiValueError, match="no function"):
        opabi.c.function(pointer, "int32[n] -> int32[n]")


# ---- Build systems -------------------------------------------------------------------------------


def test_cflags_are_enough_to_build_a_kernel_library(tmp_path: Path) -> None:
    source, made = tmp_path / "plus.c", tmp_path / "plus.so"
    source.write_text(PLUS)
    command = ["cc", *opabi.c.cflags(), "-shared", str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    np.testing.assert_array_equal(opabi.load(made).plus(X), [2, 3])


def test_include_dir_has_the_headers() -> None:
    names = {path.name for path in (opabi.c.include_dir() / "opabi").iterdir()}
    assert {"opabi.h", "opabi.hpp"} <= names


@pytest.mark.parametrize("share", [0.1, 0.4, 0.6])
def test_load_of_a_library_that_is_cut_off_is_refused(tmp_path: Path, share: float) -> None:
    whole = Path(opabi.c.compile(PLUS, language="c").path).read_bytes()
    cut = tmp_path / "cut.so"
    cut.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(opabi.OpabiRuntimeError, match="is cut off"):
        opabi.c.load(cut)


def test_compile_with_a_damaged_library_in_the_cache_makes_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "plus.c"
    source.write_text(PLUS)
    built = c_build.build(c_build.read_source(source, None, None), (), None)
    built.write_bytes(built.read_bytes()[:5000])
    assert opabi.c.compile(source).plus(X).tolist() == [2, 3]


@pytest.mark.parametrize("name", ["a#b", "a$b", "a b", "a\tb", "\udcff", "é"], ids=ascii)
def test_header_in_a_folder_of_any_name_is_seen_to_change(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    header, source = folder / "n.h", folder / "plus.c"
    source.write_text('#include "n.h"\n' + PLUS)
    for number in (5, 6):
        header.write_text(f"#define PLUS {number}\n")
        os.utime(header, (number, number))
        assert opabi.c.compile(source).plus(X).tolist() == [1 + number, 2 + number]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("#!/bin/sh\nprintf '\\377\\376'; exit 3\n", "exit 3"),
        ("#!/bin/sh\nexit 0\n", "no file made.so was written"),
        ("\0\1", "could not start"),
    ],
    ids=["garbage", "writes nothing", "no program"],
)
def test_compiler_that_is_none_is_named(tmp_path: Path, script: str, text: str) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(script)
    compiler.chmod(0o755)
    with pytest.raises(opabi.OpabiRuntimeError, match=text):
        opabi.c.compile(PLUS, language="c", compiler=str(compiler))


@pytest.mark.parametrize(
    "options", [{"flags": "-O2"}, {"flags": [3]}, {"flags": None}, {"name": 3}], ids=str
)
def test_compile_with_options_of_another_type_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(opabi.OpabiTypeError, match=r"flags|name"):
        opabi.c.compile(PLUS, language="c", **options)


def test_compile_with_an_open_quote_in_the_compiler_is_refused() -> None:
    with pytest.raises(opabi.OpabiValueError, match="is no command"):
        opabi.c.compile(PLUS, language="c", compiler="'cc")


@pytest.mark.parametrize("source", ["\ud800.c", "a\0.c"], ids=ascii)
def test_compile_of_a_path_that_can_be_none_is_refused(source: str) -> None:
    with pytest.raises(opabi.OpabiValueError, match="cannot read"):
        opabi.c.compile(source)
