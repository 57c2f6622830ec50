"""One light client against one system, in a process of its own; prints what it measured as JSON.

    python -m bench.light produce quorate 127.0.0.1:9092 TOPIC --batch-bytes 16384 --connections 48
    python -m bench.light consume kafka 127.0.0.1:9092 TOPIC --seconds 5

Batches are made before the first is sent. Each connection has one batch on its way: it sends the next when
the one before is acknowledged by all replicas. A reader takes batches as bytes and looks at their headers
only; at the end of a partition it begins again, so that it reads for as long as it is told to.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import Any, Final

import uvloop

from bench.light.lines import KafkaLine, Line, QuorateLine, leaders
from bench.light.senders import KafkaSender, QuorateSender, Sender
from bench.light.tally import Tally
from quorate.core.records import HEADER_BYTES, encode_values

_LINES: Final[dict[str, Any]] = {"kafka": KafkaLine, "quorate": QuorateLine}
_SENDERS: Final[dict[str, Any]] = {"kafka": KafkaSender, "quorate": QuorateSender}
_RECORD_BYTES: Final = 1_000
_FETCH_BYTES: Final = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.light", description=__doc__)
    parser.add_argument("work", choices=("produce", "consume"))
    parser.add_argument("system", choices=sorted(_LINES))
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--batch-bytes", type=int, default=128 * 1024)
    parser.add_argument("--connections", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warm-up", type=float, default=1.0)
    arguments = parser.parse_args()
    work = produce if arguments.work == "produce" else consume
    json.dump(uvloop.run(work(arguments)), sys.stdout)


def batch_of(size: int) -> bytes:
    """Of records of 1 KB, as many as fit, the last one filling it up; about ``size``."""
    count = max(1, size // _RECORD_BYTES)
    rest = size - HEADER_BYTES - (count - 1) * _RECORD_BYTES
    values = [bytes(_RECORD_BYTES - 10)] * (count - 1) + [bytes(max(rest - 10, 1))]
    return encode_values(values, timestamp_ms=time.time_ns() // 1_000_000)


async def produce(arguments: argparse.Namespace) -> dict[str, Any]:
    batch = batch_of(arguments.batch_bytes)
    addresses = await leaders(arguments.system, arguments.bootstrap, arguments.topic)
    tally = Tally(warm_up_s=arguments.warm_up, seconds=arguments.seconds)
    producers = []
    for number in range(arguments.connections):
        partition = number % len(addresses)
        producer = _Producer(len(batch), tally)
        producer.sender = _SENDERS[arguments.system](
            producer, addresses[partition], arguments.topic, partition, batch
        )
        await producer.sender.open()
        producers.append(producer)
    tally.begin()
    for producer in producers:
        producer.begin()
    await asyncio.gather(*(producer.is_over for producer in producers))
    for producer in producers:
        await producer.sender.close()
    return {**tally.document(), "batch_bytes": len(batch)}


class _Producer:
    """A connection and its batch, sent again as soon as it is acknowledged."""

    sender: Sender

    def __init__(self, size: int, tally: Tally) -> None:
        self._size = size
        self._tally = tally
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin(self) -> None:
        self._asked_at = time.perf_counter()
        self.sender.send()

    def on_acknowledged(self) -> None:
        if self._tally.add(self._size, self._asked_at):
            self.begin()
        else:
            self.is_over.set_result(None)

    def on_failure(self, error: Exception) -> None:
        if not self.is_over.done():
            self.is_over.set_exception(error)


async def consume(arguments: argparse.Namespace) -> dict[str, Any]:
    addresses = await leaders(arguments.system, arguments.bootstrap, arguments.topic)
    made = _LINES[arguments.system]
    lines: list[Line] = [made(address, arguments.topic, number) for number, address in enumerate(addresses)]
    for line in lines:
        await line.open()
    tally = Tally(warm_up_s=arguments.warm_up, seconds=arguments.seconds)
    tally.begin()
    async with asyncio.TaskGroup() as group:
        for line in lines:
            group.create_task(_consume(line, tally))
    document = tally.document()
    for line in lines:
        await line.close()
    return document


async def _consume(line: Line, tally: Tally) -> None:
    offset = 0
    while True:
        asked_at = time.perf_counter()
        batches = await line.fetch(offset, _FETCH_BYTES)
        if not tally.add(len(batches), asked_at):
            return
        offset = next_offset(batches) or 0


def next_offset(batches: bytes) -> int | None:
    """After the last whole batch; None: there is none. Kafka may cut the last one off."""
    at, found = 0, None
    while at + HEADER_BYTES <= len(batches):
        end = at + 12 + int.from_bytes(batches[at + 8 : at + 12], "big")
        if end > len(batches):
            break
        base = int.from_bytes(batches[at : at + 8], "big")
        found = base + int.from_bytes(batches[at + 23 : at + 27], "big") + 1
        at = end
    return found


if __name__ == "__main__":
    main()
