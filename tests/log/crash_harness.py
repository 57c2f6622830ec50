"""Kill a process on real files, then see what it left behind.

``CrashLab`` has the processes, each in a directory of its own. What one of them says goes into a
``Ledger``, which knows at the moment of death which states its log may be in. ``check_recovery`` opens
the directory as the next process would and holds the log to that.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from quorate.broker.directory.run_notes import read_run_notes
from quorate.chaos.models.log.log_harness import batch, make_context
from quorate.core.ids import LeaderEpoch
from quorate.core.os_disk import OsDisk
from quorate.storage import PartitionLog, StartKind
from quorate.storage.inspect import Problem, ProblemKind, verify
from tests.log.crash_scenarios import CONFIG, KEY, start_in
from tests.log.killing_disk import Change, HastyDisk, KillPoint
from tests.log.log_model import LogModel, Stages, adopt, stamped

__all__ = ["Corpse", "CrashLab", "Ledger", "TracedChange", "check_recovery"]

_ROOT: Final = Path(__file__).parents[2]
#: operations that change what a log holds, by the names of the model's methods
_MODELLED: Final = frozenset({"append", "flush", "lead", "raise_log_start", "reset", "truncate"})


@dataclass
class Ledger:
    """What a process has said: the states that its log may be in, and what it was about to do."""

    stages: Stages = (LogModel(),)
    under_way: str | None = None

    @classmethod
    def going_on_from(cls, earlier: Ledger) -> Self:
        """For the next process in the same directory."""
        return cls(stages=tuple(stage.recovered() for stage in earlier.stages))

    def begin(self, operation: str, arguments: list[Any]) -> None:
        assert self.under_way is None
        self.under_way = operation
        if operation in _MODELLED:
            assert len(self.stages) == 1, "who goes on with a log has to say where it is"
            values = [bytes.fromhex(each) if isinstance(each, str) else each for each in arguments]
            self.stages = getattr(self.stages[0], operation)(*values)

    def done(self) -> None:
        assert self.under_way is not None
        self.stages, self.under_way = self.stages[-1:], None


class TracedChange(NamedTuple):
    #: for a kill point
    number: int
    #: what the process was doing
    operation: str
    change: Change


@dataclass
class Corpse:
    """What is left of a process."""

    directory: Path
    #: where it was told to die, for who reads a failed test
    kill: KillPoint | None
    ledger: Ledger
    exit_status: int = 0
    trace: list[TracedChange] = field(default_factory=list)

    @property
    def was_killed(self) -> bool:
        return self.exit_status == -signal.SIGKILL


class CrashLab:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names = itertools.count(1)
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.log.crash_child"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def nothing(self) -> Corpse:
        """An empty directory, as the first process finds it."""
        directory = self._directory / f"{next(self._names)}"
        directory.mkdir()
        return Corpse(directory, None, Ledger())

    def close(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.stdout.close()
        self._child.wait()

    def run(
        self,
        scenario: str,
        *,
        after: Corpse,
        kill: KillPoint | None = None,
        traced: bool = False,
        lines_until_kill: int | None = None,
    ) -> Corpse:
        """One life, in a copy of what another has left behind.

        It ends by itself, at the kill point, or when it is killed from outside, some time after it
        said so many things.
        """
        directory = self._directory / f"{next(self._names)}"
        shutil.copytree(after.directory, directory, copy_function=shutil.copyfile)
        corpse = Corpse(directory, kill, Ledger.going_on_from(after.ledger))
        point = None if kill is None else [kill.number, kill.moment.value]
        pid = 0
        for count, (kind, *rest) in enumerate(self._ask([scenario, str(directory), point, traced])):
            if kind == "pid":
                (pid,) = rest
            else:
                self._note(corpse, kind, rest)
            if count == lines_until_kill:
                os.kill(pid, signal.SIGKILL)
        return corpse

    def _ask(self, request: list[Any]) -> Iterator[list[Any]]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(request).encode() + b"\n")
        self._child.stdin.flush()
        for line in self._child.stdout:
            answer = json.loads(line)
            yield answer
            if answer[0] == "end":
                return
        raise AssertionError("the process that forks the others is gone")

    @staticmethod
    def _note(corpse: Corpse, kind: str, rest: list[Any]) -> None:
        if kind == "begin":
            corpse.ledger.begin(rest[0], rest[1:])
        elif kind == "done":
            corpse.ledger.done()
        elif kind == "change":
            operation = corpse.ledger.under_way
            assert operation is not None
            corpse.trace.append(TracedChange(len(corpse.trace) + 1, operation, Change(*rest)))
        else:
            assert kind == "end"
            (corpse.exit_status,) = rest

    def kill_at(self, points: Iterable[KillPoint], scenario: str, *, after: Corpse) -> Iterator[Corpse]:
        """One process for each point. Its directory goes when the next one is asked for."""
        for point in points:
            corpse = self.run(scenario, after=after, kill=point)
            assert corpse.was_killed, f"{scenario} came to its end in spite of {point}"
            yield corpse
            shutil.rmtree(corpse.directory)


def check_recovery(corpse: Corpse) -> Corpse:
    """Everything acknowledged is there, nothing is invented, and the log goes on.

    Returns what is there after that, for the next process.
    """
    return asyncio.run(_check_recovery(corpse))


async def _check_recovery(corpse: Corpse) -> Corpse:
    path = corpse.directory
    _check_files(path)
    disk = HastyDisk()
    notes = read_run_notes(disk, str(path))
    is_marked = notes is None or notes.is_clean
    assert not is_marked or corpse.ledger.under_way in {"close", "open", None}
    try:
        data = await start_in(make_context(disk), str(path))
        assert data.start is (StartKind.CLEAN if is_marked else StartKind.PROCESS_CRASH)
        log = data.logs.get(KEY) or await data.logs.create(KEY, CONFIG)
        assert log.damage is None, log.damage
        was_clean = log.opening_report.start is StartKind.CLEAN
        model = adopt(corpse.ledger.stages, log, after_crash=not was_clean)
        model = await _go_on(log, model)
        assert await data.close()
    finally:
        disk.close()
    # What can be rebuilt need not be there: retention gives up indexes first.
    assert all(problem.kind is ProblemKind.REBUILDABLE for problem in _check_files(path))
    return Corpse(path, None, Ledger(stages=(model,)))


async def _go_on(log: PartitionLog, model: LogModel) -> LogModel:
    """A recovered log is one like any other."""
    epoch = model.latest_epoch + 1
    log.become_leader(LeaderEpoch(epoch))
    sent = batch(b"after the crash")
    log.append_as_leader(sent, leader_epoch=LeaderEpoch(epoch))
    await log.flush()
    stored = stamped(sent, base_offset=model.log_end_offset, leader_epoch=epoch)
    return adopt(model.append(stored)[-1:], log)


def _check_files(directory: Path) -> list[Problem]:
    """As ``quorate log verify`` does: whatever a killed process leaves, it is not damage."""
    disk = OsDisk(read_only=True)
    if not (directory / KEY.directory_name).exists():
        return []
    problems = [problem for report in verify(disk, str(directory)) for problem in report.problems]
    assert all(problem.kind is not ProblemKind.DAMAGE for problem in problems), problems
    return problems
