"""The light client: what it sends is what brokers take, and what it counts is what came."""

from __future__ import annotations

import asyncio
import struct

import pytest

from bench.light import kafka_wire
from bench.light.__main__ import batch_of, next_offset
from bench.light.lines import leaders
from bench.light.senders import KafkaSender, QuorateSender
from bench.light.tally import Tally
from quorate.core.records import check_batch, decode_batch, patch_header
from quorate.errors import Unavailable
from tests.unit.client.null_broker import NullBroker


@pytest.mark.parametrize("size", [1024, 16 * 1024, 128 * 1024])
def test_batch_has_about_the_size_that_was_asked_for(size: int) -> None:
    batch = batch_of(size)
    assert abs(len(batch) - size) < size // 50 + 20
    assert len(decode_batch(batch)) == max(1, size // 1000)


def test_reader_goes_on_after_the_last_whole_batch() -> None:
    first, second = bytearray(batch_of(4096)), bytearray(batch_of(4096))
    patch_header(second, 0, base_offset=4, leader_epoch=1)
    both = bytes(first + second)
    assert next_offset(both) == 4 + check_batch(both, len(first)).record_count
    assert next_offset(both[:-1]) == 4, "what was cut off does not count"
    assert next_offset(b"") is None


def test_kafkas_metadata_tells_the_leader_of_each_partition() -> None:
    def text(content: str) -> bytes:
        return struct.pack(">h", len(content)) + content.encode()

    brokers = b"".join(struct.pack(">i", n) + text("h") + struct.pack(">ih", 90 + n, -1) for n in (1, 2))
    partitions = b"".join(
        struct.pack(">hii", 0, number, leader) + struct.pack(">iiii", 1, leader, 1, leader)
        for number, leader in ((1, 1), (0, 2))
    )
    topic = struct.pack(">h", 0) + text("t") + b"\0" + struct.pack(">i", 2) + partitions
    answer = struct.pack(">ii", 0, 2) + brokers + struct.pack(">ii", 1, 1) + topic
    assert kafka_wire.leaders_of(answer) == ["h:92", "h:91"]


def test_error_in_kafkas_answer_is_seen() -> None:
    answer = struct.pack(">ii", 0, 1) + b"\0\1t" + struct.pack(">iih", 1, 0, 6) + bytes(24)
    assert kafka_wire.produced_error(answer) == 6


class Hearing:
    """What a sender tells, for a test to wait for."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Exception | None] = asyncio.Queue()

    def on_acknowledged(self) -> None:
        self.told.put_nowait(None)

    def on_failure(self, error: Exception) -> None:
        self.told.put_nowait(error)


async def test_batches_are_acknowledged_one_after_the_other() -> None:
    broker = NullBroker(partitions=2)
    address = await broker.start()
    assert await leaders("quorate", address, "t") == [address, address]
    hearing = Hearing()
    sender = QuorateSender(hearing, address, "t", 1, batch_of(4096))
    await sender.open()
    for _ in range(3):
        sender.send()
        assert await hearing.told.get() is None
    await sender.close()
    await broker.stop()
    assert broker.next_offsets["t", 1] == 3 * 4


async def test_a_broker_that_is_not_there_is_told_when_the_sender_opens() -> None:
    sender = QuorateSender(Hearing(), "127.0.0.1:1", "t", 0, batch_of(1024))
    with pytest.raises(Unavailable):
        await sender.open()
    await sender.close()


async def test_kafkas_answers_are_whole_before_they_are_told_and_an_error_is_one() -> None:
    def answer(error: int) -> bytes:
        content = struct.pack(">ii", 0, 1) + b"\0\1t" + struct.pack(">iih", 1, 0, error) + bytes(24)
        return struct.pack(">i", len(content)) + content

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for error in (0, 6):
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            for byte in answer(error):
                writer.write(bytes([byte]))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    hearing = Hearing()
    sender = KafkaSender(hearing, f"{host}:{port}", "t", 0, batch_of(1024))
    await sender.open()
    sender.send()
    assert await hearing.told.get() is None
    sender.send()
    assert "error 6 for a batch" in str(await hearing.told.get())
    assert "has closed the connection" in str(await hearing.told.get())
    await sender.close()
    server.close()


def test_nothing_counts_before_the_warm_up_is_over_or_after_the_end() -> None:
    def begun(warm_up_s: float, seconds: float) -> Tally:
        tally = Tally(warm_up_s=warm_up_s, seconds=seconds)
        tally.begin()
        return tally

    assert begun(1000, 1).add(10, 0.0)
    assert begun(0, 0).add(10, 0.0) is False
    counting = begun(0, 1000)
    assert counting.add(10, 0.0)
    assert counting.document()["mb_per_s"] > 0
