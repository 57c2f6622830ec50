"""Lines to records: what ``quorate produce`` does.

Input is taken as it comes. Whatever lies ready forms one request (up to a bound), so that a pipe
gets large batches and a person at a keyboard sees each line acknowledged. Requests follow one another
in the order of the lines, so that "lines 1..n were acknowledged" says where to begin again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import click

from quorate.client.connection import Connection, raise_if_failed
from quorate.client.partitioner import partition_for_key
from quorate.console.connecting import with_connection
from quorate.console.input_lines import CannotReadInput, read_lines
from quorate.console.output import CannotWriteOutput, forget_standard_output, print_json_line
from quorate.console.session import Session
from quorate.core.clock import Clock, SystemClock
from quorate.core.config import TopicConfig
from quorate.core.records import DECOMPRESSED_BYTES_MAX_DEFAULT, Compression, encode_values
from quorate.errors import BatchTooLarge, InvalidRecord
from quorate.v1 import admin_pb2, broker_pb2

__all__ = ["ProduceOptions", "parse_line", "produce_lines"]

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


class _Request(NamedTuple):
    message: broker_pb2.ProduceRequest
    #: partition -> records for it
    record_counts: dict[int, int]

    @property
    def line_count(self) -> int:
        return sum(self.record_counts.values())

    @property
    def batch_bytes(self) -> int:
        return sum(len(each.batch) for each in self.message.partitions)


def produce_lines(session: Session, options: ProduceOptions, path: str | None) -> None:
    """Write every line; tells how many were acknowledged, however it ends."""
    with _input(path) as descriptor, _progress(session, descriptor) as advance:
        writing = _Writing(session, options, advance)
        try:
            with_connection(session.bootstrap, lambda connection: writing.run(connection, descriptor))
        except BrokenPipeError as error:
            # Not an end like any other: lines were left unwritten.
            forget_standard_output()
            click.echo(writing.summary(), err=True)
            raise CannotWriteOutput(error) from error
        except click.UsageError:
            raise  # nothing was begun
        except BaseException:
            # Also after --quiet: it is what tells where to begin again.
            click.echo(writing.summary(), err=True)
            raise
    session.note(f"{writing.summary()} in {options.topic}")


@contextmanager
def _input(path: str | None) -> Iterator[int]:
    if path is None:
        if sys.stdin is None:
            raise CannotReadInput("standard input is closed")
        yield sys.stdin.fileno()
        return
    with open(path, "rb", buffering=0) as file:
        yield file.fileno()


@dataclass(slots=True)
class _Writing:
    session: Session
    options: ProduceOptions
    #: told of the bytes of each chunk that was acknowledged
    advance: Callable[[int], None]
    clock: Clock = field(default_factory=SystemClock)
    #: records that were acknowledged
    record_count: int = 0
    #: so many lines from the first on were acknowledged, all of them
    line_count: int = 0
    #: keyless requests go to the partitions in turn
    next_partition: int = 0

    def summary(self) -> str:
        done = "sent" if self.options.acks == "0" else "acknowledged"
        text = f"{self.record_count} record(s) {done}"
        if self.line_count:
            text += f" (lines 1..{self.line_count}"
            text += ")" if self.record_count == self.line_count else ", and some after them)"
        return text

    async def run(self, connection: Connection, descriptor: int) -> None:
        topic = await connection.describe_topic(self.options.topic)
        batch_bytes_max = _max_message_bytes(topic)
        async for lines in read_lines(descriptor, line_bytes_max=self._line_bytes_max(batch_bytes_max)):
            records, refusal = self._parse(lines)
            for request in self._requests(topic, records, batch_bytes_max):
                response = await connection.produce(request.message)
                self._report(response, request)
            if refusal is not None:
                raise refusal
            self.advance(sum(map(len, lines)) + len(lines))

    def _line_bytes_max(self, batch_bytes_max: int) -> int:
        """A longer line cannot become a record, so there is no need to read all of it."""
        if self.options.compression == "none":
            return batch_bytes_max
        return max(batch_bytes_max, DECOMPRESSED_BYTES_MAX_DEFAULT)

    def _parse(self, lines: Sequence[bytes]) -> tuple[list[KeyValue], InvalidRecord | None]:
        """The records up to the first line that is none, and what is wrong with that line."""
        records: list[KeyValue] = []
        for number, line in enumerate(lines, start=self.line_count + 1):
            try:
                records.append(parse_line(line, self.options.key_separator, number))
            except InvalidRecord as refusal:
                return records, refusal
        return records, None

    def _requests(
        self, topic: admin_pb2.TopicDescription, records: list[KeyValue], batch_bytes_max: int
    ) -> Iterator[_Request]:
        """As few requests as batches below the topic's limit allow, in the order of the lines.

        What a batch will measure is only known once it is encoded (and compressed): one that turns out
        too large is halved. The whole request keeps to the limit of one batch, since what a node
        accepts as a message is only known to hold a batch.
        """
        waiting = [records] if records else []
        while waiting:
            records = waiting.pop()
            request = self._request(topic, records)
            if request.batch_bytes <= batch_bytes_max:
                self.next_partition += 1
                yield request
            elif len(records) > 1:
                middle = len(records) // 2
                waiting += [records[middle:], records[:middle]]
            else:
                raise _too_large(self.line_count + 1, request.batch_bytes, batch_bytes_max)

    def _request(self, topic: admin_pb2.TopicDescription, records: Sequence[KeyValue]) -> _Request:
        by_partition: dict[int, list[KeyValue]] = {}
        for record in records:
            by_partition.setdefault(self._partition_of(record, len(topic.partitions)), []).append(record)
        message = broker_pb2.ProduceRequest(acks=_ACKS[self.options.acks], timeout_ms=_TIMEOUT_MS)
        for partition, members in by_partition.items():
            message.partitions.add(
                topic=topic.name, topic_id=topic.topic_id, partition=partition, batch=self._encode(members)
            )
        return _Request(message, {partition: len(members) for partition, members in by_partition.items()})

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

    def _report(self, response: broker_pb2.ProduceResponse, request: _Request) -> None:
        """Count what was acknowledged, print it, then raise the first error, if there is one."""
        acknowledged = [result for result in response.partitions if not result.HasField("error")]
        # Before anything is printed: that may fail, and the count is then all there is to tell.
        self.record_count += sum(request.record_counts[result.partition] for result in acknowledged)
        if len(acknowledged) == len(request.record_counts):
            self.line_count += request.line_count
        if self.session.json:
            for result in acknowledged:
                _print(result, request.record_counts[result.partition])
            sys.stdout.flush()
        for result in response.partitions:
            raise_if_failed(result)


def _print(result: broker_pb2.ProducePartitionResult, record_count: int) -> None:
    for index in range(record_count):
        offset = result.base_offset + index if result.HasField("base_offset") else None
        print_json_line({"topic": result.topic, "partition": result.partition, "offset": offset})


def parse_line(line: bytes, key_separator: str | None, number: int) -> KeyValue:
    """``number`` is the line's, for the error."""
    if key_separator is None:
        return KeyValue(None, line)
    key, separator, value = line.partition(key_separator.encode())
    if not separator:
        raise InvalidRecord(f"line {number} has no key: {key_separator!r} does not occur in it", line=number)
    return KeyValue(key, value)


def _max_message_bytes(topic: admin_pb2.TopicDescription) -> int:
    told = {entry.name: entry.value for entry in topic.configs}
    return int(told.get("max.message.bytes", TopicConfig().max_message_bytes))


def _too_large(line_number: int, batch_bytes: int, batch_bytes_max: int) -> BatchTooLarge:
    return BatchTooLarge(
        f"line {line_number} makes a batch of {batch_bytes} bytes, max.message.bytes is {batch_bytes_max}",
        line=line_number,
        max_message_bytes=batch_bytes_max,
    )


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
