# SPDX-License-Identifier: Apache-2.0
"""Timing of peers side by side, and what is made of it: rows, ratios and targets."""

from __future__ import annotations

import dataclasses
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_scratch = tempfile.TemporaryDirectory(prefix="opabi-bench-")
SCRATCH = Path(_scratch.name)
"""For what is compiled here; gone when the process ends."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One peer. ``run`` measures once and gives a figure in the group's unit."""

    name: str
    run: Callable[[], float]


@dataclasses.dataclass(frozen=True)
class Group:
    """Peers that were measured in turn, in one setting."""

    section: str
    setting: str
    unit: str
    values: Mapping[str, Sequence[float]]
    load: tuple[float, float]
    """The machine's load before and after: what else ran may have been in the way."""

    def median(self, name: str) -> float:
        return statistics.median(self.values[name])

    def ratio(self, name: str, reference: str) -> float:
        return self.median(name) / self.median(reference)


@dataclasses.dataclass(frozen=True)
class Target:
    """A figure that is to be at most (``at_least`` false) or at least its limit."""

    text: str
    found: float
    limit: float
    unit: str = "x"
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.found >= self.limit if self.at_least else self.found <= self.limit


def at_most(group: Group, name: str, reference: str, limit: float) -> Target:
    return Target(_title(group, name, reference), group.ratio(name, reference), limit)


def at_least(group: Group, name: str, reference: str, limit: float) -> Target:
    return Target(
        _title(group, name, reference), group.ratio(name, reference), limit, at_least=True
    )


def _title(group: Group, name: str, reference: str) -> str:
    return f"{group.setting}: {name} against {reference}"


def interleave(section: str, setting: str, unit: str, cases: Sequence[Case], repeats: int) -> Group:
    """Runs every case once, then every case once more, and so on: what slows the machine slows all.

    The order turns from round to round, so that no case always follows the same one.
    """
    before = os.getloadavg()[0]
    gc.disable()
    values: dict[str, list[float]] = {case.name: [] for case in cases}
    for turn in range(repeats):
        first = turn % len(cases)
        for case in [*cases[first:], *cases[:first]]:
            values[case.name].append(case.run())
    gc.enable()
    return Group(section, setting, unit, values, (before, os.getloadavg()[0]))


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def slope(
    short: Callable[[], object], long: Callable[[], object], difference: int, budget: float
) -> float:
    """Seconds for one of the ``difference`` operators that ``long`` has more than ``short``.

    Both run in turn for ``budget`` seconds, at least three times. Lower quartiles: what else runs
    on the machine only adds, and adds more to the longer.
    """
    pairs: list[tuple[float, float]] = []
    end = time.perf_counter() + budget
    while len(pairs) < 3 or time.perf_counter() < end:
        pairs.append((seconds(short), seconds(long)))
    shorts, longs = zip(*pairs, strict=True)
    return (_lower_quartile(longs) - _lower_quartile(shorts)) / difference


def _lower_quartile(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=4, method="inclusive")[0]
