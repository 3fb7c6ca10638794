"""Finding or building the plugin for the DALI that is installed.

DALI's symbols carry its version, so a plugin serves one release. Released wheels carry a plugin for
each release they support; for any other, and in a source install, it is compiled once into the
user's cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from opabi._cache import cache_dir
from opabi.errors import OpabiRuntimeError

PLUGIN = "libopabi_dali.so"
OLDEST = (2, 2)
COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-D_GLIBCXX_USE_CXX11_ABI=1")
LINK_FLAGS = ("-shared", "-Wl,-z,now", "-Wl,-z,defs")
HOT = frozenset(
    {
        "arguments",
        "batch",
        "engine",
        "engine_cuda",
        "engine_run",
        "lane",
        "schedule",
        "setup_call",
        "signature",
    }
)
"""The files of the core that work for every batch. The rest is compiled with -O1: less to wait."""


class Dali(NamedTuple):
    """An installed DALI: where it is, and which."""

    root: Path
    version: str
    git_sha: str

    @property
    def release(self) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])

    @property
    def include(self) -> Path:
        """Its headers: in the package, or where Conda puts them."""
        packaged = self.root / "include"
        return packaged if (packaged / "dali").is_dir() else Path(sys.prefix) / "include"


def find_dali() -> Dali:
    """The DALI that ``import nvidia.dali`` gives, read without importing it."""
    try:
        spec = importlib.util.find_spec("nvidia.dali")
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise OpabiRuntimeError(
            "DALI is not installed, and a kernel met a pipeline. Install it with "
            "'pip install nvidia-dali-cuda120' (or -cuda130); it needs no GPU."
        )
    dali = read_dali(Path(spec.origin))
    if dali.release < OLDEST:
        raise OpabiRuntimeError(
            f"opabi's operator needs DALI {OLDEST[0]}.{OLDEST[1]} or later, found {dali.version}. "
            "Upgrade with 'pip install -U nvidia-dali-cuda120' (or -cuda130)."
        )
    return dali


def read_dali(init: Path) -> Dali:
    """What the file ``nvidia/dali/__init__.py`` of a DALI says."""
    text = init.read_text(encoding="utf-8")
    fields = {
        name: found.group(1)
        for name in ("__version__", "__git_sha__")
        if (found := re.search(rf"^{name}\s*=\s*'([^']*)'", text, re.MULTILINE))
    }
    if "__version__" not in fields:
        raise OpabiRuntimeError(
            f"{init} does not state DALI's version: is the installation complete?"
        )
    return Dali(init.parent, fields["__version__"], fields.get("__git_sha__", ""))


def native_root() -> Path:
    """The directory with ``include/`` and ``src/``: in the installed package, or the checkout."""
    package = Path(__file__).resolve().parents[1]
    for root in (package / "_native", package.parents[1]):
        if (root / "src" / "dali").is_dir() and (root / "include" / "opabi").is_dir():
            return root
    raise OpabiRuntimeError(
        f"the C++ sources of opabi are missing beside {package}: install it anew."
    )


def plan(dali: Dali) -> tuple[str, Path]:
    """Where the plugin for ``dali`` is or will be, after "prebuilt", "cached" or "to be built"."""
    prebuilt = Path(__file__).parent / "prebuilt" / dali.version / PLUGIN
    if prebuilt.is_file():
        return "prebuilt", prebuilt
    root = native_root()
    key = _key(dali, find_compiler(), root, _sources(root))
    target = cache_dir() / f"dali-{dali.version}-{key}" / PLUGIN
    return "cached" if target.is_file() else "to be built", target


def plugin_path() -> Path:
    """The plugin for the DALI that is installed: prebuilt, from the cache, or built now."""
    dali = find_dali()
    state, target = plan(dali)
    if state != "to be built":
        return target
    import filelock

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(target.parent / "lock"):
            if not target.is_file():
                build(dali, find_compiler(), target)
    except OSError as error:
        raise OpabiRuntimeError(
            f"opabi cannot write its cache {target.parent}: {error}. "
            "Set XDG_CACHE_HOME to a directory of yours."
        ) from error
    return target


def find_compiler() -> Path:
    """CXX, or the first C++ compiler on the PATH."""
    named = os.environ.get("CXX")
    for name in (named,) if named else COMPILERS:
        if found := shutil.which(name):
            return Path(found).resolve()
    raise OpabiRuntimeError(
        f"opabi has no prebuilt operator for this DALI, and {named or 'no C++ compiler'} was "
        f"{'not ' if named else ''}found to build it. Install g++ (Debian, Ubuntu: "
        "'apt install g++') or clang, or use a DALI release that opabi's wheel has a plugin for."
    )


def _sources(root: Path) -> list[str]:
    """What the plugin is made of, relative to ``root``."""
    folders = ("src/core", "src/cuda", "src/dali", "src/dali/stub", "include/opabi")
    return sorted(
        f"{folder}/{name}"
        for folder in folders
        for name in os.listdir(root / folder)
        if name.endswith((".cc", ".h", ".cuh"))
    )


def _key(dali: Dali, compiler: Path, root: Path, sources: Sequence[str]) -> str:
    state = compiler.stat()
    tools = (str(compiler), state.st_size, state.st_mtime_ns, FLAGS, LINK_FLAGS)
    digest = hashlib.sha256(repr((dali.version, dali.git_sha, tools)).encode())
    for path in sources:
        digest.update(f"\0{path}\0".encode())
        digest.update((root / path).read_bytes())
    return digest.hexdigest()[:16]


def build(dali: Dali, compiler: Path, target: Path) -> None:
    """Compiles the plugin for ``dali`` and moves it to ``target`` when it is whole."""
    import tempfile

    print(
        f"opabi: building its operator for DALI {dali.version}, once, in about 10 s ({target})",
        file=sys.stderr,
        flush=True,
    )
    root = native_root()
    with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent) as name:
        folder = Path(name)
        common = [str(compiler), *FLAGS, f"-I{root / 'include'}", f"-I{root / 'src'}"]
        common += ["-isystem", str(root / "src" / "dali" / "stub"), "-isystem", str(dali.include)]
        common += [f'-DOPABI_DALI_VERSION="{dali.version}"']
        units = _units(root, folder)
        objects = [unit.with_suffix(".o") for unit in units]
        _run_all(
            [
                [*common, *flags, "-c", str(unit), "-o", str(made)]
                for (unit, flags), made in zip(units.items(), objects, strict=True)
            ]
        )
        whole = folder / PLUGIN
        link = [str(compiler), *LINK_FLAGS, *map(str, objects), f"-L{dali.root}"]
        _run_all([[*link, "-lstdc++", "-ldali", "-o", str(whole)]])
        os.replace(whole, target)


def _units(root: Path, folder: Path) -> dict[Path, tuple[str, ...]]:
    """The sources as three files, with flags for each: shared headers are read once in a file."""
    core = sorted([*(root / "src" / "core").glob("*.cc"), *(root / "src" / "cuda").glob("*.cc")])
    parts = {
        "hot": ([path for path in core if path.stem in HOT], ()),
        "cold": ([path for path in core if path.stem not in HOT], ("-O1",)),
        "dali": (sorted((root / "src" / "dali").glob("*.cc")), ()),
    }
    units: dict[Path, tuple[str, ...]] = {}
    for name, (sources, flags) in parts.items():
        unit = folder / f"{name}.cc"
        unit.write_text("".join(f'#include "{source}"\n' for source in sources), encoding="utf-8")
        units[unit] = flags
    return units


def _run_all(commands: Sequence[Sequence[str]]) -> None:
    import subprocess

    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in commands
    ]
    outputs = [process.communicate()[0] for process in running]
    for command, process, output in zip(commands, running, outputs, strict=True):
        if process.returncode:
            raise OpabiRuntimeError(
                f"building opabi's operator failed (exit {process.returncode}). The command was\n"
                f"  {' '.join(command)}\nand the compiler said\n{output[-2000:]}"
            )
