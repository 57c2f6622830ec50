"""Records to lines: what ``quorate consume`` does.

A consumer reads, and rides through failovers by itself. With ``--exit-at-end`` both ends of every partition
are asked for first: where to begin, and where the partition ends now. Positions are compared with that end,
not offsets of records: the last offsets before it may hold none.
"""

from __future__ import annotations

import asyncio
import reprlib
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

import click

from quorate.client import AsyncAdmin, AsyncConsumer, ConsumerRecord, TopicPartition
from quorate.client.admin.types import TopicDescription
from quorate.console.advice import AdvisedError
from quorate.console.connecting import Clients, with_clients
from quorate.console.output import print_json_line
from quorate.console.partition_check import check_partition_exists
from quorate.console.record_document import record_document
from quorate.console.session import Session
from quorate.core.ids import PartitionId, TopicName
from quorate.errors import OffsetOutOfRange

__all__ = ["ConsumeOptions", "Start", "consume_records", "parse_start"]

_POLL_RECORDS: Final = 1_000
#: often, so that silence is noticed when it is as long as this, and not up to twice as long
_POLL_S: Final = 0.5
_SILENCE_S: Final = 5.0


class Start(NamedTuple):
    kind: Literal["beginning", "end", "offset", "time"]
    #: the offset, or milliseconds since 1970
    value: int = 0


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    topic: str
    #: None: all
    partition: int | None
    #: beginning, end, an offset or a time
    start: str
    records_max: int | None
    exit_at_end: bool


def consume_records(session: Session, options: ConsumeOptions) -> None:
    reading = _Reading(session, options, parse_start(options.start))
    try:
        with_clients(session.bootstrap, reading.run)
    except OffsetOutOfRange as error:
        raise _with_range(error) from error


def _with_range(error: OffsetOutOfRange) -> AdvisedError | OffsetOutOfRange:
    """The client speaks of seeking; here it is an option, and the partition's ends are what helps."""
    where = [error.facts.get(key) for key in ("topic", "partition", "offset")]
    start, end = error.facts.get("log_start_offset"), error.facts.get("high_watermark")
    if None in where or end is None:
        return error
    topic, partition, offset = where
    holds = f"{topic}-{partition} begins at {start} and" if start is not None else f"{topic}-{partition}"
    told = OffsetOutOfRange(f"there is no offset {offset}: {holds} ends at {end}", **error.facts)
    return AdvisedError(told, "read --from beginning or --from end, or from an offset between the two")


class _Reading:
    def __init__(self, session: Session, options: ConsumeOptions, start: Start) -> None:
        self._session = session
        self._options = options
        self._start = start
        self._record_count = 0
        #: answers of brokers so far, as of the last look
        self._fetches = 0
        #: by the loop's time; the first answer has as long as any other
        self._answered_at = 0.0
        self._is_silence_told = False

    async def run(self, clients: Clients) -> None:
        self._answered_at = asyncio.get_running_loop().time()
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(clients.admin())
            topic = await admin.describe_topic(self._options.topic)
            partitions = self._partitions(topic)
            if self._options.exit_at_end:
                ends = await self._offsets(admin, partitions, Start("end"))
                consumer = clients.consumer()
                await self._begin_at_once(consumer, admin, ends)
                await stack.enter_async_context(consumer)
                await self._read_up_to(ends, consumer)
            else:
                # As a whole, where no partition is named: then partitions that are added later are read, too.
                is_whole = self._options.partition is None
                consumer = clients.consumer(topics=[topic.name] if is_whole else None)
                self._begin(consumer, partitions, is_whole=is_whole)
                await stack.enter_async_context(consumer)
                while not self._is_enough():
                    await self._read(consumer)

    def _partitions(self, topic: TopicDescription) -> list[TopicPartition]:
        chosen = self._options.partition
        check_partition_exists(topic, chosen)
        numbers = range(len(topic.partitions)) if chosen is None else [chosen]
        return [TopicPartition(TopicName(topic.name), PartitionId(number)) for number in numbers]

    # -- where to begin

    def _begin(
        self, consumer: AsyncConsumer, partitions: Sequence[TopicPartition], *, is_whole: bool
    ) -> None:
        """Where that is, the leaders are asked as they are met: one that is away holds nobody else up."""
        if not is_whole:
            consumer.assign(partitions)
        kind, value = self._start
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
        begins = await self._offsets(admin, list(ends), self._start)
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
        self, admin: AsyncAdmin, partitions: Sequence[TopicPartition], start: Start
    ) -> dict[TopicPartition, int]:
        kind, value = start
        if kind == "offset":
            return dict.fromkeys(partitions, value)
        found = await admin.list_offsets(
            partitions, value if kind == "time" else "earliest" if kind == "beginning" else "latest"
        )
        return {partition: at.offset for partition, at in found.items() if at.offset is not None}

    # -- reading

    async def _read_up_to(self, ends: dict[TopicPartition, int], consumer: AsyncConsumer) -> None:
        unfinished = list(ends)
        while not self._is_enough():
            left = [each for each in unfinished if await consumer.position(each) < ends[each]]
            if not left:
                return
            if len(left) < len(unfinished):
                consumer.assign(left)  # what was written behind the ends since is not asked for
            unfinished = left
            await self._read(consumer, ends)

    async def _read(self, consumer: AsyncConsumer, ends: dict[TopicPartition, int] | None = None) -> None:
        wanted = _POLL_RECORDS
        if self._options.records_max is not None:
            wanted = min(wanted, self._options.records_max - self._record_count)
        records = await consumer.poll(wanted, timeout=_POLL_S)
        for record in records:
            if ends is None or record.offset < ends[_partition_of(record)]:
                self._print(record)
                self._record_count += 1
        sys.stdout.flush()
        self._tell_of_silence(consumer.statistics().fetches, has_read=bool(records))

    def _tell_of_silence(self, fetches: int, *, has_read: bool) -> None:
        """A reader that waits for records looks like one that waits for brokers; once, until one answers."""
        now = asyncio.get_running_loop().time()
        if has_read or fetches != self._fetches:
            if self._is_silence_told:
                self._session.note("brokers answer again")
            self._is_silence_told = False
            self._fetches, self._answered_at = fetches, now
        elif not self._is_silence_told and now - self._answered_at >= _SILENCE_S:
            self._session.note(f"no broker has answered for {_SILENCE_S:g} s; still trying")
            self._is_silence_told = True

    def _is_enough(self) -> bool:
        return self._options.records_max is not None and self._record_count >= self._options.records_max

    def _print(self, record: ConsumerRecord) -> None:
        if self._session.json:
            where = {"topic": record.topic, "partition": record.partition}
            print_json_line({**where, **record_document(record), "leader_epoch": record.leader_epoch})
        else:
            sys.stdout.buffer.write((record.value or b"") + b"\n")


def _partition_of(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(TopicName(record.topic), PartitionId(record.partition))


def parse_start(text: str) -> Start:
    if text == "beginning":
        return Start("beginning")
    if text == "end":
        return Start("end")
    try:
        if text.isascii() and text.isdecimal():
            return Start("offset", int(text))
        # Of a time without a zone, the year before or after the calendar's may be asked for.
        return Start("time", round(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{reprlib.repr(text)} is neither beginning, end, an offset, nor a time such as "
            "2026-01-31T12:00:00Z",
            param_hint="--from",
        ) from None
