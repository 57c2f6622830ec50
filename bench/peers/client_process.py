"""Clients of other systems, each in a process of its own, as a load and a reader use them.

A record is on record before its line is written, and an end counts when its line has come: what passes
between is longer than what the library itself measures, never shorter, so that no order is claimed that was
not there. A client that does not say that a record was refused is believed not to know.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Final

from bench.peers.tools import ROOT
from quorate.chaos.peers.peer import NO_TIMESTAMP, PeerUnavailable
from quorate.client.producer import RecordMetadata
from quorate.client.producer.batch import OnDelivery
from quorate.core.ids import Offset, TimestampMs, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.errors import DeliveryUnknown

__all__ = ["ProcessReader", "ProcessSender", "reading", "sending"]

_LINE_BYTES_MAX: Final = 64 << 20
_POLL_S: Final = 1.0
#: for the last answers; longer than any of the clients waits itself
_END_TIMEOUT_S: Final = 180.0
_SAID_MAX: Final = 4_000


@asynccontextmanager
async def _running(command: Sequence[str], errors: IO[bytes]) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
        cwd=ROOT,
        limit=_LINE_BYTES_MAX,
        # Ctrl-C is for us, and we end it.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class _Client:
    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._errors = errors
        self._to = process.stdin
        self._from = process.stdout

    async def _line(self) -> Any:
        """None: it has ended."""
        line = await self._from.readline()
        if line:
            return json.loads(line)
        # Whoever signals a child that has just ended takes its status away from whoever waits for it.
        await self._process.wait()
        return None

    def _ended(self) -> PeerUnavailable:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")[-_SAID_MAX:]
        return PeerUnavailable(f"a client ended too early:\n{said}")


# -- senders


class ProcessSender(_Client):
    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        super().__init__(process, errors)
        self._count = 0
        self._waiting: dict[int, tuple[str, int, OnDelivery]] = {}
        self._is_over = False
        #: it has ended before it was over
        self._failure: PeerUnavailable | None = None

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None, partition: int, on_delivery: OnDelivery
    ) -> None:
        """Keys are for choosing partitions, which was done."""
        del key
        if self._failure is not None:
            raise self._failure
        self._count += 1
        self._waiting[self._count] = (topic, partition, on_delivery)
        line = json.dumps([self._count, topic, partition, value.decode("latin-1")])
        # A process that has died is found out by `answers`, which tells of this record, too.
        with suppress(ConnectionError):
            self._to.write(line.encode() + b"\n")
            await self._to.drain()

    async def answers(self) -> None:
        """Until the process ends. Whatever it has not told of then is unknown."""
        while (line := await self._line()) is not None:
            number, offset, *why = line
            topic, partition, on_delivery = self._waiting.pop(number)
            if offset is None:
                on_delivery(None, DeliveryUnknown(why[0]))
            else:
                on_delivery(RecordMetadata(topic, partition, Offset(offset), TimestampMs(NO_TIMESTAMP)), None)
        if not self._is_over:
            self._failure = self._ended()
        waiting, self._waiting = self._waiting, {}
        for _, _, on_delivery in waiting.values():
            on_delivery(None, DeliveryUnknown("the client ended"))

    def send_no_more(self) -> None:
        self._is_over = True
        self._to.close()


@asynccontextmanager
async def sending(*command: str) -> AsyncIterator[ProcessSender]:
    """On the way out every record has its end."""
    with tempfile.TemporaryFile() as errors:
        async with _running(command, errors) as process:
            sender = ProcessSender(process, errors)
            answering = asyncio.create_task(sender.answers())
            try:
                yield sender
                sender.send_no_more()
                async with asyncio.timeout(_END_TIMEOUT_S):
                    await answering
            finally:
                answering.cancel()
                await asyncio.wait([answering])


# -- readers


class ProcessReader(_Client):
    async def poll(self) -> Sequence[ConsumerRecord]:
        try:
            async with asyncio.timeout(_POLL_S):
                line = await self._line()
        except TimeoutError:
            return []
        if line is None:
            raise self._ended()
        return [
            ConsumerRecord(topic, partition, offset, NO_TIMESTAMP, None, value.encode("latin-1"), (), -1)
            for topic, partition, offset, value in line
        ]


@asynccontextmanager
async def reading(*command: str, starts: Mapping[TopicPartition, Offset]) -> AsyncIterator[ProcessReader]:
    """The last argument of the command becomes where to begin."""
    document = json.dumps([[topic, number, start] for (topic, number), start in starts.items()])
    with tempfile.TemporaryFile() as errors:
        async with _running((*command, document), errors) as process:
            yield ProcessReader(process, errors)
