"""A consumer group of real processes, which can be killed and paused, and what its members were told.

Each process hosts one member or several (``quorate.chaos.live.group_process``). A member that comes again is
another one, with another name: what was told of the one before counts for nothing.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from types import TracebackType
from typing import Any, Final, Self

from quorate.chaos.checks.violation import Violation
from quorate.chaos.history.entries import Commit, ReadRecord
from quorate.chaos.history.group_ledger import GroupLedger
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition

__all__ = ["GroupLoad", "GroupProcess", "GroupShape"]

_TIMEOUT_S: Final = 90.0
#: a process says farewell for all of its members within this
_END_S: Final = 30.0
#: of one line: a poll of many records
_LINE_BYTES_MAX: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class GroupShape:
    processes: int
    members_each: int = 1


class GroupLoad:
    """As an asynchronous context manager: on the way out its members read to the end, and leave."""

    def __init__(
        self,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        ledger: GroupLedger,
        shape: GroupShape,
        *,
        log_path: str,
    ) -> None:
        """``log_path``: what its processes log goes there."""
        self.ledger = ledger
        self.log_path = log_path
        self._bootstrap = bootstrap
        self._partitions = frozenset(partitions)
        self._shape = shape
        self.processes = [GroupProcess(self, f"group-{number}") for number in range(shape.processes)]
        #: what was handed out or committed, or has changed hands, since somebody looked
        self._news = asyncio.Event()
        self.failure: Violation | None = None

    @property
    def members(self) -> list[str]:
        """Of all processes that run."""
        return [name for process in self.processes for name in process.members]

    async def __aenter__(self) -> Self:
        for process in self.processes:
            await process.start(self._shape.members_each)
        await self.settles()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self._reads_to_the_end()
        finally:
            await asyncio.gather(*(process.end() for process in self.processes))

    async def _reads_to_the_end(self) -> None:
        due: dict[TopicPartition, list[Offset]] = {}
        for sent in self.ledger.history.sent:
            if sent.partition in self._partitions and sent.is_promised and sent.offset is not None:
                due.setdefault(sent.partition, []).append(sent.offset)
        await self.until("the group has read to the end", lambda: self.ledger.has_handed_out(due))
        self.ledger.has_read_all()

    # -- waiting

    async def settles(self) -> None:
        """Until every partition is a living member's."""

        def is_settled() -> bool:
            owners = self.ledger.owners()
            return owners.keys() >= self._partitions and set(owners.values()) <= set(self.members)

        await self.until("every partition is a living member's", is_settled)

    async def is_served(self, partitions: Iterable[TopicPartition]) -> None:
        """Until records of each of these, written from now on, are handed to somebody."""
        history = self.ledger.history
        since_s, polls = history.now_s(), len(history.polls)
        missing = set(partitions)

        def is_so() -> bool:
            nonlocal polls
            for poll in history.polls[polls:]:
                if poll.assignment.group == self.ledger.group and poll.at_s > since_s:
                    missing.discard(poll.partition)
            polls = len(history.polls)
            return not missing

        await self.until("every partition is served", is_so)

    async def commits(self) -> None:
        """Until every member that has a partition has committed something, asked for from now on."""
        history = self.ledger.history
        since_s = history.now_s()

        def is_so() -> bool:
            done = {
                commit.assignment.reader
                for commit in takewhile(lambda each: each.begun_s > since_s, reversed(history.commits))
                if commit.is_acknowledged
            }
            return done >= set(self.ledger.owners().values())

        await self.until("every member has committed", is_so)

    async def until(self, what: str, is_so: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                while not is_so():
                    self._news.clear()
                    await self._news.wait()
                    if self.failure is not None:
                        raise self.failure
        except TimeoutError:
            raise Violation(f"not so after {_TIMEOUT_S:g} s: {what}", check="unavailable") from None

    def note_news(self) -> None:
        self._news.set()

    def arguments(self) -> list[str]:
        topics = sorted({partition.topic for partition in self._partitions})
        return [self._bootstrap, self.ledger.group, *topics]


class GroupProcess:
    def __init__(self, load: GroupLoad, name: str) -> None:
        self.name = name
        #: those who were told to join, and neither to leave nor to crash
        self.members: list[str] = []
        self._load = load
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._joined = 0
        self._commits: dict[tuple[str, int], list[Commit]] = {}
        #: who stands still between records and their commit
        self.held: set[str] = set()

    # -- the process

    async def start(self, members: int) -> None:
        with open(self._load.log_path, "ab") as log:  # noqa: ASYNC230  # a file of this machine, once
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "quorate.chaos.live.group_process", *self._load.arguments()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=_LINE_BYTES_MAX,
                start_new_session=True,  # Ctrl-C is for the drill
            )
        self._reading = asyncio.create_task(self._read(self._process), name=self.name)
        for _ in range(members):
            self.join()

    async def kill(self) -> None:
        """kill -9; what it had told by then is on record when this returns."""
        process = self._running()
        process.kill()
        await process.wait()
        await self._told()
        for member in self.members:
            self._load.ledger.gone(member)
        self.members.clear()
        self._process = None
        self._load.note_news()

    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "it runs"
        return self._process

    async def _told(self) -> None:
        """Until all that it had to tell is on record."""
        assert self._reading is not None, "it runs"
        await self._reading

    def pause(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """Its members leave."""
        if self._process is None:
            return
        process, self._process = self._process, None
        _input_of(process).close()
        try:
            async with asyncio.timeout(_END_S):
                await self._told()
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            message = f"{self.name} has not ended {_END_S:g} s after it was told to"
            raise Violation(message, check="unavailable") from None

    # -- its members

    def join(self) -> str:
        self._joined += 1
        member = f"{self.name}.{self._joined}"
        self.members.append(member)
        self._order("join", member)
        return member

    def leave(self, member: str) -> None:
        self.members.remove(member)
        self._order("leave", member)

    def crash(self, member: str) -> None:
        self.members.remove(member)
        self._order("crash", member)

    def hold(self, member: str) -> None:
        """With the next records that it gets; then it is in ``held``."""
        self.held.discard(member)
        self._order("hold", member)

    def go(self, member: str) -> None:
        self._order("go", member)

    def _order(self, what: str, member: str) -> None:
        _input_of(self._running()).write(json.dumps({"do": what, "member": member}).encode() + b"\n")

    # -- what it tells

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            # Killed in the middle of a line, it has not said it.
            if line.endswith(b"\n"):
                self._hear(json.loads(line))
                self._load.note_news()

    def _hear(self, event: Mapping[str, Any]) -> None:
        ledger, member, at_s = self._load.ledger, event["member"], event["at_s"]
        match event["type"]:
            case "given":
                for topic, number, start in event["partitions"]:
                    ledger.given(
                        member,
                        _partition(topic, number),
                        start=Offset(start),
                        member_epoch=event["epoch"],
                        at_s=at_s,
                    )
            case "taken":
                ledger.taken(member, [_partition(*each) for each in event["partitions"]])
            case "poll":
                records = [ReadRecord(Offset(at), value.encode("latin-1")) for at, value in event["records"]]
                ledger.handed_out(member, _partition(*event["partition"]), records, at_s=at_s)
            case "commit":
                offsets = {_partition(topic, number): Offset(at) for topic, number, at in event["offsets"]}
                self._commits[member, event["number"]] = ledger.committing(member, offsets, at_s=at_s)
            case "committed":
                ledger.committed(self._commits.pop((member, event["number"])), event["error"], at_s=at_s)
            case "held":
                self.held.add(member)
            case "gone":
                self.held.discard(member)
                ledger.gone(member)
            case "failed":
                self._load.failure = Violation(f"{member}: {event['error']}", check="truncated-after-read")


def _input_of(process: asyncio.subprocess.Process) -> asyncio.StreamWriter:
    assert process.stdin is not None, "it was asked for"
    return process.stdin


def _partition(topic: str, number: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionId(number))
