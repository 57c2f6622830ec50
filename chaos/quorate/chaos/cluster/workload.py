"""Clients of a simulated cluster: producers that write unique records, readers that follow them.

They are the real clients. Everything that they are told goes into the history; nothing is repeated by hand.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from quorate.chaos.checks.final_state import SentKey
from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.final import TOMBSTONE_HEADER, value_of
from quorate.chaos.cluster.plan import TopicPlan
from quorate.chaos.cluster.view import newest_image, partitions_of
from quorate.chaos.history.entries import Acks, Assignment, Sent
from quorate.chaos.history.history import History
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.client.producer.async_producer import AsyncProducer
from quorate.client.producer.record_future import RecordFuture
from quorate.core.ids import Offset, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.errors import LogTruncated, OffsetOutOfRange, QuorateError

__all__ = ["Workload"]

#: longer than every fault lasts, so that few outcomes are unknown, and shorter, so that some are
_DELIVERY_TIMEOUT_MS: Final = (60_000, 60_000, 1_500)
_MAX_BLOCK_MS: Final = 3_000
_PAUSE_S_MAX: Final = 0.1
_BURST_SHARE: Final = 0.3
_KEYS: Final = 8
#: so that a few hundred records fill several of the smallest segments
_VALUE_BYTES: Final = (0, 40, 300)
_TOMBSTONE_SHARE: Final = 0.25
_FROM_THE_BEGINNING: Final = 0.2
_RECORDS_AGAIN_MAX: Final = 5
#: few, and then longer than a partition is without a leader: whoever begins anew does not see what has gone
_READS_S_RANGES: Final = ((0.3, 1.5), (0.3, 1.5), (3.0, 6.0))
_POLL_S: Final = 0.5


class Workload:
    """``topics``: those that are written to and read. ``on_promise``: called as an acks=all is told."""

    def __init__(
        self,
        cluster: SimCluster,
        history: History,
        topics: Sequence[TopicPlan],
        on_promise: Callable[[TopicPartition, Offset], None],
    ) -> None:
        self._cluster = cluster
        self._history = history
        self._topics = {topic.name for topic in topics}
        self._may_lose = {topic.name for topic in topics if topic.may_lose}
        #: of compacted topics: what each record was about, by its value
        self.keys: dict[str, dict[bytes, SentKey]] = {
            topic.name: {} for topic in topics if topic.is_compacted
        }
        self._on_promise = on_promise
        self._is_over = False

    def end(self) -> None:
        """Producers send nothing more; what they have sent still gets its outcome."""
        self._is_over = True

    @property
    def partitions(self) -> list[TopicPartition]:
        """As they are now: topics grow."""
        return [name for name, _ in partitions_of(newest_image(self._cluster)) if name.topic in self._topics]

    # -- producers

    async def produce(self, name: str, acks: Acks = "all") -> None:
        """Until the end, and until every record has its outcome."""
        cluster = self._cluster
        rng = cluster.client_rng()
        async with cluster.producer(
            acks=acks,
            enable_idempotence=acks == "all",
            delivery_timeout_ms=rng.choice(_DELIVERY_TIMEOUT_MS),
            max_block_ms=_MAX_BLOCK_MS,
        ) as producer:
            while not self._is_over:
                await self._send_one(producer, name, acks, rng)
                if rng.random() >= _BURST_SHARE:
                    await cluster.clock.sleep(rng.uniform(0, _PAUSE_S_MAX))

    async def _send_one(self, producer: AsyncProducer, name: str, acks: Acks, rng: random.Random) -> None:
        """Records with the same key go to the same partition, until the topic grows."""
        partitions = self.partitions
        if not partitions:
            return
        number = rng.randrange(_KEYS)
        partition = partitions[number % len(partitions)]
        sent = self._history.begin(name, partition, acks=acks, value_bytes=rng.choice(_VALUE_BYTES))
        key, value = f"k{number}", sent.value
        keys = self.keys.get(partition.topic)
        is_tombstone = keys is not None and rng.random() < _TOMBSTONE_SHARE
        if keys is not None:
            keys[value] = SentKey(key.encode(), is_tombstone=is_tombstone)
        try:
            future = await producer.send(
                partition.topic,
                None if is_tombstone else value,
                key=key,
                headers=[(TOMBSTONE_HEADER, value)] if is_tombstone else None,
                partition=partition.partition,
            )
        except QuorateError as error:
            self._history.fail(sent, error)
            return
        future.add_done_callback(lambda future: self._told(sent, future))

    def _told(self, sent: Sent, future: RecordFuture) -> None:
        error = future.exception()
        if error is None:
            offset = future.result().offset
            assert offset is not None, "acks=0 is not used here"
            self._history.acknowledge(sent, Offset(offset))
            if sent.is_promised:
                self._on_promise(sent.partition, Offset(offset))
        else:
            self._history.fail(sent, error)

    # -- readers

    async def read(self, name: str) -> None:
        """Again and again, for a while, from anywhere; until the end."""
        rng = self._cluster.client_rng()
        starts: dict[TopicPartition, Offset] = {}
        lost: list[TopicPartition] = []
        while not self._is_over:
            seconds = rng.uniform(*rng.choice(_READS_S_RANGES))
            deadline_s = self._cluster.clock.monotonic() + seconds
            partitions = self.partitions
            chosen = {each: _start(rng, starts.get(each, Offset(0))) for each in partitions}
            assignment = self._history.assign(name, chosen)
            async with self._cluster.consumer() as consumer:
                _place(consumer, chosen)
                while not self._is_over and self._cluster.clock.monotonic() < deadline_s:
                    if not await self._poll(consumer, assignment, lost):
                        break
            starts.update(self._read_to(assignment))
            # There are other records at the offsets that were read, or none.
            while lost:
                starts.pop(lost.pop(), None)
            await self._cluster.clock.sleep(rng.uniform(0, _PAUSE_S_MAX))

    async def read_everything(
        self, name: str, starts: dict[TopicPartition, Offset], ends: dict[TopicPartition, Offset]
    ) -> None:
        """From these offsets on to those, which nobody writes behind."""
        assignment = self._history.assign(name, starts)
        left = dict(ends)
        async with self._cluster.consumer() as consumer:
            _place(consumer, starts)
            while left:
                self._history.polled(assignment, _named(await consumer.poll(timeout=_POLL_S)))
                left = {each: end for each, end in left.items() if await consumer.position(each) < end}
        self._history.caught_up(assignment)

    async def _poll(
        self, consumer: AsyncConsumer, assignment: Assignment, lost: list[TopicPartition]
    ) -> bool:
        """Whether it can go on. ``lost``: gets what it was told to have lost its records."""
        try:
            self._history.polled(assignment, _named(await consumer.poll(timeout=_POLL_S)))
        except (LogTruncated, OffsetOutOfRange) as error:
            topic = error.facts["topic"]
            if topic in self._may_lose:
                lost += [each for each in self.partitions if each.topic == topic]
                return False
            # What a reader was shown is committed, and stays (rule 17); unless it was of another topic.
            if isinstance(error, LogTruncated) and not self._history.deletions:
                raise Violation(str(error), check="truncated-after-read") from error
            return False
        except QuorateError:
            return False
        return True

    def _read_to(self, assignment: Assignment) -> dict[TopicPartition, Offset]:
        return {
            poll.partition: Offset(poll.records[-1].offset + 1)
            for poll in self._history.polls
            if poll.assignment is assignment
        }


def _named(records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
    """A tombstone has no value that would say which one it is: a header does."""
    return [
        record if record.value is not None else record._replace(value=value_of(record)) for record in records
    ]


def _start(rng: random.Random, read_to: Offset) -> Offset:
    """Where it was, or a little before that, or at the beginning."""
    if rng.random() < _FROM_THE_BEGINNING:
        return Offset(0)
    return Offset(max(0, read_to - rng.randint(0, _RECORDS_AGAIN_MAX)))


def _place(consumer: AsyncConsumer, starts: dict[TopicPartition, Offset]) -> None:
    consumer.assign(list(starts))
    for partition, offset in starts.items():
        consumer.seek(partition, offset)
