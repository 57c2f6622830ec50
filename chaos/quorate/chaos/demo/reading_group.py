"""The consumers of the demonstration: members of one group, as an application's would be.

The coordinator says who reads what, and the group's committed offsets say where whoever gets a partition goes
on. Nothing is assigned by hand, and no position is kept here. So what the members have read *together* has to
be everything: a partition that was given to nobody, an offset that was committed too far, or a record that
was dropped when a partition moved, is a record that is missing in the end.

Each partition that a member is given is an assignment of its own in the history, from the committed offset
on: the checks hold it to that offset, to order, and to leaving nothing out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from quorate.chaos.checks.final_state import FinalPartition, FinalState
from quorate.chaos.checks.violation import Violation
from quorate.chaos.history.by_partition import by_partition
from quorate.chaos.history.entries import Assignment
from quorate.chaos.history.history import History
from quorate.client import AsyncConsumer
from quorate.core.ids import Offset, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.errors import LogTruncated, OffsetOutOfRange

__all__ = ["ReadingGroup"]

_POLL_S: Final = 0.2
_LOOK_S: Final = 0.05
_COMMIT_MS: Final = 200
_TIMEOUT_S: Final = 60.0
#: a member says farewell within this
_LEAVE_S: Final = 15.0


class ReadingGroup:
    """Use as an asynchronous context manager: at its end every member commits and leaves."""

    def __init__(
        self, bootstrap: str, partitions: Sequence[TopicPartition], *, group: str, history: History
    ) -> None:
        self.name = group
        self._bootstrap = bootstrap
        self._partitions = tuple(partitions)
        self._history = history
        self._members: list[_Member] = []
        #: by whichever member: the next offset that is due
        self.positions: dict[TopicPartition, Offset] = dict.fromkeys(self._partitions, Offset(0))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [each.task for each in self._members]
        for member in self._members:
            member.is_over = True
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=_LEAVE_S)
        finally:
            for task in tasks:
                task.cancel()
        if error is None:
            for task in tasks:
                await task  # what it has failed with

    async def join(self, name: str) -> list[TopicPartition]:
        """Another member; what it was given first."""
        topics = sorted({each.topic for each in self._partitions})
        member = _Member(self._bootstrap, topics, self, self._history, name)
        self._members.append(member)
        await self._until(lambda: bool(member.held), f"{name} has been given no partition")
        return sorted(member.held)

    async def reads_to(self, ends: Mapping[TopicPartition, Offset]) -> None:
        """Until its members have read everything below these offsets."""
        await self._until(
            lambda: all(self.positions[partition] >= end for partition, end in ends.items()),
            "the group has not read to the end",
        )

    def has_read_all(self) -> None:
        """Said when nobody writes any more."""
        for member in self._members:
            for assignment in member.held.values():
                self._history.caught_up(assignment)

    def seen(self) -> FinalState:
        """What the partitions hold, if the members together have read all of it from their beginning."""
        records: dict[TopicPartition, dict[Offset, bytes]] = {each: {} for each in self._partitions}
        for poll in self._history.polls:
            records[poll.partition].update(poll.records)
        return FinalState(
            {
                partition: FinalPartition(
                    high_watermark=Offset(max(found, default=-1) + 1),
                    records=found,
                    log_start_offset=Offset(0),
                )
                for partition, found in records.items()
            }
        )

    def repeated_count(self) -> int:
        """Records that came more than once, to whomever: a group promises at least once."""
        counts = self._history.read_counts()
        return counts.total() - sum(len(each.records) for each in self.seen().partitions.values())

    def rivals(self) -> list[str]:
        """A partition has one reader at a time: whoever had it before the last one has read no more of it."""
        findings, owners = [], dict[TopicPartition, Assignment]()
        lost = {each.serial for member in self._members for each in member.lost}
        entries: list[tuple[int, TopicPartition, Assignment, bool]] = [
            (poll.serial, poll.partition, poll.assignment, False) for poll in self._history.polls
        ]
        for assignment in self._history.assignments:
            entries += [(assignment.serial, each, assignment, True) for each in assignment.starts]
        for _, partition, assignment, is_given in sorted(entries, key=lambda each: each[0]):
            if is_given:
                owners[partition] = assignment
            elif (owner := owners[partition]) is not assignment and assignment.serial not in lost:
                findings.append(f"{partition}: {assignment.reader} read on when {owner.reader} had it")
        return findings

    async def _until(self, condition: Callable[[], bool], failure: str) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                while not condition():
                    tasks = [each.task for each in self._members]
                    # One ends early only with an error, which is then the better answer.
                    for task in (await asyncio.wait(tasks, timeout=_LOOK_S))[0]:
                        task.result()
        except TimeoutError:
            raise Violation(f"{failure} after {_TIMEOUT_S:g} s", check="unseen") from None


class _Member:
    def __init__(
        self, bootstrap: str, topics: Sequence[str], group: ReadingGroup, history: History, name: str
    ) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._group = group
        self._history = history
        self._name = name
        #: what it reads now
        self.held: dict[TopicPartition, Assignment] = {}
        #: what the group took away unheard: another may have read it meanwhile
        self.lost: list[Assignment] = []
        self.is_over = False
        self.task = asyncio.create_task(self._read(), name=name)

    async def _read(self) -> None:
        async with AsyncConsumer(
            self._bootstrap,
            group=self._group.name,
            client_id=self._name,
            enable_auto_commit=True,
            auto_commit_interval_ms=_COMMIT_MS,
        ) as consumer:

            async def assigned(partitions: list[TopicPartition]) -> None:
                committed = await consumer.committed_offsets(*partitions)
                for each in partitions:
                    start = Offset(committed[each].offset) if each in committed else Offset(0)
                    self.held[each] = self._history.assign(self._name, {each: start})

            consumer.subscribe(
                self._topics, on_assigned=assigned, on_revoked=self._revoked, on_lost=self._lost
            )
            try:
                while not self.is_over:
                    self._note(await consumer.poll(timeout=_POLL_S))
            except (LogTruncated, OffsetOutOfRange) as error:
                message = f"{self._name} has read what is no longer there: {error.message}"
                raise Violation(message, check="truncated-after-read") from error

    def _note(self, records: Sequence[ConsumerRecord]) -> None:
        for partition, found in by_partition(records).items():
            self._history.polled(self.held[partition], found)
            due = Offset(found[-1].offset + 1)
            self._group.positions[partition] = max(self._group.positions[partition], due)

    def _revoked(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self.held.pop(each, None)

    def _lost(self, partitions: list[TopicPartition]) -> None:
        self.lost += [self.held.pop(each) for each in partitions if each in self.held]
