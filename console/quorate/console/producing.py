"""Lines to records: what ``quorate produce`` does.

Input is taken as it comes: whatever lies ready is handed to the producer in one call, so that a pipe gets
large batches and a person at a keyboard sees each line acknowledged. The producer numbers its batches and
repeats them through a failover, so a line is written once however often it is sent.

Many chunks are on their way at once, and reported in the order of the lines: "lines 1..n were acknowledged"
says where to begin again. So there are two activities. A task reads and hands over; the command itself waits
for the oldest chunk and reports it. What cannot be handed over goes the same way, as lines that were refused:
every line that was read is reported once, in its place. The first line that fails, for whatever reason, ends
the reading; what is on its way by then has a moment to arrive, and is reported, too.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import click

from quorate.client import AsyncProducer, Delivery
from quorate.client.admin.types import TopicDescription
from quorate.client.admin_calls import READ_TIMEOUT_S
from quorate.console.connecting import Clients, with_clients
from quorate.console.input_lines import CannotReadInput, read_lines
from quorate.console.output import CannotWriteOutput, forget_standard_output, print_json_line
from quorate.console.partition_check import check_partition_exists
from quorate.console.session import Session
from quorate.core.config import TopicConfig
from quorate.core.records import DECOMPRESSED_BYTES_MAX_DEFAULT
from quorate.errors import BatchTooLarge, DeliveryUnknown, InvalidRecord, QuorateError

__all__ = ["ProduceOptions", "parse_line", "produce_lines"]

#: Of what was read and is not reported yet; a chunk is what one read brings.
_CHUNKS_MAX: Final = 256
_BATCH_BYTES: Final = 128 << 10
_BUFFER_BYTES: Final = 64 << 20
#: How long what is on its way has to arrive when the command ends early.
_GRACE_S: Final = 1.0
#: How long nothing may happen before somebody who waits is told so.
_PATIENCE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    topic: str
    key_separator: str | None
    partition: int | None
    acks: str
    compression: str
    #: how long a record may take, failovers included
    timeout_s: float


class KeyValue(NamedTuple):
    key: bytes | None
    value: bytes


class _Chunk(NamedTuple):
    """Lines that were handed over together."""

    delivery: Delivery
    #: number of its first line
    first_line: int
    input_bytes: int


class _Refused(NamedTuple):
    """Lines that the producer did not take."""

    error: QuorateError
    first_line: int
    line_count: int


def produce_lines(session: Session, options: ProduceOptions, path: str | None) -> None:
    """Write every line; tells how many were acknowledged, however it ends."""
    with _input(path) as descriptor, _progress(session, descriptor) as advance:
        writing = _Writing(session, options, advance)
        try:
            with_clients(session.bootstrap, lambda clients: writing.run(clients, descriptor))
        except BrokenPipeError as error:
            # Not an end like any other: lines were left unwritten.
            forget_standard_output()
            click.echo(writing.summary(), err=True)
            raise CannotWriteOutput(error) from error
        except BaseException as error:
            # Also after --quiet: it is what tells where to begin again.
            if writing.is_begun:
                was_interrupted = isinstance(error, KeyboardInterrupt)
                click.echo(writing.summary(was_interrupted=was_interrupted), err=True)
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


class _Writing:
    def __init__(self, session: Session, options: ProduceOptions, advance: Callable[[int], None]) -> None:
        self._session = session
        self._options = options
        #: told of the bytes of each chunk that was acknowledged
        self._advance = advance
        #: oldest first; None: no more will come
        self._chunks: asyncio.Queue[_Chunk | _Refused | None] = asyncio.Queue()
        #: the one that is waited for
        self._oldest: _Chunk | None = None
        self._is_wait_told = False
        self._room = asyncio.Semaphore(_CHUNKS_MAX)
        self._prints = session.json
        #: records that were acknowledged, and that may be written although nobody says so
        self._acknowledged = 0
        self._unknown = 0
        #: so many lines from the first on were acknowledged, all of them
        self._lines_done = 0
        #: what the first line that was not acknowledged has met
        self._failure: QuorateError | None = None
        #: each line that was read is in the counts above; not so if somebody was in a hurry
        self._is_all_told = False
        #: input was looked at; before that, there is nothing to tell of it
        self.is_begun = False

    def summary(self, *, was_interrupted: bool = False) -> str:
        done = "sent" if self._options.acks == "0" else "acknowledged"
        text = f"{self._acknowledged} record(s) {done}"
        if self._lines_done:
            text += f" (lines 1..{self._lines_done}"
            text += ")" if self._acknowledged == self._lines_done else ", and some after them)"
        if self._unknown:
            text += f"; {self._unknown} more may be in the log"
        elif was_interrupted:
            text += "; no other line is in the log" if self._is_all_told else "; others may be in the log"
        return text

    async def run(self, clients: Clients, descriptor: int) -> None:
        async with clients.admin() as admin:
            with self._patience("answer from the cluster"):
                patience_s = min(self._options.timeout_s, READ_TIMEOUT_S)
                topic = await admin.describe_topic(self._options.topic, timeout=patience_s)
        check_partition_exists(topic, self._options.partition)
        limits = _Limits.of(topic, self._options.compression)
        self.is_begun = True
        producer = clients.producer(**self._producer_options(limits))
        reading = asyncio.create_task(self._hand_over(producer, descriptor, limits), name="lines")
        try:
            await self._report_all()
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            # In a task of its own: before Python 3.11.5 a time-out never ends in one that is cancelled.
            await asyncio.create_task(producer.close(_GRACE_S), name="close")
            self._report_rest()
        if self._failure is not None:
            raise self._failure
        reading.result()

    def _producer_options(self, limits: _Limits) -> dict[str, Any]:
        timeout_ms = max(round(self._options.timeout_s * 1000), 1)
        return {
            "acks": self._options.acks,
            "compression": self._options.compression,
            "batch_bytes": limits.batch_bytes,
            "buffer_bytes": limits.buffer_bytes,
            "delivery_timeout_ms": timeout_ms,
            # No less: what waits for room does so because records before it wait for their delivery.
            "max_block_ms": timeout_ms,
        }

    async def _hand_over(self, producer: AsyncProducer, descriptor: int, limits: _Limits) -> None:
        """Every line of the input, up to the first that is no record, or that the producer does not take."""
        line_number = 1
        try:
            async for lines in read_lines(descriptor, line_bytes_max=limits.line_bytes):
                records, refusal = self._parse(lines, line_number)
                if records and not await self._send(producer, records, line_number, lines):
                    return
                if refusal is not None:
                    self._chunks.put_nowait(_Refused(refusal, line_number + len(records), 1))
                    return
                line_number += len(lines)
        except BatchTooLarge as error:
            self._chunks.put_nowait(_Refused(error, line_number, 1))
        finally:
            self._chunks.put_nowait(None)

    async def _send(
        self, producer: AsyncProducer, records: Sequence[KeyValue], first_line: int, lines: Sequence[bytes]
    ) -> bool:
        """False: refused, and that is to be reported."""
        await self._room.acquire()
        try:
            with self._patience("answer from the cluster"):
                delivery = await producer.send_many(
                    self._options.topic,
                    [record.value for record in records],
                    keys=None if self._options.key_separator is None else [each.key for each in records],
                    partition=self._options.partition,
                )
        except QuorateError as error:
            self._chunks.put_nowait(_Refused(_at_line(first_line, error), first_line, len(records)))
            return False
        except asyncio.CancelledError:
            # Part of them may be on its way, and which is not known.
            unknown = DeliveryUnknown("ended while it was handed over; it may be in the log")
            self._chunks.put_nowait(_Refused(_at_line(first_line, unknown), first_line, len(records)))
            raise
        input_bytes = sum(map(len, lines)) + len(lines)
        self._chunks.put_nowait(_Chunk(delivery, first_line, input_bytes))
        return True

    @contextmanager
    def _patience(self, what: str) -> Iterator[None]:
        """One remark if this takes long, and no other until something was quick again."""
        is_slow = False

        def tell() -> None:
            nonlocal is_slow
            is_slow = True
            if not self._is_wait_told:
                self._is_wait_told = True
                why = "`quorate cluster health` says what is wrong"
                self._session.note(f"no {what} for {_PATIENCE_S:g} s; still trying; {why}")

        timer = asyncio.get_running_loop().call_later(_PATIENCE_S, tell)
        try:
            yield
        finally:
            timer.cancel()
        self._is_wait_told = is_slow

    def _parse(self, lines: Sequence[bytes], first_line: int) -> tuple[list[KeyValue], InvalidRecord | None]:
        """The records up to the first line that is none, and what is wrong with that line."""
        records: list[KeyValue] = []
        for number, line in enumerate(lines, start=first_line):
            try:
                records.append(parse_line(line, self._options.key_separator, number))
            except InvalidRecord as refusal:
                return records, refusal
        return records, None

    async def _report_all(self) -> None:
        """Until the end of the input, or the first line that failed."""
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, _Refused):
                self._report_refused(chunk)
                return
            self._oldest = chunk
            # The report says what befell whom.
            with self._patience("acknowledgement"), suppress(QuorateError):
                await chunk.delivery
            self._oldest = None
            self._report(chunk)
            if self._failure is not None:
                return
            self._room.release()

    def _report_rest(self) -> None:
        """The producer is closed: each of those that were on their way has its end."""
        if self._oldest is not None:
            self._report(self._oldest)
        while not self._chunks.empty():
            chunk = self._chunks.get_nowait()
            if isinstance(chunk, _Refused):
                self._report_refused(chunk)
            elif chunk is not None:
                self._report(chunk)
        self._is_all_told = True

    def _report_refused(self, lines: _Refused) -> None:
        error = lines.error
        self._unknown += lines.line_count if error.outcome_unknown else 0
        if self._failure is None:
            self._failure = error
        numbers = range(lines.first_line, lines.first_line + lines.line_count)
        self._print(
            _document(number, self._options.topic, self._options.partition, error) for number in numbers
        )

    def _report(self, chunk: _Chunk) -> None:
        """Count what was acknowledged, before anything is printed: that may fail."""
        errors = chunk.delivery.errors()
        count = len(chunk.delivery)
        self._acknowledged += count - len(errors)
        self._unknown += sum(error.outcome_unknown for error in errors.values())
        if self._failure is None:
            self._lines_done += min(errors, default=count)
        if errors and self._failure is None:
            index = min(errors)
            self._failure = _at_line(chunk.first_line + index, errors[index])
        if not errors:
            self._advance(chunk.input_bytes)
        self._print(
            _delivered_document(chunk, index, errors.get(index)) for index in range(len(chunk.delivery))
        )

    def _print(self, documents: Iterable[dict[str, Any]]) -> None:
        if not self._prints:
            return
        try:
            for document in documents:
                print_json_line(document)
            sys.stdout.flush()
        except OSError:
            self._prints = False
            raise


def _delivered_document(chunk: _Chunk, index: int, error: QuorateError | None) -> dict[str, Any]:
    place = chunk.delivery.metadata(index)
    return _document(chunk.first_line + index, place.topic, place.partition, error, offset=place.offset)


def _document(
    line: int, topic: str, partition: int | None, error: QuorateError | None, *, offset: int | None = None
) -> dict[str, Any]:
    return {
        "line": line,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "error": None if error is None else _error_document(error),
    }


def _error_document(error: QuorateError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "outcome_unknown": error.outcome_unknown}


def _at_line(number: int, error: QuorateError) -> QuorateError:
    return type(error)(f"line {number}: {error.message}", **(error.facts | {"line": number}))


def parse_line(line: bytes, key_separator: str | None, number: int) -> KeyValue:
    """``number`` is the line's, for the error."""
    if key_separator is None:
        return KeyValue(None, line)
    key, separator, value = line.partition(key_separator.encode())
    if not separator:
        raise InvalidRecord(f"line {number} has no key: {key_separator!r} does not occur in it", line=number)
    return KeyValue(key, value)


class _Limits(NamedTuple):
    #: a longer line cannot become a record, so there is no need to read all of it
    line_bytes: int
    batch_bytes: int
    buffer_bytes: int

    @classmethod
    def of(cls, topic: TopicDescription, compression: str) -> _Limits:
        told = topic.configs.get("max.message.bytes")
        message_bytes = TopicConfig().max_message_bytes if told is None else int(told.value)
        if compression == "none":
            line_bytes = batch_bytes = message_bytes
        else:
            # Compression may shrink a long line below the limit, and may make a full batch a little larger.
            line_bytes = max(message_bytes, DECOMPRESSED_BYTES_MAX_DEFAULT)
            batch_bytes = message_bytes - message_bytes // 8
        batch_bytes = max(min(batch_bytes, _BATCH_BYTES), 1)
        return cls(line_bytes, batch_bytes, max(_BUFFER_BYTES, line_bytes + _BATCH_BYTES))


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
