"""kill -9 on real files, then recover: nothing acknowledged is missing, nothing is invented.

First at the points that have a name, then before every change of the disk in turn; then the recovery is
killed likewise, and recovered from. At the end the kill comes from outside, at no particular point.

All of it in the middle of every write too, and the recovery from every named point, which takes longer
than `make test` should:

    QUORATE_CRASH_THOROUGH=1 pytest tests/log/test_crash_kill.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import pytest

from tests.log.crash_harness import Corpse, CrashLab, TracedChange, check_recovery
from tests.log.crash_scenarios import SCENARIOS
from tests.log.killing_disk import KillPoint, Moment

_IS_THOROUGH: Final = "QUORATE_CRASH_THOROUGH" in os.environ
_BEFORE, _HALF, _AFTER = Moment.BEFORE, Moment.HALF, Moment.AFTER


class NamedPoint(NamedTuple):
    """The changes of a scenario that are made in one operation, with one call, to one kind of file."""

    scenario: str
    operation: str
    change: str
    file: str
    moment: Moment

    def is_at(self, traced: TracedChange) -> bool:
        change = traced.change
        is_this_change = change.is_write if self.change == "write" else change.name == self.change
        return is_this_change and traced.operation == self.operation and change.file.endswith(self.file)


_EPOCHS: Final = "leader-epoch-checkpoint"
_CHECKPOINT: Final = "log-checkpoint"
_MARKER: Final = "run-notes"

NAMED_POINTS: Final = {
    "mid-write, one byte": NamedPoint("append", "append", "write", ".log", Moment.ONE_BYTE),
    "mid-write, header only": NamedPoint("append", "append", "write", ".log", Moment.HEADER),
    "mid-write, half": NamedPoint("append", "append", "write", ".log", _HALF),
    "mid-write, all but one byte": NamedPoint("append", "append", "write", ".log", Moment.ALL_BUT_ONE),
    "after the write, before the acknowledgement": NamedPoint("append", "append", "write", ".log", _AFTER),
    "mid-write of a follower": NamedPoint("replicate", "append", "write", ".log", _HALF),
    "follower's new epoch on record, batch not written": NamedPoint(
        "replicate", "append", "rename", _EPOCHS, _AFTER
    ),
    "leader's new epoch half written": NamedPoint("lead", "lead", "write", f"{_EPOCHS}.tmp", _HALF),
    "leader's new epoch on record, not led": NamedPoint("lead", "lead", "rename", _EPOCHS, _AFTER),
    "mid-index": NamedPoint("roll", "append", "write", ".index", _HALF),
    "mid-index of time": NamedPoint("roll", "append", "write", ".timeindex", _HALF),
    "mid-roll, indexes but no snapshot": NamedPoint("roll", "append", "create", ".snapshot.tmp", _BEFORE),
    "mid-roll, snapshot half written": NamedPoint("roll", "append", "write", ".snapshot.tmp", _HALF),
    "mid-roll, snapshot before its rename": NamedPoint("roll", "append", "rename", ".snapshot", _BEFORE),
    "mid-roll, before the new segment": NamedPoint("roll", "append", "create", ".log", _BEFORE),
    "mid-roll, new segment empty": NamedPoint("roll", "append", "create", ".log", _AFTER),
    "mid-roll by age, new segment empty": NamedPoint("roll", "roll", "create", ".log", _AFTER),
    "mid-roll, within a follower's write": NamedPoint("roll", "append", "write", ".log", _HALF),
    "mid-checkpoint, half written": NamedPoint(
        "checkpoint", "checkpoint", "write", f"{_CHECKPOINT}.tmp", _HALF
    ),
    "mid-checkpoint, before the rename": NamedPoint(
        "checkpoint", "checkpoint", "rename", _CHECKPOINT, _BEFORE
    ),
    "mid-checkpoint, after the rename": NamedPoint("checkpoint", "checkpoint", "rename", _CHECKPOINT, _AFTER),
    "mid-truncate, recovery point lowered": NamedPoint("truncate", "truncate", "rename", _CHECKPOINT, _AFTER),
    "mid-truncate, between two segments": NamedPoint("truncate", "truncate", "unlink", ".log", _AFTER),
    "mid-truncate, before the file is cut": NamedPoint("truncate", "truncate", "truncate", ".log", _BEFORE),
    "mid-truncate, after the file is cut": NamedPoint("truncate", "truncate", "truncate", ".log", _AFTER),
    "mid-truncate, before the epochs": NamedPoint("truncate", "truncate", "rename", _EPOCHS, _BEFORE),
    "mid-retention, log start on record": NamedPoint(
        "retain", "raise_log_start", "rename", _CHECKPOINT, _AFTER
    ),
    "mid-retention, between two segments": NamedPoint("retain", "raise_log_start", "unlink", ".log", _AFTER),
    "mid-retention, before the epochs": NamedPoint("retain", "raise_log_start", "rename", _EPOCHS, _BEFORE),
    "mid-reset, intention on record": NamedPoint("reset", "reset", "rename", _CHECKPOINT, _AFTER),
    "mid-reset, between two segments": NamedPoint("reset", "reset", "unlink", ".log", _AFTER),
    "mid-reset, new segment empty": NamedPoint("reset", "reset", "create", ".log", _AFTER),
    "mid-close, index half written": NamedPoint("close", "close", "write", ".index", _HALF),
    "mid-close, log closed": NamedPoint("close", "close", "rename", _CHECKPOINT, _AFTER),
    "mid-close, marker half written": NamedPoint("close", "close", "write", f"{_MARKER}.tmp", _HALF),
    "mid-close, before the marker's rename": NamedPoint("close", "close", "rename", _MARKER, _BEFORE),
    "mid-close, after the marker's rename": NamedPoint("close", "close", "rename", _MARKER, _AFTER),
    "mid-open, before the incarnation is noted": NamedPoint("close", "open", "rename", _MARKER, _BEFORE),
    "mid-open, after the incarnation is noted": NamedPoint("close", "open", "rename", _MARKER, _AFTER),
}

_RECOVERED_FROM: Final = (
    "mid-write, half",
    "mid-roll, snapshot half written",
    "mid-truncate, between two segments",
    "mid-retention, between two segments",
    "mid-reset, between two segments",
    "mid-close, after the marker's rename",
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashLab]:
    lab = CrashLab(tmp_path_factory.mktemp("crashes"))
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def prepared(lab: CrashLab) -> Corpse:
    """A process that ended in the middle of its life, without a word."""
    corpse = lab.run("prepare", after=lab.nothing())
    assert corpse.exit_status == 0
    return corpse


class Traces:
    """What each scenario changes if nobody kills it."""

    def __init__(self, lab: CrashLab, prepared: Corpse) -> None:
        self._lab = lab
        self._prepared = prepared
        self._known: dict[str, list[TracedChange]] = {}

    def __getitem__(self, scenario: str) -> list[TracedChange]:
        if scenario not in self._known:
            self._known[scenario] = trace_of(self._lab, scenario, after=self._prepared)
        return self._known[scenario]


@pytest.fixture(scope="module")
def traces(lab: CrashLab, prepared: Corpse) -> Traces:
    return Traces(lab, prepared)


def trace_of(lab: CrashLab, scenario: str, *, after: Corpse) -> list[TracedChange]:
    corpse = lab.run(scenario, after=after, traced=True)
    assert corpse.exit_status == 0
    assert corpse.trace
    return corpse.trace


def each(trace: Iterable[TracedChange]) -> Iterator[KillPoint]:
    """After a change is before the next one; what was acknowledged in between is known then, too."""
    for number, _, change in trace:
        yield KillPoint(number, _BEFORE)
        if _IS_THOROUGH and change.is_write:
            yield KillPoint(number, _HALF)


@pytest.mark.parametrize("name", NAMED_POINTS)
def test_kill_at_a_named_point_loses_nothing_acknowledged(
    lab: CrashLab, prepared: Corpse, traces: Traces, name: str
) -> None:
    point = NAMED_POINTS[name]
    trace = traces[point.scenario]
    points = [KillPoint(traced.number, point.moment) for traced in trace if point.is_at(traced)]
    assert points, "the scenario does not pass this point any more"
    for corpse in lab.kill_at(points, point.scenario, after=prepared):
        assert corpse.ledger.under_way == point.operation
        check_recovery(corpse)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_kill_before_every_change_loses_nothing_acknowledged(
    lab: CrashLab, prepared: Corpse, traces: Traces, scenario: str
) -> None:
    # Each scenario opens the log first, always in the same way.
    trace = [traced for traced in traces[scenario] if (traced.operation == "open") == (scenario == "open")]
    for corpse in lab.kill_at(each(trace), scenario, after=prepared):
        check_recovery(corpse)


def test_kill_before_every_change_of_a_first_life_leaves_a_directory_that_opens(lab: CrashLab) -> None:
    nothing = lab.nothing()
    trace = [traced for traced in trace_of(lab, "prepare", after=nothing) if traced.operation == "open"]
    for corpse in lab.kill_at(each(trace), "prepare", after=nothing):
        check_recovery(corpse)


@pytest.mark.parametrize("name", NAMED_POINTS if _IS_THOROUGH else _RECOVERED_FROM)
def test_kill_before_every_change_of_a_recovery_loses_nothing_acknowledged(
    lab: CrashLab, prepared: Corpse, traces: Traces, name: str
) -> None:
    point = NAMED_POINTS[name]
    number = next(traced.number for traced in traces[point.scenario] if point.is_at(traced))
    for crashed in lab.kill_at([KillPoint(number, point.moment)], point.scenario, after=prepared):
        recovery = trace_of(lab, "open", after=crashed)
        for corpse in lab.kill_at(each(recovery), "open", after=crashed):
            check_recovery(corpse)


@pytest.mark.parametrize("seed", range(4))
def test_kill_from_outside_loses_nothing_acknowledged(lab: CrashLab, seed: int) -> None:
    """Again and again in the same directory, whatever the process is doing."""
    rng = random.Random(seed)
    survivor = lab.nothing()
    for _ in range(3):
        corpse = lab.run("stream", after=survivor, lines_until_kill=rng.randint(1, 300))
        assert corpse.was_killed
        survivor = check_recovery(corpse)
