"""A batch under way: its calls started, its results to be put in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opabi.proxy import _tree
from opabi.proxy._call import Call, Output, check_found
from opabi.proxy._engine import Engine, Ticket
from opabi.proxy._proxy import engine_of


class Plan:
    """Starts the calls of ``batch``; ``result`` waits for them. All are checked before the first is
    fed."""

    def __init__(self, batch: Any, namespace: str) -> None:
        self.batch = batch
        self._namespace = namespace
        self._tickets: list[tuple[Engine, Ticket]] = []
        self._places: dict[int, tuple[int, int | None]] = {}
        """For a call, its ticket, and its sample there if it is no batch."""
        calls: dict[int, Call] = {}

        def note(output: Output) -> Output:
            calls[id(output.call)] = output.call
            return output

        _tree.replace(batch, note, namespace)
        self._calls = list(calls.values())
        for call in self._calls:
            check_found(call)
        runs = [(engine_of(call), [call]) for call in self._calls if call.n is not None]
        runs += _gather([call for call in self._calls if call.n is None])
        columns = [_columns(members) for _, members in runs]
        for (engine, members), inputs in zip(runs, columns, strict=True):
            engine.check(inputs, members[0].n if members[0].n is not None else len(members))
        for (engine, members), inputs in zip(runs, columns, strict=True):
            for s, call in enumerate(members):
                self._places[id(call)] = (len(self._tickets), s if call.n is None else None)
            self._tickets.append((engine, engine.submit(inputs, _releaser(members))))

    @property
    def engines(self) -> list[Engine]:
        return list({id(engine): engine for engine, _ in self._tickets}.values())

    def result(self) -> Any:
        try:
            outputs = [engine.wait(ticket) for engine, ticket in self._tickets]
        except BaseException:
            self.abandon()
            raise

        def value(output: Output) -> Any:
            run, sample = self._places[id(output.call)]
            found = outputs[run][output.index]
            return found if sample is None else found[sample]

        return _tree.replace(self.batch, value, self._namespace)

    def abandon(self) -> None:
        for engine, ticket in self._tickets:
            engine.abandon(ticket)
        if not self._tickets:
            for call in self._calls:
                call.release()


def _columns(members: list[Call]) -> list[Any]:
    if members[0].n is not None:
        return list(members[0].columns)
    return [[call.columns[i] for call in members] for i in range(len(members[0].columns))]


def _gather(calls: list[Call]) -> list[tuple[Engine, list[Call]]]:
    """Calls that no collate made into a batch: as few runs as their pipelines allow."""
    groups: dict[str, list[Call]] = {}
    for call in calls:
        groups.setdefault(call.key, []).append(call)
    runs = []
    for members in groups.values():
        engine = engine_of(members[0])
        step = engine.max_batch() or len(members)
        runs += [(engine, members[i : i + step]) for i in range(0, len(members), step)]
    return runs


def _releaser(calls: list[Call]) -> Callable[[], None]:
    def release() -> None:
        for call in calls:
            call.release()

    return release
