"""Records to lines: what ``quorate consume`` does."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import click

from quorate.client.connection import Connection, raise_if_failed
from quorate.console.connecting import with_connection
from quorate.console.output import print_json_line
from quorate.console.record_document import record_document
from quorate.console.session import Session
from quorate.core.records import Record, decode_batch, split_batches
from quorate.errors import OffsetOutOfRange
from quorate.v1 import admin_pb2, broker_pb2

__all__ = ["ConsumeOptions", "consume_records", "decode_batches", "parse_start"]

_MAX_WAIT_MS: Final = 5_000
_MAX_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    topic: str
    partition: int | None
    #: beginning, end, an offset or a time
    start: str
    records_max: int | None
    exit_at_end: bool


def consume_records(session: Session, options: ConsumeOptions) -> None:
    reading = _Reading(session, options, parse_start(options.start))
    with_connection(session.bootstrap, reading.run)


@dataclass(slots=True)
class _Reading:
    session: Session
    options: ConsumeOptions
    start: int | broker_pb2.ListOffsetsPartition
    topic: admin_pb2.TopicDescription = field(default_factory=admin_pb2.TopicDescription)
    #: partition -> next offset
    positions: dict[int, int] = field(default_factory=dict)
    #: partition -> exclusive end, with --exit-at-end
    ends: dict[int, int] = field(default_factory=dict)
    record_count: int = 0
    fetch_count: int = 0

    async def run(self, connection: Connection) -> None:
        self.topic = await connection.describe_topic(self.options.topic)
        partitions = self._partitions()
        ends = await self._offsets(connection, partitions, _spec(broker_pb2.OFFSET_SPEC_LATEST))
        if self.options.exit_at_end:
            self.ends = ends
        self.positions = await self._start_positions(connection, partitions, ends)
        while not self._is_done():
            response = await connection.fetch(self._request())
            for result in response.partitions:
                self._take(result)
            sys.stdout.flush()

    def _partitions(self) -> list[int]:
        if self.options.partition is not None:
            return [self.options.partition]
        return list(range(len(self.topic.partitions)))

    async def _start_positions(
        self, connection: Connection, partitions: list[int], ends: dict[int, int]
    ) -> dict[int, int]:
        if isinstance(self.start, int):
            self._check_reaches(self.start)
            return dict.fromkeys(partitions, self.start)
        # A partition in which nothing is that late starts at its end.
        return {**ends, **await self._offsets(connection, partitions, self.start)}

    def _check_reaches(self, start: int) -> None:
        """Without an end to stop at, the broker refuses such a start; with one it is never asked."""
        for partition, end in self.ends.items():
            if start > end:
                raise OffsetOutOfRange(
                    f"offset {start} is beyond {end}, the end of partition {partition}",
                    offset=start,
                    high_watermark=end,
                )

    async def _offsets(
        self, connection: Connection, partitions: list[int], spec: broker_pb2.ListOffsetsPartition
    ) -> dict[int, int]:
        request = broker_pb2.ListOffsetsRequest()
        for partition in partitions:
            entry = request.partitions.add(
                topic=self.topic.name, topic_id=self.topic.topic_id, partition=partition
            )
            entry.MergeFrom(spec)
        response = await connection.list_offsets(request)
        for result in response.partitions:
            raise_if_failed(result)
        return {
            result.partition: result.offset for result in response.partitions if result.HasField("offset")
        }

    def _is_done(self) -> bool:
        if self.options.records_max is not None and self.record_count >= self.options.records_max:
            return True
        return bool(self.ends) and not self._unfinished()

    def _unfinished(self) -> list[int]:
        return [each for each, at in self.positions.items() if not self.ends or at < self.ends[each]]

    def _request(self) -> broker_pb2.FetchRequest:
        request = broker_pb2.FetchRequest(max_wait_ms=_MAX_WAIT_MS, min_bytes=1, max_bytes=_MAX_BYTES)
        partitions = self._unfinished()
        # The first in the request are served first: take turns, or busy partitions starve the others.
        first = self.fetch_count % len(partitions)
        self.fetch_count += 1
        for partition in partitions[first:] + partitions[:first]:
            request.partitions.add(
                topic=self.topic.name,
                topic_id=self.topic.topic_id,
                partition=partition,
                fetch_offset=self.positions[partition],
            )
        return request

    def _take(self, result: broker_pb2.FetchPartitionResult) -> None:
        raise_if_failed(result)
        end = self.ends.get(result.partition)
        for record in decode_batches(result.batches, from_offset=self.positions[result.partition]):
            if self._is_done() or (end is not None and record.offset >= end):
                break
            self._print(result.partition, record)
            self.record_count += 1
        self.positions[result.partition] = result.next_fetch_offset

    def _print(self, partition: int, record: Record) -> None:
        if self.session.json:
            print_json_line({"topic": self.topic.name, "partition": partition, **record_document(record)})
        else:
            sys.stdout.buffer.write((record.value or b"") + b"\n")


def decode_batches(batches: bytes, *, from_offset: int) -> Iterator[Record]:
    """The records of batches that lie end to end, without those before ``from_offset``."""
    for batch in split_batches(batches):
        yield from _from(decode_batch(batch), from_offset)


def _from(records: Iterable[Record], offset: int) -> Iterator[Record]:
    return (record for record in records if record.offset >= offset)


def parse_start(text: str) -> int | broker_pb2.ListOffsetsPartition:
    """An offset, or what to ask ListOffsets for."""
    if text == "beginning":
        return _spec(broker_pb2.OFFSET_SPEC_EARLIEST)
    if text == "end":
        return _spec(broker_pb2.OFFSET_SPEC_LATEST)
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither beginning, end, an offset, nor a time such as 2026-01-31T12:00:00Z",
            param_hint="--from",
        ) from None
    spec = _spec(broker_pb2.OFFSET_SPEC_AT_TIMESTAMP)
    spec.timestamp_ms = round(moment.timestamp() * 1000)
    return spec


def _spec(spec: broker_pb2.OffsetSpec) -> broker_pb2.ListOffsetsPartition:
    return broker_pb2.ListOffsetsPartition(spec=spec)
