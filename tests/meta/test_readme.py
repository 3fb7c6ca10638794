# SPDX-License-Identifier: Apache-2.0
"""The snippets of README.md and docs/ run as they stand: a page's C blocks are files, its Python
blocks a script.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"^// (\w+\.\w+)$", re.MULTILINE)


def _blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def _needs(script: str) -> list[str]:
    packages = {
        "opabi.numba": "numba",
        "import numba": "numba",
        "nvidia.dali": "nvidia.dali",
        "cffi": "cffi",
        "cupy": "cupy",
    }
    return [package for word, package in packages.items() if word in script]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_snippets_run_as_they_stand(page: Path, tmp_path: Path) -> None:
    script = []
    for language, text in _blocks(page):
        if language in ("c", "cpp"):
            name = FILE_NAME.match(text)
            assert name, (
                f"{page.name}: a C block begins with a comment that names its file:\n{text}"
            )
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
        elif language == "python":
            script.append(text)
    if not script:
        pytest.skip(f"{page.name} has no Python snippets")
    source = "\n".join(script)
    for package in _needs(source):
        pytest.importorskip(package)
    (tmp_path / "snippets.py").write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "snippets.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, f"{page.name}:\n{done.stdout}\n{done.stderr}"


def test_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 180


def test_pages_link_only_to_what_is_there() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
