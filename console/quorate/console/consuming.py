"""Records to lines: what ``quorate consume`` does without a group.

A consumer reads, and rides through failovers by itself. With ``--exit-at-end`` both ends of every partition
are asked for first: where to begin, and where the partition ends now. Positions are compared with that end,
not offsets of records: the last offsets before it may hold none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from quorate.client import AsyncAdmin, AsyncConsumer, TopicPartition
from quorate.client.admin.types import TopicDescription
from quorate.console.advice import AdvisedError
from quorate.console.connecting import Clients, with_clients
from quorate.console.offset_choices import OffsetChoice
from quorate.console.partition_check import check_partition_exists, partitions_of
from quorate.console.record_output import RecordOutput, partition_of
from quorate.console.session import Session
from quorate.console.silence import Silence
from quorate.errors import OffsetOutOfRange

__all__ = ["POLL_S", "ConsumeOptions", "consume_records", "out_of_range"]

#: often, so that silence is noticed when it is as long as that, and not up to twice as long
POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    topic: str
    #: None: all
    partition: int | None
    start: OffsetChoice
    records_max: int | None
    exit_at_end: bool


def consume_records(session: Session, options: ConsumeOptions) -> None:
    reading = _Reading(session, options)
    try:
        with_clients(session.bootstrap, reading.run)
    except OffsetOutOfRange as error:
        raise out_of_range(
            error, "read --from beginning or --from end, or from an offset between the two"
        ) from error


def out_of_range(error: OffsetOutOfRange, advice: str) -> AdvisedError | OffsetOutOfRange:
    """The client speaks of seeking; here it is an option, and the partition's ends are what helps."""
    where = [error.facts.get(key) for key in ("topic", "partition", "offset")]
    start, end = error.facts.get("log_start_offset"), error.facts.get("high_watermark")
    if None in where or end is None:
        return error
    topic, partition, offset = where
    holds = f"{topic}-{partition} begins at {start} and" if start is not None else f"{topic}-{partition}"
    told = OffsetOutOfRange(f"there is no offset {offset}: {holds} ends at {end}", **error.facts)
    return AdvisedError(told, advice)


class _Reading:
    def __init__(self, session: Session, options: ConsumeOptions) -> None:
        self._session = session
        self._options = options
        self._output = RecordOutput(session, records_max=options.records_max)

    async def run(self, clients: Clients) -> None:
        silence = Silence(self._session)
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(clients.admin())
            topic = await admin.describe_topic(self._options.topic)
            partitions = self._partitions(topic)
            if self._options.exit_at_end:
                ends = await self._offsets(admin, partitions, OffsetChoice("end"))
                consumer = clients.consumer()
                await self._begin_at_once(consumer, admin, ends)
                await stack.enter_async_context(consumer)
                await self._read_up_to(ends, consumer, silence)
            else:
                # As a whole, where no partition is named: then partitions that are added later are read, too.
                is_whole = self._options.partition is None
                consumer = clients.consumer(topics=[topic.name] if is_whole else None)
                self._begin(consumer, partitions, is_whole=is_whole)
                await stack.enter_async_context(consumer)
                while not self._output.is_enough:
                    await self._read(consumer, silence)

    def _partitions(self, topic: TopicDescription) -> list[TopicPartition]:
        chosen = self._options.partition
        check_partition_exists(topic, chosen)
        found = partitions_of(topic)
        return found if chosen is None else [found[chosen]]

    # -- where to begin

    def _begin(
        self, consumer: AsyncConsumer, partitions: Sequence[TopicPartition], *, is_whole: bool
    ) -> None:
        """Where that is, the leaders are asked as they are met: one that is away holds nobody else up."""
        if not is_whole:
            consumer.assign(partitions)
        kind, value = self._options.start
        for partition in partitions:
            if kind == "offset":
                consumer.seek(partition, value)
            elif kind == "time":
                consumer.seek_to_time(partition, value)
            elif kind == "end":
                consumer.seek_to_end(partition)

    async def _begin_at_once(
        self, consumer: AsyncConsumer, admin: AsyncAdmin, ends: dict[TopicPartition, int]
    ) -> None:
        """At offsets that are known, so that it is known as well who has nothing to read."""
        begins = await self._offsets(admin, list(ends), self._options.start)
        consumer.assign(ends)
        for partition, end in ends.items():
            # A partition in which nothing is that late begins at its end.
            offset = begins.get(partition, end)
            if offset > end:
                raise OffsetOutOfRange(
                    f"offset {offset} is beyond {end}, the end of {partition}",
                    topic=partition.topic,
                    partition=partition.partition,
                    offset=offset,
                    high_watermark=end,
                )
            consumer.seek(partition, offset)

    async def _offsets(
        self, admin: AsyncAdmin, partitions: Sequence[TopicPartition], start: OffsetChoice
    ) -> dict[TopicPartition, int]:
        kind, value = start
        if kind == "offset":
            return dict.fromkeys(partitions, value)
        found = await admin.list_offsets(
            partitions, value if kind == "time" else "earliest" if kind == "beginning" else "latest"
        )
        return {partition: at.offset for partition, at in found.items() if at.offset is not None}

    # -- reading

    async def _read_up_to(
        self, ends: dict[TopicPartition, int], consumer: AsyncConsumer, silence: Silence
    ) -> None:
        unfinished = list(ends)
        while not self._output.is_enough:
            left = [each for each in unfinished if await consumer.position(each) < ends[each]]
            if not left:
                return
            if len(left) < len(unfinished):
                consumer.assign(left)  # what was written behind the ends since is not asked for
            unfinished = left
            await self._read(consumer, silence, ends)

    async def _read(
        self, consumer: AsyncConsumer, silence: Silence, ends: dict[TopicPartition, int] | None = None
    ) -> None:
        records = await consumer.poll(self._output.wanted, timeout=POLL_S)
        for record in records:
            if ends is None or record.offset < ends[partition_of(record)]:
                self._output.print(record)
        self._output.flush()
        silence.look(consumer.statistics().fetches, has_read=bool(records))
