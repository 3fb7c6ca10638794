# SPDX-License-Identifier: Apache-2.0
"""What the standard quotes is what the header says, and frozen layouts stay."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spec_build", ROOT / "spec/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the header and the standard, to be changed."""
    shutil.copytree(ROOT / "include", tmp_path / "include")
    shutil.copytree(ROOT / "spec", tmp_path / "spec")
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def freeze(tree: Path) -> None:
    edit(tree / "spec/layout/1.0.json", '"frozen": false', '"frozen": true')


def test_spec_as_committed_agrees_with_the_header() -> None:
    command = [sys.executable, "spec/build.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_spec_that_is_edited_by_hand_is_noticed(build: ModuleType, tree: Path) -> None:
    edit(tree / "spec/opabi.md", "| 8 | 8 | `user_data`", "| 8 | 9 | `user_data`")
    assert build.drifted(tree) == [tree / "spec/opabi.md"]


def test_header_with_a_new_comment_changes_the_table(build: ModuleType, tree: Path) -> None:
    edit(tree / "include/opabi/opabi.h", "samples in the batch */", "how many in the batch */")
    assert build.drifted(tree) == [tree / "spec/opabi.md"]


def test_header_with_a_moved_field_is_refused(build: ModuleType, tree: Path) -> None:
    instance = "  void *instance;"
    edit(tree / "include/opabi/opabi.h", instance, "  void *other; /* 0 */\n" + instance)
    with pytest.raises(build.SpecError, match="bytes, it has"):
        build.outputs(tree)


def test_header_with_a_wrong_offset_in_a_comment_is_refused(build: ModuleType, tree: Path) -> None:
    edit(tree / "include/opabi/opabi.h", "/* 144 CUDA", "/* 143 CUDA")
    with pytest.raises(build.SpecError, match="stream: the header says offset 143, it is 144"):
        build.outputs(tree)


def test_spec_that_quotes_what_is_not_declared_is_refused(build: ModuleType, tree: Path) -> None:
    edit(tree / "spec/opabi.md", "<!-- layout:opabi_call -->", "<!-- layout:opabi_cell -->")
    with pytest.raises(build.SpecError, match="opabi_cell"):
        build.outputs(tree)


def test_frozen_layout_that_the_header_keeps_is_accepted(build: ModuleType, tree: Path) -> None:
    freeze(tree)
    assert build.drifted(tree) == []


def test_frozen_layout_that_the_header_breaks_is_refused(build: ModuleType, tree: Path) -> None:
    freeze(tree)
    edit(tree / "include/opabi/opabi.h", "OPABI_ERROR_ABI = 8", "OPABI_ERROR_ABI = 9")
    with pytest.raises(build.SpecError, match="OPABI_ERROR_ABI was 8, is 9"):
        build.outputs(tree)


def test_layout_that_grows_at_its_end_breaks_nothing(build: ModuleType) -> None:
    old = json.loads((ROOT / "spec/layout/1.0.json").read_text(encoding="utf-8"))
    new = copy.deepcopy(old)
    call = new["structs"]["opabi_call"]
    call["size"] = 208
    call["fields"]["ids"] = {"offset": 200, "size": 8, "type": "int64_t *"}
    assert build.breaks(old, new) == []
    assert build.breaks(new, old) == [
        "opabi_call had 208 bytes, has 200",
        "opabi_call.ids was {'offset': 200, 'size': 8, 'type': 'int64_t *'}, is gone",
    ]


def test_layout_that_grows_a_struct_without_a_size_is_broken(build: ModuleType) -> None:
    old = json.loads((ROOT / "spec/layout/1.0.json").read_text(encoding="utf-8"))
    new = copy.deepcopy(old)
    new["structs"]["opabi_tensor"]["size"] = 56
    assert build.breaks(old, new) == ["opabi_tensor had 48 bytes, has 56"]


def test_changelog_tells_of_the_version(build: ModuleType) -> None:
    header = build.read_header(ROOT / "include/opabi/opabi.h")
    changelog = (ROOT / "spec/CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(header.version)}\b", changelog, flags=re.M)
