# SPDX-License-Identifier: Apache-2.0
"""The command line, as a user has it: in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import opabi
import pytest

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from opabi.cli import app
app(prog_name="opabi")
"""


def run(
    *arguments: str, absent: tuple[str, ...] = (), cwd: Path | None = None
) -> tuple[int, str, str]:
    """Exit code, output and errors of ``opabi ARGUMENTS``, where ``absent`` is not installed."""
    start = ("-c", WITHOUT.format(absent=absent)) if absent else ("-m", "opabi")
    done = subprocess.run(
        [sys.executable, *start, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=200,
    )
    return done.returncode, done.stdout, done.stderr


def row(report: str, title: str) -> str:
    """What ``opabi info`` says beside a title."""
    lines = [line.strip() for line in report.splitlines()]
    found = [line.removeprefix(title).strip() for line in lines if line.startswith(f"{title} ")]
    assert len(found) == 1, f"{title} stands {len(found)} times in\n{report}"
    return found[0]


def test_version_asked_is_told() -> None:
    assert run("--version") == (0, f"opabi {opabi.__version__}\n", "")


def test_help_names_the_commands() -> None:
    code, output, _ = run("--help")
    assert code == 0
    assert "demo" in output
    assert "info" in output


def test_command_unknown_is_a_usage_error() -> None:
    code, _, errors = run("frobnicate")
    assert code == 2
    assert "frobnicate" in errors
    assert "Traceback" not in errors


# ---- info ----------------------------------------------------------------------------------------


def test_info_with_everything_tells_versions_and_places() -> None:
    dali = pytest.importorskip("nvidia.dali")
    numba = pytest.importorskip("numba")
    code, output, errors = run("info")
    assert (code, errors) == (0, "")
    assert row(output, "opabi") == f"{opabi.__version__}, ABI 1.0"
    assert row(output, "Numba") == numba.__version__
    assert row(output, "DALI").startswith(f"{dali.__version__}, git {dali.__git_sha__}")
    assert row(output, "opabi's operator").split()[0] in ("prebuilt", "cached", "to")
    assert row(output, "opabi.numba") == "ready"
    assert "libopabi_dali.so" in output.replace("\n", "").replace(" ", "")


def test_info_without_packages_tells_how_to_get_them() -> None:
    code, output, errors = run("info", absent=("nvidia", "nvidia.dali", "numba"))
    assert (code, errors) == (0, "")
    assert row(output, "DALI") == "not found; get it with: pip install nvidia-dali-cuda120"
    assert row(output, "Numba") == "not found; get it with: pip install numba"
    assert row(output, "opabi.numba") == "needs Numba; get it with: pip install numba"
    assert row(output, "opabi.load") == "ready"


def test_info_without_compilers_tells_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    code, output, errors = run("info")
    assert (code, errors) == (0, "")
    for title in ("C compiler", "C++ compiler"):
        assert row(output, title) == "not found; get it with: apt install g++"


def test_info_with_an_old_dali_says_which_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "nvidia" / "dali"
    package.mkdir(parents=True)
    (tmp_path / "nvidia" / "__init__.py").touch()
    (package / "__init__.py").write_text("__version__ = '1.53.0'\n__git_sha__ = 'abc'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    code, output, _ = run("info")
    assert code == 0
    assert "needs DALI 2.2 or later, found 1.53.0" in " ".join(output.split())


# ---- demo ----------------------------------------------------------------------------------------


def test_demo_quick_makes_a_picture_and_a_table(tmp_path: Path) -> None:
    for package in ("nvidia.dali", "numba", "PIL", "matplotlib", "sklearn"):
        pytest.importorskip(package)
    import numpy as np
    from PIL import Image

    code, output, errors = run("demo", "--quick", "--output", "sheet.png", cwd=tmp_path)
    assert code == 0, errors
    assert str(tmp_path / "sheet.png") in output
    for way in (
        "opabi, kernel in C",
        "opabi, kernel in Numba",
        "numba_function",
        "python_function",
    ):
        assert way in output
    pixels = np.asarray(Image.open(tmp_path / "sheet.png"))
    height, width, channels = pixels.shape
    assert channels == 3
    assert 1000 < height < 3000
    assert 1000 < width < 3000
    rows = np.array_split(pixels, 4)
    assert all(part.reshape(-1, 3).std(axis=0).min() > 20 for part in rows)


def test_demo_mixed_labels_agree_with_the_pictures() -> None:
    for package in ("nvidia.dali", "numba", "matplotlib", "sklearn"):
        pytest.importorskip(package)
    from opabi.demo import pipeline

    for sample in pipeline.run():
        kept = (sample["mixed"] == sample["printed"]).all(axis=2).mean()
        own = float(sample["mixed_label"][sample["labels"].argmax()])
        assert sample["mixed_label"].sum() == pytest.approx(1, abs=1e-5)
        assert own == pytest.approx(kept, abs=0.05) or own == pytest.approx(1)


def test_demo_without_packages_says_how_to_get_them() -> None:
    code, output, errors = run("demo", absent=("nvidia", "nvidia.dali", "numba"))
    assert code == 1
    assert output == ""
    assert errors.startswith("opabi: the demo needs DALI, Numba")
    assert "pip install nvidia-dali-cuda120 numba" in errors
    assert "Traceback" not in errors


def test_demo_output_in_no_folder_fails_cleanly(tmp_path: Path) -> None:
    pytest.importorskip("nvidia.dali")
    pytest.importorskip("numba")
    missing = tmp_path / "missing"
    code, _, errors = run("demo", "--output", str(missing / "sheet.png"))
    assert code == 1
    assert f"there is no folder {missing}" in errors.replace("\n", "")
    assert "Traceback" not in errors


def test_debug_shows_where_an_error_comes_from() -> None:
    code, _, errors = run("--debug", "demo", absent=("nvidia", "nvidia.dali", "numba"))
    assert code == 1
    assert "Traceback" in errors
    assert "OpabiRuntimeError" in errors
