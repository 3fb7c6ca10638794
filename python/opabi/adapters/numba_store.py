# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels on disk, one file for each kernel and combination of types.

Numba's own cache is not used, for two reasons that were measured. Code that two processes cached
under one function name can clash when a third loads both: it then runs the wrong one, silently
(numba#10486). And before it looks for anything it loads all of Numba's type and lowering tables,
half a second. Here the machine code of each kernel lies in an object file of its own, made from the
LLVM text that
``CFunc.inspect_llvm`` gives, and is loaded by llvmlite with its names apart from all others.

A file's name has the digest of everything that the code depends on, so what is found is never
stale. It appears by a rename, complete or not at all; processes that write it at once write the
same.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import json
import os
import re
import struct
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from opabi._cache import cache_dir

_MAGIC = b"opabi numba 1\n"
_ENTRY = "cfunc."  # how Numba begins the names of the functions that C can call
# Numba's reference counting calls these at zero. Code without any allocation never gets there, but
# names them; it then need not wait for Numba's runtime.
_FREES = frozenset({"NRT_MemInfo_call_dtor", "NRT_Free"})
_engines: list[Any] = []  # they own the code, which lives as long as the process


def compile_objects(texts: Mapping[str, str]) -> dict[str, bytes] | None:
    """Machine code from the LLVM texts of cfuncs, or None if one cannot leave this process."""
    objects = {}
    for name, text in texts.items():
        code = _compile_object(text)
        if code is None:
            return None
        objects[name] = code
    return objects


def _compile_object(text: str) -> bytes | None:
    """Machine code from the LLVM text of a cfunc, or None if it is of use in this process only."""
    if _holds_addresses(text) or _needs_environment(text):
        return None
    module = llvm.parse_assembly(text)
    needed = {f.name for f in module.functions if f.is_declaration and f.name.startswith("NRT_")}
    if needed and needed <= _FREES:
        module.link_in(llvm.parse_assembly(_no_ops(needed)))
    module.verify()
    return _target_machine().emit_object(module)  # type: ignore[no-any-return]


def load_object(code: bytes) -> int | None:
    """The address of the cfunc in ``code``, or None if it needs a name that this process lacks."""
    symbols = list(_symbols(code))
    _make_helpers_known()
    needed = [name for name, defined in symbols if name and not defined]
    if not _all_known(needed):
        _start_runtime()
        if not _all_known(needed):
            return None
    entry = next(name for name, defined in symbols if defined and name.startswith(_ENTRY))
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(entry))


def read(path: Path) -> dict[str, bytes] | None:
    """The objects that ``write`` stored, or None if there is no whole file."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head, _, rest = data.removeprefix(_MAGIC).partition(b"\n")
    if not data.startswith(_MAGIC) or head != hashlib.sha256(rest).hexdigest().encode():
        return None
    line, _, body = rest.partition(b"\n")
    objects, begin = {}, 0
    for name, size in json.loads(line).items():
        objects[name] = body[begin : begin + size]
        begin += size
    return objects


def write(path: Path, objects: Mapping[str, bytes]) -> None:
    """Stores them. A folder that cannot be written is no error: the code is then compiled anew."""
    line = json.dumps({name: len(code) for name, code in objects.items()})
    rest = line.encode() + b"\n" + b"".join(objects.values())
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".new")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)
        os.replace(temporary, path)


def folder() -> Path:
    return cache_dir() / "numba"


def machine() -> tuple[str, str, str]:
    """What the code is made for."""
    return (
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )


def _holds_addresses(text: str) -> bool:
    """Whether something is baked in by its address, such as a ctypes function."""
    return "numba.dynamic.globals" in text or bool(re.search(r"inttoptr \(i64 \d{5,}", text))


def _needs_environment(text: str) -> bool:
    """Whether it uses Python objects that Numba keeps in this process, as print does.

    Exceptions with arguments use them too, but where they become Python objects, and a wrapper that
    catches all exceptions never gets there.
    """
    text = re.sub(
        r"^define [^\n]*@__excinfo_unwrap_args.*?^}", "", text, flags=re.DOTALL | re.MULTILINE
    )
    environments = collections.Counter(re.findall(r'@"?_ZN08NumbaEnv[^"\s,)]+', text))
    return any(uses > 1 for uses in environments.values())  # more than its definition


def _target_machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    _, cpu, features = machine()
    target = llvm.Target.from_default_triple()
    # "large": the code may lie anywhere, far from the functions it calls.
    return target.create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="static", codemodel="large"
    )


def _no_ops(names: set[str]) -> str:
    module = ir.Module()
    for name in sorted(names):
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
        ir.IRBuilder(ir.Function(module, kind, name).append_basic_block()).ret_void()
    return str(module)


def _all_known(names: list[str]) -> bool:
    return all(llvm.address_of_symbol(name) for name in names)


@functools.cache
def _make_helpers_known() -> None:
    """The first dispatcher made tells LLVM where Numba's helpers are; it compiles nothing."""
    import numba

    numba.njit(lambda: None)


@functools.cache
def _start_runtime() -> None:
    """The first compilation starts Numba's runtime, which allocates arrays. Half a second."""
    import numba

    numba.njit("void()")(lambda: None)


def _symbols(elf: bytes) -> Iterator[tuple[str, bool]]:
    """The names in the symbol table of a 64-bit ELF object, and whether it defines them."""
    (sections_at,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, _ = struct.unpack_from("<HHH", elf, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", elf, sections_at + i * size) for i in range(count)
    ]
    for _, kind, _, _, at, length, link, *_ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        names_at = sections[link][4]
        for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", elf[at : at + length]):
            begin = names_at + name
            yield elf[begin : elf.index(b"\0", begin)].decode(), section != 0
