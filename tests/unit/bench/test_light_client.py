"""The light client: what it sends is what brokers take, and what it counts is what came."""

from __future__ import annotations

import struct

import pytest

from bench.light import kafka_wire
from bench.light.__main__ import batch_of, next_offset
from bench.light.lines import QuorateLine, leaders
from bench.light.tally import Tally
from quorate.core.records import check_batch, decode_batch, patch_header
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


async def test_batches_are_acknowledged_one_after_the_other() -> None:
    broker = NullBroker(partitions=2)
    address = await broker.start()
    assert await leaders("quorate", address, "t") == [address, address]
    line = QuorateLine(address, "t", 1, batch_of(4096))
    await line.open()
    for _ in range(3):
        await line.produce()
    await line.close()
    await broker.stop()
    assert broker.next_offsets["t", 1] == 3 * 4


def test_nothing_counts_before_the_warm_up_is_over_or_after_the_end() -> None:
    warming = Tally(warm_up_s=1000, seconds=1)
    assert warming.add(10, 0.0)
    assert Tally(warm_up_s=0, seconds=0).add(10, 0.0) is False
    counting = Tally(warm_up_s=0, seconds=1000)
    assert counting.add(10, 0.0)
    assert counting.document()["mb_per_s"] > 0
