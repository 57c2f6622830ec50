"""Lines to records: what ``quorate produce`` does.

Input is taken as it comes. Whatever lies ready forms one request (up to a bound), so that a pipe
gets large batches and a person at a keyboard sees each line acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quorate.client.connection import Connection, raise_if_failed
from quorate.client.partitioner import partition_for_key
from quorate.console.connecting import with_connection
from quorate.console.output import print_json_line
from quorate.console.session import Session
from quorate.core.clock import Clock, SystemClock
from quorate.core.records import Compression, encode_values
from quorate.errors import InvalidRecord, QuorateError
from quorate.v1 import admin_pb2, broker_pb2

__all__ = ["ProduceOptions", "parse_line", "produce_lines", "read_lines"]

_CHUNK_BYTES: Final = 256 << 10
_TIMEOUT_MS: Final = 30_000
_ACKS: Final = {"all": broker_pb2.ACKS_ALL, "1": broker_pb2.ACKS_LEADER, "0": broker_pb2.ACKS_NONE}


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    topic: str
    key_separator: str | None
    partition: int | None
    acks: str
    compression: str


class KeyValue(NamedTuple):
    key: bytes | None
    value: bytes


def produce_lines(session: Session, options: ProduceOptions, path: str | None) -> None:
    """Write every line; tells how many were acknowledged, also when it fails."""
    descriptor = sys.stdin.fileno() if path is None else os.open(path, os.O_RDONLY)
    try:
        with _progress(session, descriptor) as advance:
            writing = _Writing(session, options, advance)
            try:
                with_connection(session.bootstrap, lambda connection: writing.run(connection, descriptor))
            except QuorateError:
                session.note(f"{writing.record_count} record(s) were acknowledged before this error")
                raise
    finally:
        if path is not None:
            os.close(descriptor)
    session.note(f"{writing.record_count} record(s) written to {options.topic}")


@dataclass(slots=True)
class _Writing:
    session: Session
    options: ProduceOptions
    #: told of the bytes of each chunk that was acknowledged
    advance: Callable[[int], None]
    clock: Clock = field(default_factory=SystemClock)
    record_count: int = 0
    #: keyless chunks go to the partitions in turn
    next_partition: int = 0

    async def run(self, connection: Connection, descriptor: int) -> None:
        topic = await connection.describe_topic(self.options.topic)
        line_number = 1
        async for lines in read_lines(descriptor):
            records = [
                parse_line(line, self.options.key_separator, number)
                for number, line in enumerate(lines, start=line_number)
            ]
            line_number += len(lines)
            await self._write(connection, topic, records)
            self.advance(sum(map(len, lines)) + len(lines))

    async def _write(
        self, connection: Connection, topic: admin_pb2.TopicDescription, records: Sequence[KeyValue]
    ) -> None:
        by_partition: dict[int, list[KeyValue]] = {}
        for record in records:
            by_partition.setdefault(self._partition_of(record, len(topic.partitions)), []).append(record)
        self.next_partition += 1
        request = broker_pb2.ProduceRequest(acks=_ACKS[self.options.acks], timeout_ms=_TIMEOUT_MS)
        for partition, members in by_partition.items():
            request.partitions.add(
                topic=topic.name, topic_id=topic.topic_id, partition=partition, batch=self._encode(members)
            )
        response = await connection.produce(request)
        self._report(response, by_partition)

    def _partition_of(self, record: KeyValue, partition_count: int) -> int:
        if self.options.partition is not None:
            return self.options.partition
        if record.key is not None:
            return partition_for_key(record.key, partition_count)
        return self.next_partition % partition_count

    def _encode(self, records: Sequence[KeyValue]) -> bytes:
        return encode_values(
            [record.value for record in records],
            keys=[record.key for record in records],
            timestamp_ms=self.clock.wall_ms(),
            compression=Compression[self.options.compression.upper()],
        )

    def _report(self, response: broker_pb2.ProduceResponse, by_partition: dict[int, list[KeyValue]]) -> None:
        """Count and print what was acknowledged, then raise the first error, if there is one."""
        for result in response.partitions:
            if not result.HasField("error"):
                self._count(result, len(by_partition[result.partition]))
        for result in response.partitions:
            raise_if_failed(result)

    def _count(self, result: broker_pb2.ProducePartitionResult, record_count: int) -> None:
        self.record_count += record_count
        if not self.session.json:
            return
        for index in range(record_count):
            offset = result.base_offset + index if result.HasField("base_offset") else None
            print_json_line({"topic": result.topic, "partition": result.partition, "offset": offset})
        sys.stdout.flush()


def parse_line(line: bytes, key_separator: str | None, number: int) -> KeyValue:
    """``number`` is the line's, for the error."""
    if key_separator is None:
        return KeyValue(None, line)
    key, separator, value = line.partition(key_separator.encode())
    if not separator:
        raise InvalidRecord(f"line {number} has no key: {key_separator!r} does not occur in it", line=number)
    return KeyValue(key, value)


async def read_lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    """Whole lines without their ends, as many as lie ready; a last line may lack its end."""
    pending = b""
    while True:
        await _readable(descriptor)
        chunk = os.read(descriptor, _CHUNK_BYTES)
        *lines, pending = (pending + chunk).split(b"\n")
        if lines:
            yield lines
        if not chunk:
            break
    if pending:
        yield [pending]


async def _readable(descriptor: int) -> None:
    """Returns once a read would not block. A thread would be simpler, and could not be interrupted."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return  # a regular file, which is always ready
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


@contextmanager
def _progress(session: Session, descriptor: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, unless somebody types there."""
    if not session.shows_progress or os.isatty(descriptor):
        yield lambda _bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    size = os.fstat(descriptor).st_size or None
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size)
        yield lambda count: progress.advance(task, count)
