# SPDX-License-Identifier: Apache-2.0
"""Shared libraries from C and C++ sources, by the system's compiler, cached.

A library's key is made of the source, the headers it included, the compiler and the flags. Which
headers those are, the compiler says when it first compiles the source; the list is kept beside.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from opabi import _abi
from opabi._cache import cache_dir
from opabi.errors import OpabiRuntimeError, OpabiTypeError, OpabiValueError

SUFFIXES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".cu": "cuda"}
_HOST_FLAGS = ("-O3", "-shared", "-fPIC", "-fvisibility=hidden")
COMMON_FLAGS = {
    "c": _HOST_FLAGS,
    "c++": _HOST_FLAGS,
    "cuda": ("-O3", "-shared", "-Xcompiler=-fPIC,-fvisibility=hidden"),
}
_ENDINGS = {"c": ".c", "c++": ".cc", "cuda": ".cu"}
_STANDARDS = {"c": "-std=gnu11", "c++": "-std=gnu++17", "cuda": "-std=c++17"}
_VARIABLES = {"c": "CC", "c++": "CXX", "cuda": "NVCC"}
_COMPILERS = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++"), "cuda": ("nvcc",)}
_X = {"c": "c", "c++": "c++", "cuda": "cu"}


@dataclasses.dataclass(frozen=True)
class Source:
    """A source to compile: a file of the user's, or text."""

    language: str
    text: bytes
    path: Path | None
    name: str

    @property
    def label(self) -> str:
        return str(self.path) if self.path else f"the {self.language} text {self.name!r}"


def read_source(source: str | os.PathLike[str], name: str | None, language: str | None) -> Source:
    """A path, or with ``language`` a str of source text."""
    if language is not None and language not in _STANDARDS:
        raise OpabiValueError(f"language is {language!r}; expected 'c' or 'c++'.")
    if isinstance(source, str) and language is not None:
        text = source.encode("utf-8", "surrogateescape")
        return Source(language, text, None, _file_name(name or "source"))
    if isinstance(source, str) and "\n" in source:
        raise OpabiValueError("source text needs its language: pass language='c' or 'c++'.")
    if not isinstance(source, (str, os.PathLike)):
        raise OpabiTypeError(
            f"expected the path of a source, or its text and language=, found "
            f"{type(source).__name__}."
        )
    path = Path(source).absolute()
    found = language or SUFFIXES.get(path.suffix)
    if found is None:
        raise OpabiValueError(
            f"{path} is no C or C++ source by its name; expected {', '.join(SUFFIXES)}. "
            "Rename it, or pass language='c' or 'c++' with the source's text."
        )
    try:
        text = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path that can be none
        why = error.strerror if isinstance(error, OSError) else error
        raise OpabiValueError(f"cannot read {str(path)!r}: {why}.") from error
    return Source(found, text, path, _file_name(name or path.stem))


def _file_name(name: str) -> str:
    if not isinstance(name, str):
        raise OpabiTypeError(f"name: expected a str, found {type(name).__name__}.")
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:100]


def find_compiler(language: str, compiler: str | Sequence[str] | None) -> tuple[str, ...]:
    """The command of a compiler: the one given, else CC or CXX, else one on the PATH."""
    variable = _VARIABLES[language]
    given = compiler or os.environ.get(variable)
    if not given:
        for name in _COMPILERS[language]:
            if path := shutil.which(name):
                return (path,)
        raise OpabiRuntimeError(
            f"no {language.upper()} compiler found: looked for {', '.join(_COMPILERS[language])} "
            "on the PATH. Install one (Debian, Ubuntu: 'apt install g++'; anywhere: "
            f"'pip install ziglang' and {variable}='python -m ziglang "
            f"{'cc' if language == 'c' else 'c++'}'), or set {variable}."
        )
    origin = "compiler=" if compiler else f"the environment variable {variable}, "
    try:
        command = tuple(shlex.split(given)) if isinstance(given, str) else tuple(given)
    except (TypeError, ValueError) as error:
        raise OpabiValueError(f"{origin}{given!r} is no command: {error}.") from error
    path = shutil.which(command[0]) if command else None
    if path is None:
        raise OpabiRuntimeError(f"the compiler of {origin}{given!r} is not on this machine.")
    return (path, *command[1:])


@functools.cache
def _version(command: tuple[str, ...], changed: int) -> str:
    """What the compiler says about itself. ``changed`` is its file's time, to ask again."""
    asked = _run([*command, "--version"])
    return asked.stdout + asked.stderr


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
    except (OSError, ValueError) as error:
        raise OpabiRuntimeError(f"could not start {shlex.join(command)}: {error}.") from error


def build(
    source: Source,
    flags: Sequence[str],
    compiler: str | Sequence[str] | None,
    *,
    anew: bool = False,
) -> Path:
    """The library made of ``source``, from the cache if it is there and not wanted ``anew``."""
    if not isinstance(flags, (list, tuple)) or not all(isinstance(flag, str) for flag in flags):
        raise OpabiTypeError(f"flags: expected a list of str, found {flags!r}.")
    command = find_compiler(source.language, compiler)
    common = COMMON_FLAGS[source.language]
    flags = (_STANDARDS[source.language], *common, f"-I{_abi.include_dir()}", *flags)
    version = _version(command, os.stat(command[0]).st_mtime_ns)
    key = _digest(source.language, source.text, source.path, command, version, flags)
    folder = _cache_dir()
    headers_file = folder / f"{source.name}-{key}.json"
    if (headers := _read_headers(headers_file)) is not None:
        library = folder / f"{source.name}-{_key_with_headers(key, headers)}.so"
        if library.is_file() and not anew:
            return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as place:
            return _compile(source, [*command, *flags], key, Path(place), headers_file)
    except OSError as error:
        raise OpabiRuntimeError(
            f"opabi cannot write its cache {folder}: {error}. "
            "Set XDG_CACHE_HOME to a directory of yours."
        ) from error


def _compile(source: Source, command: list[str], key: str, place: Path, headers_file: Path) -> Path:
    start = time.time_ns()
    file = source.path
    if file is None:
        file = place / f"{source.name}{_ENDINGS[source.language]}"
        file.write_bytes(source.text)
    made, dependencies = place / "made.so", place / "made.d"
    whole = [*command, "-MMD", "-MF", str(dependencies), "-o", str(made)]
    whole += ["-x", _X[source.language], str(file)]
    done = _run(whole)
    missing = [path.name for path in (made, dependencies) if not path.is_file()]
    if done.returncode or missing:
        fault = f"no file {missing[0]} was written" if missing and not done.returncode else "failed"
        raise OpabiRuntimeError(
            f"could not compile {source.label} ({fault}, exit {done.returncode}):\n"
            f"{done.stderr or done.stdout}\nThe command was\n  {shlex.join(whole)}"
        )
    headers = [path for path in _parse_dependencies(dependencies) if path != file]
    library = headers_file.parent / f"{source.name}-{_key_with_headers(key, headers)}.so"
    os.replace(made, library)
    if all(path.stat().st_mtime_ns < start for path in headers):  # else one changed under our hands
        listed = place / "headers.json"
        listed.write_text(json.dumps([str(path) for path in headers]), encoding="utf-8")
        os.replace(listed, headers_file)
    return library


def _parse_dependencies(file: Path) -> list[Path]:
    """The files in a makefile rule: "made.so: source.c header.h \\\\" and so on."""
    text = os.fsdecode(file.read_bytes()).replace("\\\n", " ")
    _, _, files = text.partition(": ")
    found = re.findall(r"(?:\\[ \t#]|\S)+", files)
    return [Path(re.sub(r"\\([ \t#])|\$(\$)", r"\1\2", path)).absolute() for path in found]


def _read_headers(file: Path) -> list[Path] | None:
    try:
        return [Path(path) for path in json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return None


def _key_with_headers(key: str, headers: Sequence[Path]) -> str:
    contents = [path.read_bytes() if path.is_file() else b"" for path in headers]
    return _digest(key, headers, contents)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


def _cache_dir() -> Path:
    return cache_dir() / "c"
