# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels on disk: found by other processes, never stale, never mixed up."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import opabi
import pytest
from opabi.adapters import numba_specialize, numba_store
from opabi.adapters.numba_digest import Digest, NoDigestError

CONSTANT = 3
TABLE = np.arange(4)
helpers = types.ModuleType("helpers")
compiled: list[int] = []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of its own, and a count of what is compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled.clear()
    make = numba_specialize.Specializer._compile

    def counted(self: Any, *args: Any) -> Any:
        compiled.append(1)
        return make(self, *args)

    monkeypatch.setattr(numba_specialize.Specializer, "_compile", counted)
    return tmp_path / "opabi" / "numba"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def add(amount: int) -> Any:
    @opabi.numba.kernel("int64[n] -> int64[n]")
    def added(x, out):
        for i in range(x.size):
            out[i] = x[i] + amount

    return added


X = np.array([10])


# ---- Other processes -----------------------------------------------------------------------------

SCRIPT = """
import sys
import numba
import numpy as np
import opabi
from opabi.adapters import numba_specialize

if sys.argv[1] == "warm":
    def refuse(*_):
        raise AssertionError("compiled")
    numba_specialize.Specializer._compile = refuse

@numba.njit
def scale(value):
    return value * {factor}

@opabi.numba.kernel("float32[n] -> float32[?]", setup=lambda x, *, k: x[0] + k)
def scaled(x, out, *, k=1):
    out[:] = 0
    for i in range(x.size):
        if x[i] < 0:
            raise ValueError("negative")
        out[i] = scale(x[i])

print(scaled(np.array([1, 2], np.float32)).tolist())
try:
    scaled(np.array([-1], np.float32))
except opabi.OpabiValueError as error:
    print("negative" in str(error))
"""


def run(tmp_path: Path, mode: str, factor: float = 2.0) -> list[str]:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.format(factor=factor)))
    return processes([script], tmp_path, mode)[0]


def processes(scripts: list[Path], tmp_path: Path, mode: str) -> list[list[str]]:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    environment["PYTHONPATH"] = str(Path(opabi.__file__).parents[1])
    running = [
        subprocess.Popen(
            [sys.executable, str(script), mode],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for script in scripts
    ]
    found = []
    for process in running:
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
        found.append(out.splitlines())
    return found


def test_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "cold") == ["[2.0, 4.0, 0.0]", "True"]
    assert run(tmp_path, "warm") == ["[2.0, 4.0, 0.0]", "True"]


def test_tables_of_numba_are_not_loaded_by_a_run_that_succeeds(tmp_path: Path) -> None:
    script = tmp_path / "quick.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, numba, numpy as np, opabi
            @opabi.numba.kernel("uint8[h,w] -> uint8[h,w]")
            def invert(x, out):
                for i in range(x.size):
                    out.flat[i] = 255 - x.flat[i]
            assert invert(np.zeros((2, 2), np.uint8)).tolist() == [[255, 255]] * 2
            print("numba.np.linalg" in sys.modules)
            """
        )
    )
    assert processes([script], tmp_path, "")[0] == ["True"]
    assert processes([script], tmp_path, "")[0] == ["False"]


def test_processes_that_compile_at_once_agree(tmp_path: Path) -> None:
    scripts = []
    for k in range(3):
        scripts.append(tmp_path / f"script{k}.py")
        scripts[-1].write_text(textwrap.dedent(SCRIPT.format(factor=2.0)))
    for found in processes(scripts, tmp_path, "cold"):
        assert found[0] == "[2.0, 4.0, 0.0]"
    assert [path.suffix for path in files(tmp_path / "opabi" / "numba")] == [".obj"]
    assert run(tmp_path, "warm")[0] == "[2.0, 4.0, 0.0]"


def test_changed_helper_is_compiled_anew(tmp_path: Path) -> None:
    assert run(tmp_path, "cold", 2.0)[0] == "[2.0, 4.0, 0.0]"
    assert run(tmp_path, "cold", 3.0)[0] == "[3.0, 6.0, 0.0]"
    assert len(files(tmp_path / "opabi" / "numba")) == 2


CLASH = """
import sys
import numba
import numpy as np
import opabi

def make(k):
    @numba.njit
    def helper(n):
        total = 0.0
        for i in range(n):
            for j in range(i):
                if (i * j) % 3 == 0:
                    total += np.sin(i * k) * np.cos(j)
                elif (i * j) % 5 == 1:
                    total -= np.exp(-i) + k
                else:
                    total += k * np.log(1 + i)
        return total

    @opabi.numba.kernel("int64[n] -> float64[n]")
    def kernel(x, out):
        for i in range(x.size):
            out[i] = helper(x[i]) + helper(x[i] + 1) + helper(2 * x[i])
    return kernel

for k in sys.argv[1].split(","):
    print(k, repr(float(make(float(k))(np.array([9]))[0])))
"""


def test_like_named_helpers_of_two_processes_stay_apart_in_a_third(tmp_path: Path) -> None:
    script = tmp_path / "clash.py"
    script.write_text(CLASH)
    alone = [processes([script], tmp_path, k)[0][0] for k in ("1", "2")]
    assert alone[0].split()[1] != alone[1].split()[1]
    assert len(files(tmp_path / "opabi" / "numba")) == 2
    assert processes([script], tmp_path, "1,2")[0] == alone
    assert processes([script], tmp_path, "2,1")[0] == alone[::-1]


# ---- One process ---------------------------------------------------------------------------------


def test_equal_kernels_are_compiled_once(folder: Path) -> None:
    assert add(1)(X).tolist() == [11]
    assert add(1)(X).tolist() == [11]
    assert len(compiled) == len(files(folder)) == 1


def test_unlike_closures_are_compiled_apart(folder: Path) -> None:
    assert (add(1)(X).tolist(), add(2)(X).tolist()) == ([11], [12])
    assert len(compiled) == len(files(folder)) == 2


def test_cache_false_stores_nothing(folder: Path) -> None:
    @opabi.numba.kernel("int64[n] -> int64[n]", cache=False)
    def same(x, out):
        out[:] = x

    assert same(X).tolist() == [10]
    assert files(folder) == []


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_damaged_file_is_replaced(folder: Path, damage: bytes | None) -> None:
    add(1)(X)
    path = files(folder)[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if damage is None else damage)
    assert add(1)(X).tolist() == [11]
    assert len(compiled) == 2
    assert numba_store.read(path) is not None


def test_folder_that_cannot_be_made_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert add(5)(X).tolist() == [15]


def test_kernel_with_an_address_of_this_process_is_not_stored(folder: Path) -> None:
    import ctypes

    callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda value: value + 7)

    @opabi.numba.kernel("int64[n] -> int64[n]")
    def called(x, out):
        out[0] = callback(x[0])

    assert called(X).tolist() == [17]
    assert files(folder) == []


def test_kernel_that_needs_python_objects_is_not_stored(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    @opabi.numba.kernel("int64[n] -> int64[n]")
    def printed(x, out):
        print("value", x[0])
        out[:] = x

    assert printed(X).tolist() == [10]
    assert "value 10" in capfd.readouterr().out


def test_functions_without_source_are_stored_by_their_code(folder: Path) -> None:
    for amount in (1, 2, 1):
        scope: dict[str, Any] = {}
        exec(f"def f(x, out):\n    out[:] = x + {amount}", scope)
        assert opabi.numba.kernel("int64[n] -> int64[n]")(scope["f"])(X).tolist() == [10 + amount]
    assert len(compiled) == len(files(folder)) == 2


# ---- The digest ----------------------------------------------------------------------------------


@numba.njit
def helper(value):
    return value + CONSTANT


def user(x, out):
    out[0] = helper(x[0]) + TABLE[1]


def user_of_module(x, out):
    out[0] = helpers.inner(x[0])


def digest(function: Callable[..., Any]) -> str:
    made = Digest()
    made.function(function)
    return made.hex()


def test_digest_is_the_same_each_time() -> None:
    assert digest(user) == digest(user)


def test_digest_follows_a_helpers_global(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(user)
    monkeypatch.setattr(sys.modules[__name__], "CONSTANT", 4)
    assert digest(user) != before


def test_digest_follows_a_global_array(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(user)
    monkeypatch.setattr(sys.modules[__name__], "TABLE", np.arange(4)[::-1])
    assert digest(user) != before


def test_digest_follows_functions_of_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for amount in (1, 2, 1):
        scope: dict[str, Any] = {}
        exec(f"def inner(value):\n    return value + {amount}", scope)
        monkeypatch.setattr(helpers, "inner", numba.njit(scope["inner"]), raising=False)
        found.append(digest(user_of_module))
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x[0] + 1", "x[0] + 2"),
        ("x[0] + 1", "x[0] + 1.0"),
        ("x[0] + 0.0", "x[0] + -0.0"),
        ("x[0] + 1", "x[0] - 1"),
        ("x.size", "x.ndim"),
        ("'ab'", "'ac'"),
        ("(1, 2)", "(12,)"),
        ("x[0] in {1, 2}", "x[0] in {1, 3}"),
        ("(lambda: 1)()", "(lambda: 2)()"),
        ("np.sin(x[0])", "np.cos(x[0])"),
        ("math.sin(x[0])", "np.sin(x[0])"),
        ("True", "1"),
    ],
)
def test_digests_tell_code_apart(one: str, other: str) -> None:
    import math

    found = []
    for text in (one, other, one):
        scope: dict[str, Any] = {"np": np, "math": math}
        exec(f"def f(x, out):\n    out[0] = {text}", scope)
        found.append(digest(scope["f"]))
    assert found[0] == found[2] != found[1]


def test_digest_of_functions_that_call_each_other_ends() -> None:
    scope: dict[str, Any] = {"njit": numba.njit}
    text = """
@njit
def even(n):
    return n == 0 or odd(n - 1)
@njit
def odd(n):
    return n != 0 and even(n - 1)
def f(x, out):
    out[0] = even(x[0])
"""
    exec(text, scope)
    assert digest(scope["f"]) == digest(scope["f"])


@pytest.mark.parametrize(
    "value", [[1], {"a": 1}, object(), len, Path, np.zeros(2_000_000), np.array([None]), digest]
)
def test_digest_of_what_cannot_be_told_is_refused(value: Any) -> None:
    scope: dict[str, Any] = {"value": value}
    exec("def f(x, out):\n    out[0] = value(x)", scope)
    if value is len:
        assert digest(scope["f"])
        return
    with pytest.raises(NoDigestError):
        digest(scope["f"])
