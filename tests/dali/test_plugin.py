# SPDX-License-Identifier: Apache-2.0
"""The plugin: found or built, once, for this DALI; loaded once or from several paths."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvidia.dali import fn, plugin_manager
from opabi.dali import build
from opabi.errors import OpabiRuntimeError
from pipelines import feed, run, same

RUN = """
import sys
from nvidia.dali import fn, pipeline_def, plugin_manager
if len(sys.argv) > 2: plugin_manager.load_library(sys.argv[2])
import ctypes, opabi
from opabi.dali.plugin import plugin
library = opabi.load(sys.argv[1])
kernel = opabi.c.function(ctypes.CDLL(library.path).any_run, "T[...] -> T[...]")
@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def pipe():
    return kernel(fn.random.uniform(values=[4.0]))
p = pipe()
p.build()
print(p.run()[0].as_array().tolist(), plugin().path)
"""


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, *arguments]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


# ---- Building


def test_first_use_in_two_processes_builds_once(addresses: Any, tmp_path: Path) -> None:
    processes = [start(addresses._name, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2)]
    outputs = [process.communicate(timeout=280) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert sorted(err.count("building its operator") for _, err in outputs) == [0, 1]
    (library,) = tmp_path.rglob(build.PLUGIN)
    assert {out.strip() for out, _ in outputs} == {f"[4.0, 4.0] {library}"}
    assert [path.name for path in library.parent.iterdir() if path.is_dir()] == []


def fake_dali(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    (folder / "__init__.py").write_text(textwrap.dedent(text))
    spec = SimpleNamespace(origin=str(folder / "__init__.py"))
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: spec)


def test_dali_is_found_without_importing_it() -> None:
    command = (
        "import sys; from opabi.dali import build; build.find_dali(); "
        "print('nvidia.dali' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True, env=env
    )
    assert found.stdout.strip() == "False"


def test_dali_that_is_found_is_the_one_that_is_imported() -> None:
    import nvidia.dali

    dali = build.find_dali()
    assert (dali.version, dali.git_sha) == (nvidia.dali.__version__, nvidia.dali.__git_sha__)
    assert dali.root == Path(nvidia.dali.__file__).parent


def test_dali_that_is_missing_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OpabiRuntimeError, match="pip install nvidia-dali-cuda120"):
        build.plugin_path()


def test_dali_that_is_too_old_is_refused_with_both_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_dali(monkeypatch, tmp_path, "__version__ = '1.53.0'\n__git_sha__ = 'x'\n")
    with pytest.raises(OpabiRuntimeError, match=r"needs DALI 2\.2 or later, found 1\.53\.0"):
        build.plugin_path()


def test_prebuilt_plugin_of_the_version_is_preferred(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "__file__", str(tmp_path / "build.py"))
    prebuilt = tmp_path / "prebuilt" / build.find_dali().version / build.PLUGIN
    prebuilt.parent.mkdir(parents=True)
    prebuilt.touch()
    assert build.plugin_path() == prebuilt


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path / "cache"


def test_machine_without_a_compiler_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, empty_cache: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OpabiRuntimeError, match=r"no C\+\+ compiler was found.*apt install g\+\+"):
        build.plugin_path()


def test_compiler_that_is_named_and_missing_is_named_again(
    monkeypatch: pytest.MonkeyPatch, empty_cache: Path
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(OpabiRuntimeError, match="no-such-compiler was not found"):
        build.plugin_path()


def test_compiler_that_fails_has_its_words_shown_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, empty_cache: Path, tmp_path: Path
) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho 'error: no such header'\nexit 3\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(OpabiRuntimeError, match=r"(?s)exit 3.*error: no such header"):
        build.plugin_path()
    assert not list(empty_cache.rglob("*.so"))
    assert not list(empty_cache.rglob("build-*"))


def test_cache_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, empty_cache: Path, tmp_path: Path
) -> None:
    empty_cache.write_text("a file where the folder should be")
    with pytest.raises(OpabiRuntimeError, match=r"cannot write its cache.*XDG_CACHE_HOME"):
        build.plugin_path()


@pytest.mark.parametrize("change", ["version", "git_sha", "compiler"])
def test_cache_key_changes_with_what_the_plugin_depends_on(tmp_path: Path, change: str) -> None:
    dali, root = build.Dali(tmp_path, "2.4.0", "abc"), build.native_root()
    compiler = tmp_path / "g++"
    compiler.write_text("one")
    before = build._key(dali, compiler, root, [])
    assert before == build._key(dali, compiler, root, [])
    if change == "version":
        dali = build.Dali(tmp_path, "2.4.1", "abc")
    elif change == "git_sha":
        dali = build.Dali(tmp_path, "2.4.0", "abd")
    else:
        compiler.write_text("another")
    assert before != build._key(dali, compiler, root, [])


def test_cache_key_changes_with_the_sources(tmp_path: Path) -> None:
    source = tmp_path / "a.cc"
    source.write_text("int a;")
    dali, compiler = build.Dali(tmp_path, "2.4.0", "abc"), Path(sys.executable)
    before = build._key(dali, compiler, tmp_path, [source])
    source.write_text("int b;")
    assert before != build._key(dali, compiler, tmp_path, [source])


# ---- Loading


def test_plugin_loaded_again_from_another_path_is_harmless(
    plugin: Any, c_kernels: Any, tmp_path: Path
) -> None:
    copied = shutil.copy(plugin.path, tmp_path / "libcopied.so")
    plugin_manager.load_library(str(copied))
    plugin_manager.load_library(plugin.path)
    found = run(
        lambda: fn.opabi.call(feed([7]), library=c_kernels.path, symbol="identity"), batch_size=1
    )
    assert same(found, [7])


def test_plugin_that_somebody_loaded_before_serves(
    plugin: Any, addresses: Any, tmp_path: Path
) -> None:
    copied = shutil.copy(plugin.path, tmp_path / "libcopied.so")
    process = start(addresses._name, str(copied))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.strip() == f"[4.0, 4.0] {copied}"


def test_plugin_refuses_a_descriptor_and_drops_its_owner(plugin: Any) -> None:
    import ctypes

    dropped: list[int] = []
    drop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(dropped.append)
    wrong = ctypes.create_string_buffer(200)
    with pytest.raises(ValueError, match="OPABI-D-002"):
        plugin._add(ctypes.addressof(wrong), 17, ctypes.cast(drop, ctypes.c_void_p).value)
    assert dropped == [17]


def test_forgetting_an_unknown_handle_is_harmless(plugin: Any) -> None:
    plugin.forget(12345)


def test_schema_has_documentation_and_hides_what_is_internal(plugin: Any) -> None:
    assert "library" in fn.opabi.call.__doc__
    assert "_plugin" not in fn.opabi.call.__doc__
