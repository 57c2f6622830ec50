"""What the asynchronous and the synchronous consumer share: everything but how they wait.

The pieces: a `PartitionReader` knows where one partition stands, `Fetching` keeps all of them being fetched,
`FetchBuffer` holds what has arrived; in a group, `GroupSession` decides which partitions there are. The
engine is what the application's calls do to them.

It may be made anywhere. From ``start`` on it belongs to the loop that called it, and to that loop's thread;
``take``, ``put_back`` and what is in ``ahead`` belong to the one thread that takes records out.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from quorate.client.arguments import (
    check_integer,
    check_offset,
    check_partition_argument,
    check_record_argument,
    shown,
)
from quorate.client.cluster import ClusterView
from quorate.client.consumer.buffer import FetchBuffer
from quorate.client.consumer.fetching import Fetching, start_for
from quorate.client.consumer.group.commit_policy import CommitPolicy
from quorate.client.consumer.group.session import GroupSession
from quorate.client.consumer.group.subscription import Subscription, topic_names
from quorate.client.consumer.iteration import RecordsAhead
from quorate.client.consumer.options import ConsumerOptions
from quorate.client.consumer.parts import ConsumerParts
from quorate.client.consumer.positions import BEGINNING, PartitionReader, Position, Start
from quorate.client.consumer.statistics import ConsumerStatistics
from quorate.client.consumer.topic_search import TopicSearch
from quorate.client.record_ids import RecordId
from quorate.core.clock import Clock
from quorate.core.ids import TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.core.transport import Transport
from quorate.errors import ClientClosed, ClientError, InvalidRequest, RequestTimedOut, copy_of

__all__ = ["ConsumerEngine"]


class ConsumerEngine:
    def __init__(
        self,
        options: ConsumerOptions,
        transport: Transport,
        bootstrap: list[str],
        topics: Iterable[str],
        *,
        clock: Clock,
        rng: random.Random,
        make_id: Callable[[], str],
        host: str = "",
    ) -> None:
        """``make_id``: a name that no member of a group ever had; ``host``: where it runs, for people."""
        self.clock = clock
        self._readers: dict[TopicPartition, PartitionReader] = {}
        #: where to begin in a partition that has no position
        self._first_start = start_for(options.auto_offset_reset)
        self._statistics = ConsumerStatistics()
        self._buffer = FetchBuffer()
        self.ahead = RecordsAhead(self._buffer)
        self._cluster = ClusterView(transport, bootstrap, clock=clock, rng=rng, rack=options.client_rack)
        self._fetching = Fetching(
            self._cluster, self._buffer, options, clock=clock, rng=rng, statistics=self._statistics
        )
        self._topics = TopicSearch(
            self._cluster,
            self._buffer,
            self._add_partition,
            clock=clock,
            rng=rng,
            timeout_s=options.request_timeout_ms / 1000,
            metadata_age_s=options.metadata_max_age_ms / 1000,
        )
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False
        names = topic_names(topics)
        #: None: the application says what is read, and remembers how far
        self.group: GroupSession | None = None
        if options.group is None:
            for topic in names:
                self._topics.want_whole(topic)
            return
        parts = ConsumerParts(
            options=options,
            cluster=self._cluster,
            topics=self._topics,
            readers=self._readers,
            fetching=self._fetching,
            buffer=self._buffer,
            ahead=self.ahead,
            statistics=self._statistics,
            clock=clock,
            rng=rng,
        )
        self.group = GroupSession(parts, options.group, make_id=make_id, host=host)
        if names or options.pattern:
            self.group.subscribe(Subscription(tuple(names), options.pattern or ""))

    # -- life

    def start(self) -> None:
        if self._running is None and not self._is_closed:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._fetching.run())
            tasks.create_task(self._topics.run())
            if self.group is not None:
                tasks.create_task(self.group.run())

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self.group is not None:
            await self.group.close()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        for reader in self._readers.values():
            self._buffer.drop(reader)
        await self._cluster.close()

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    def check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer was closed")

    # -- which partitions

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        self.put_back()
        if self.group is not None and self.group.is_subscribed:
            raise InvalidRequest(
                "the group assigns partitions: unsubscribe() first, or leave topics and pattern out"
            )
        if isinstance(partitions, str) or not isinstance(partitions, Iterable):
            raise InvalidRequest(f"partitions is {shown(partitions)}: a list of (topic, number) is expected")
        wanted = dict.fromkeys(check_partition_argument(each) for each in partitions)
        if any(each.partition < 0 for each in wanted):
            raise InvalidRequest("partitions are numbered from 0")
        self._topics.keep_only({each.topic for each in wanted})
        for topic_partition in [each for each in self._readers if each not in wanted]:
            reader = self._readers.pop(topic_partition)
            self._fetching.remove(reader)
            if self.group is not None:
                self.group.by_hand.removed(reader)
        for topic_partition in wanted:
            self._topics.want(topic_partition.topic)
            self._add_partition(topic_partition, is_new=False)

    def assignment(self) -> list[TopicPartition]:
        return list(self._readers)

    def _add_partition(self, topic_partition: TopicPartition, is_new: bool) -> None:  # noqa: FBT001 - a callback
        if topic_partition not in self._readers:
            start = BEGINNING if is_new else self._first_start
            reader = self._readers[topic_partition] = PartitionReader(topic_partition, start)
            if self.group is None:
                self._fetching.add(reader)
            else:
                self.group.by_hand.add(reader)

    def pause(self, partitions: Sequence[tuple[str, int]]) -> None:
        self.put_back()
        for reader in self._chosen(partitions):
            reader.is_paused = True
            self._buffer.pause(reader)
            self._fetching.changed(reader)

    def resume(self, partitions: Sequence[tuple[str, int]]) -> None:
        self.put_back()
        for reader in self._chosen(partitions):
            reader.is_paused = False
            self._buffer.resume(reader)
            self._fetching.changed(reader)

    def paused(self) -> list[TopicPartition]:
        return [each for each, reader in self._readers.items() if reader.is_paused]

    # -- where in them

    def seek(self, partition: tuple[str, int], offset: int, leader_epoch: int | None) -> None:
        offset = check_offset("offset", offset)
        self.put_back()
        reader = self._reader(partition)
        self._is_sought(reader)
        reader.seek(Position(offset, leader_epoch))
        self._fetching.changed(reader)

    def seek_to(self, partitions: Sequence[tuple[str, int]], start: Start) -> None:
        """No partition given: all that are assigned, and all of ``topics`` that are still to be found."""
        self.put_back()
        if not partitions and self._topics.is_any_awaited():
            self._first_start = start
        for reader in self._chosen(partitions):
            self._is_sought(reader)
            reader.seek_to(start)
            self._fetching.changed(reader)

    def _is_sought(self, reader: PartitionReader) -> None:
        self.ahead.forget(reader.topic_partition)
        self._buffer.drop(reader)

    async def position(self, partition: tuple[str, int], timeout_s: float) -> int:
        self.put_back()
        self.start()
        reader = self._reader(partition)
        deadline = self.clock.monotonic() + timeout_s
        while reader.position is None:
            if reader.failure is not None:
                raise copy_of(reader.failure)
            if self.clock.monotonic() >= deadline:
                raise RequestTimedOut(
                    f"{reader}: no leader says where it starts", topic=reader.topic_partition.topic
                )
            await self._fetching.progress(deadline - self.clock.monotonic())
        return reader.position.offset

    def lag(self) -> dict[TopicPartition, int | None]:
        self.ahead.put_back()
        return {each: _lag(reader) for each, reader in self._readers.items()}

    # -- records

    def take(self, max_records: int, *, is_patient: bool = False) -> list[ConsumerRecord]:
        """What is there already, without waiting; raises what has befallen a partition.

        Patient: a failure that was told before is not told again yet.
        """
        self.check_open()
        if check_integer("max_records", max_records) < 1:
            raise InvalidRequest(f"max_records is at least 1, not {max_records}")
        if self._topics.is_idle():
            self._check_has_topics()
        if self._running is not None and self._running.done():
            self._raise_failure(self._running)
        return self._buffer.take(max_records, is_patient=is_patient)

    def _raise_failure(self, ended: asyncio.Task[None]) -> None:
        """A mistake of ours has ended the work in the background: nothing is read any more."""
        failure = ended.exception()
        first = failure
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise ClientError(
            f"the consumer has failed, and reads no more; close it and make another ({first!r})"
        ) from failure

    def _check_has_topics(self) -> None:
        """Else it would wait for ever, for records of nothing."""
        if self.group is None:
            raise InvalidRequest("no topics: pass topics=[…] or call assign()")
        if not self.group.is_subscribed:
            raise InvalidRequest("no topics: pass topics=[…] or pattern=…, or call subscribe() or assign()")

    async def wait(self, timeout_s: float) -> None:
        """Until a patient ``take`` would bring something, the group wants something, or the time is over."""
        if self.group is None or not self.group.is_wanted:
            await self._buffer.wait(timeout_s)

    def put_back(self) -> None:
        """What an iteration has taken out and not yielded: before anything else is done."""
        self.check_open()
        self.ahead.put_back()

    # -- the group

    def in_group(self) -> GroupSession:
        """For calls that mean something in a group only."""
        if self.group is None:
            raise InvalidRequest("not in a group: pass group=…")
        return self.group

    def committed_by(self) -> CommitPolicy:
        return self.in_group().commit_policy

    def record_id(self, record: ConsumerRecord) -> RecordId:
        """On the application's thread, between the poll that brought the record and the next."""
        check_record_argument(record)
        reader = self._reader((record.topic, record.partition))
        assert reader.topic_id is not None, "what was fetched is of a topic that is known"
        group = "" if self.group is None else self.group.name
        return RecordId(group, reader.topic_id, record.partition, record.offset)

    def unread(self) -> None:
        """An error has ended the application: what it was handed last counts as not read."""
        self.ahead.unread()
        if self.group is not None:
            self.group.commit_policy.is_forward_only = True

    def statistics(self) -> ConsumerStatistics:
        return replace(
            self._statistics,
            records=self._buffer.records_taken - len(self.ahead),
            bytes_buffered=self._buffer.buffered_bytes(),
        )

    def _chosen(self, partitions: Sequence[tuple[str, int]]) -> list[PartitionReader]:
        if not partitions:
            return list(self._readers.values())
        return [self._reader(partition) for partition in partitions]

    def _reader(self, partition: tuple[str, int]) -> PartitionReader:
        named = topic, number = check_partition_argument(partition)
        reader = self._readers.get(named)
        if reader is None and self._topics.is_awaited(topic):
            self._add_partition(named, is_new=False)
            return self._reader(partition)
        if reader is None:
            raise InvalidRequest(f"{topic}-{number} is not assigned", topic=topic, partition=number)
        return reader


def _lag(reader: PartitionReader) -> int | None:
    if reader.position is None or reader.high_watermark is None:
        return None
    return max(0, reader.high_watermark - reader.position.offset)
