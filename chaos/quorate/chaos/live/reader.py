"""A reader of a real cluster that can be killed and started again, and goes on where it was.

What a reader is shown must stay (rule 17), so all of it goes into the history. It keeps its positions itself,
with the leader epoch of the last record, so that a cluster that has lost what was read is found out when the
reader comes back (rule 66).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from quorate.chaos.checks.violation import Violation
from quorate.chaos.history.entries import Assignment
from quorate.chaos.history.history import History
from quorate.client import AsyncConsumer
from quorate.core.ids import LeaderEpoch, Offset, PartitionId, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.errors import LogTruncated, UnknownTopicOrPartition

__all__ = ["LedgerReader"]

_BEGINNING: Final[tuple[Offset, LeaderEpoch | None]] = (Offset(0), None)
_POLL_S: Final = 1.0
_LOOK_S: Final = 0.05
_TIMEOUT_S: Final = 60.0


class LedgerReader:
    def __init__(
        self, bootstrap: str, partitions: Sequence[TopicPartition], *, history: History, name: str
    ) -> None:
        self._bootstrap = bootstrap
        self._history = history
        self._name = name
        #: where it goes on, and the leader epoch of the record before that
        self._positions: dict[TopicPartition, tuple[Offset, LeaderEpoch | None]] = dict.fromkeys(
            partitions, _BEGINNING
        )
        self._has_taken_up = False
        #: None: it does not run
        self.task: asyncio.Task[None] | None = None
        #: of the task that runs, once it reads
        self._assignment: Assignment | None = None

    @property
    def positions(self) -> Mapping[TopicPartition, Offset]:
        """The next offset that is due."""
        return {partition: offset for partition, (offset, _) in self._positions.items()}

    def start(self) -> None:
        assert self.task is None, "one at a time"
        self._assignment = None
        self.task = asyncio.create_task(self._read(), name=self._name)

    async def reads_to(self, ends: Mapping[TopicPartition, Offset]) -> None:
        """Until it has read everything below these offsets."""
        assert self.task is not None, "it runs"
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                while self._assignment is None or self._is_behind(ends):
                    # It ends early only with an error, which is then the better answer.
                    if (await asyncio.wait([self.task], timeout=_LOOK_S))[0]:
                        self.task.result()
        except TimeoutError:
            message = f"{self._name} has not read to the end after {_TIMEOUT_S:g} s"
            raise Violation(message, check="unseen") from None

    def has_read_all(self) -> None:
        """Said of one that runs, when nobody writes any more."""
        assert self._assignment is not None, "it has read"
        self._history.caught_up(self._assignment)

    def _is_behind(self, ends: Mapping[TopicPartition, Offset]) -> bool:
        return any(self._positions[partition][0] < end for partition, end in ends.items())

    async def kill(self) -> None:
        """It ends wherever it is; what it has failed with before is raised."""
        task, self.task = self.task, None
        if task is None:
            return
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def restart(self) -> None:
        await self.kill()
        self.start()

    async def take_up(self, partitions: Iterable[TopicPartition]) -> None:
        """From their beginnings: new ones, and those of a topic that was made again."""
        await self.kill()
        self._positions.update(dict.fromkeys(partitions, _BEGINNING))
        self._has_taken_up = True
        self.start()

    async def _read(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._read_until_deleted()
            except UnknownTopicOrPartition:
                deleted = {deletion.topic for deletion in self._history.deletions}
                gone = [partition for partition in self._positions if partition.topic in deleted]
                # One that was added a moment ago is not known to everybody yet.
                if not gone and not self._has_taken_up:
                    raise
                # Of the same name there may soon be another topic, which has a beginning of its own.
                self._positions.update(dict.fromkeys(gone, _BEGINNING))
                await asyncio.sleep(_LOOK_S)

    async def _read_until_deleted(self) -> None:
        """It ends with ``UnknownTopicOrPartition`` then."""
        async with AsyncConsumer(self._bootstrap) as consumer:
            consumer.assign(list(self._positions))
            for partition, (offset, leader_epoch) in self._positions.items():
                if offset > 0:
                    consumer.seek(partition, offset, leader_epoch=leader_epoch)
            assignment = self._assignment = self._history.assign(self._name, self.positions)
            try:
                while True:
                    records = await consumer.poll(timeout=_POLL_S)
                    self._history.polled(assignment, records)
                    self._advance(records)
            except LogTruncated as error:
                message = f"{self._name} has read what is no longer there: {error.message}"
                raise Violation(message, check="truncated-after-read") from error

    def _advance(self, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            partition = TopicPartition(TopicName(record.topic), PartitionId(record.partition))
            self._positions[partition] = (Offset(record.offset + 1), LeaderEpoch(record.leader_epoch))
