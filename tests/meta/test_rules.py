# SPDX-License-Identifier: Apache-2.0
"""spec/rules.toml against the header, the standard, the sources and the tests that it names."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
ID = re.compile(r"OPABI-[A-Z]+-\d+")
WHO = {"D": {"descriptor"}, "K": {"kernel"}, "H": {"host"}, "S": {"signature"}}
LEVELS = {"MUST", "SHOULD", "MAY"}
KEYS = {"id", "who", "level", "text", "rationale", "since", "tests", "untestable", "awaits"}
TEXTS = {".c", ".cc", ".cu", ".f90", ".h", ".hpp", ".md", ".py", ".rs", ".toml", ".zig"}

with open(ROOT / "spec/rules.toml", "rb") as file:
    RULES: list[dict[str, Any]] = tomllib.load(file)["rule"]
BY_ID = {rule["id"]: rule for rule in RULES}

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["id"])


def texts_of(*folders: str) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        place = ROOT / folder
        for path in sorted([place] if place.is_file() else place.rglob("*")):
            if path.is_file() and path.suffix in TEXTS:
                yield path, path.read_text(encoding="utf-8")


def missing_test(name: str) -> str:
    """Why ``tests/x.py::test_y`` is no test of the tree, or ``""``."""
    path, _, case = name.partition("::")
    file = ROOT / path
    if not path.startswith("tests/") or not case:
        return "expected tests/FILE::NAME"
    if not file.is_file():
        return "there is no such file"
    case = case.split("::")[-1]
    if file.suffix == ".py":
        pattern = rf"^\s*def {re.escape(case)}\("
    else:
        pattern = rf'TEST_CASE(?:_\w+)?\(\s*"{re.escape(case)}"'
    found = re.search(pattern, file.read_text(encoding="utf-8"), flags=re.M)
    return "" if found else f"the file has no {case}"


def table_in(source: str) -> dict[str, str]:
    """The rules in the comment at the top of a source file, on one line each."""
    comment = (ROOT / source).read_text(encoding="utf-8").split("#include")[0]
    lines = [line.removeprefix("//").rstrip() for line in comment.splitlines()]
    table: dict[str, str] = {}
    last = ""
    for line in lines:
        start = re.match(r" {3}(OPABI-\w-\d{3})  (.*)", line)
        if start:
            last = start[1]
            table[last] = start[2]
        elif last and line.startswith(" " * 16):
            table[last] += " " + line.strip()
        else:
            last = ""
    return {rule: text.replace("`", "") for rule, text in table.items()}


def test_rules_ids_are_unique() -> None:
    twice = [rule for rule, n in Counter(rule["id"] for rule in RULES).items() if n > 1]
    assert not twice


@each_rule
def test_rule_is_well_formed(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"OPABI-[DKHS]-\d{3}", rule["id"])
    assert set(rule) <= KEYS, f"unknown keys {set(rule) - KEYS}"
    assert rule["who"] in WHO[rule["id"][6]]
    assert rule["level"] in LEVELS
    assert re.search(rf"\b{rule['level']}\b", rule["text"]), "the level's word is missing"
    assert re.fullmatch(r"\d+\.\d+", rule["since"])
    for key in ("text", "rationale"):
        assert rule[key].endswith("."), f"{key} is no sentence"


@each_rule
def test_rule_is_told_in_the_standard(rule: dict[str, Any]) -> None:
    assert rule["id"] in (ROOT / "spec/opabi.md").read_text(encoding="utf-8")


@each_rule
def test_rule_has_tests_or_says_why_not(rule: dict[str, Any]) -> None:
    ways = [key for key in ("tests", "untestable", "awaits") if rule.get(key)]
    assert len(ways) <= 1, f"more than one of {ways}"
    assert ways or rule["level"] != "MUST", "a MUST without a test"
    faults = {name: missing_test(name) for name in rule.get("tests", [])}
    assert not {name: fault for name, fault in faults.items() if fault}


@each_rule
def test_rule_of_a_frozen_version_awaits_no_test(rule: dict[str, Any]) -> None:
    layout = json.loads((ROOT / f"spec/layout/{rule['since']}.json").read_text(encoding="utf-8"))
    assert not (layout["frozen"] and "awaits" in rule)


@pytest.mark.parametrize(
    "folder", ["include", "spec", "src", "python", "docs", "tests", "README.md", "CONTRIBUTING.md"]
)
def test_ids_in_texts_are_rules(folder: str) -> None:
    unknown = {
        f"{path.relative_to(ROOT)}: {rule}"
        for path, text in texts_of(folder)
        for rule in ID.findall(text)
        if rule not in BY_ID
    }
    assert not unknown


@pytest.mark.parametrize(
    ("source", "kind"), [("src/core/check.cc", "D"), ("src/core/signature.cc", "S")]
)
def test_source_table_equals_rules(source: str, kind: str) -> None:
    assert table_in(source) == {r["id"]: r["text"] for r in RULES if r["id"][6] == kind}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("tests/meta/test_rules.py::test_rules_ids_are_unique", ""),
        ("tests/meta/test_rules.py::test_that_nobody_wrote", "has no"),
        ("tests/meta/nowhere.py::test_x", "no such file"),
        ("spec/build.py::main", "expected"),
    ],
)
def test_missing_test_tells_what_is_missing(name: str, fault: str) -> None:
    found = missing_test(name)
    assert fault in found
    assert bool(fault) == bool(found)
