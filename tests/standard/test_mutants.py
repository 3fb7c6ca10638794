# SPDX-License-Identifier: Apache-2.0
"""The tests of kernels' duties fail on kernels that break them: each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import opabi
import pytest

HERE = Path(__file__).parent

MUTANTS = {
    "writes_input": "stays_inside_its_buffers(case, 'end')",
    "writes_past": "stays_inside_its_buffers(case, 'end')",
    "reads_before": "stays_inside_its_buffers(case, 'start')",
    "writes_table": "stays_inside_its_buffers(case, 'end')",
    "follows_empty": "stays_inside_its_buffers(case, 'end')",
    "keeps_pointer": "stays_inside_its_buffers(case, 'end')",
    "returns_zero": "stays_inside_its_buffers(case, 'end')",
    "wants_alignment": "takes_data_aligned_to_its_element_only(case)",
    "writes_half": "writes_every_element(case, 0)",
    "past_scratch": "writes_every_element(case, 0)",
    "wants_size": "is_taken_by_its_beginning(case, 256)",
    "shows_range": "does_not_show_in_the_result(case)",
    "impure": "is_pure_and_reads_no_data(case)",
    "reads_in_setup": "is_pure_and_reads_no_data(case)",
    "changes_slot": "is_pure_and_reads_no_data(case)",
    "shares_state": "give_the_same_where_they_overlap(case)",
    "changes_rounding": "leaves_its_surroundings_as_they_were(case)",
    "leaves_thread": "leaves_its_surroundings_as_they_were(case)",
}

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import test_duties as duties
from bare_host import Case
kernel = duties.descriptors(sys.argv[2])[sys.argv[3]]
samples = [[duties.i32(n)] for n in (5, 0, 1, 34)]
case = Case(kernel, samples, lambda x: [x])
found = [f for name, f in vars(duties).items() if name.endswith(sys.argv[4].split("(")[0])]
assert len(found) == 1, found
check = found[0]
eval("check(" + sys.argv[4].split("(")[1])
"""


@pytest.fixture(scope="module")
def library() -> Any:
    return opabi.c.compile(HERE / "mutants.c", flags=("-O1", "-lm", "-lpthread"))


def checked(library: Any, kernel: str, check: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, str(HERE), library.path, kernel, check]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("check", sorted(set(MUTANTS.values())))
def test_kernel_that_keeps_the_rules_passes(library: Any, check: str) -> None:
    done = checked(library, "faithful", check)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mutant", MUTANTS)
def test_kernel_that_breaks_a_rule_is_caught(library: Any, mutant: str) -> None:
    done = checked(library, mutant, MUTANTS[mutant])
    crashed = done.returncode == -11
    assert crashed or "AssertionError" in done.stderr, (done.returncode, done.stderr)
    assert "assert len(found) == 1" not in done.stderr
