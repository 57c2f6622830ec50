"""Clients in processes of their own tell of every record, and none of their deaths goes unnoticed."""

from __future__ import annotations

import asyncio
import sys

import pytest

from bench.peers.client_process import ProcessReader, reading, sending
from quorate.chaos.peers.peer import PeerUnavailable
from quorate.client.producer import RecordMetadata
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError

#: acknowledges everything but "no"; "die" is the end
SENDER = """
import json, sys
from bench.peers.client_lines import acknowledged, failed
for line in sys.stdin:
    number, topic, partition, value = json.loads(line)
    if value == "die":
        sys.exit("a last word")
    if value == "no":
        failed(number, "refused, or not")
    else:
        acknowledged(number, 10 * partition + number)
"""
READER = """
import json, sys
from bench.peers.client_lines import read
for topic, number, start in json.loads(sys.argv[1]):
    read([(topic, number, start, b"a"), (topic, number, start + 1, b"b\\xff")])
sys.exit("a last word")
"""
PARTITION = TopicPartition(TopicName("topic"), PartitionId(2))


class Ends:
    def __init__(self) -> None:
        self.offsets: list[Offset | None] = []
        self.errors: list[QuorateError] = []
        self.any = asyncio.Event()

    def __call__(self, metadata: RecordMetadata | None, error: QuorateError | None) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            assert metadata is not None
            self.offsets.append(metadata.offset)
        self.any.set()


async def poll_for_ever(reader: ProcessReader) -> None:
    while True:
        await reader.poll()


async def test_every_record_has_its_end_when_the_sender_is_left() -> None:
    ends = Ends()
    async with sending(sys.executable, "-c", SENDER) as sender:
        for value in (b"yes", b"no", b"yes"):
            await sender.send("topic", value, key=None, partition=2, on_delivery=ends)
    assert ends.offsets == [21, 23]
    assert [(error.message, error.outcome_unknown) for error in ends.errors] == [("refused, or not", True)]


async def test_a_sender_that_dies_leaves_unknown_ends_and_takes_no_more() -> None:
    ends = Ends()
    async with sending(sys.executable, "-c", SENDER) as sender:
        await sender.send("topic", b"die", key=None, partition=2, on_delivery=ends)
        await ends.any.wait()
        with pytest.raises(PeerUnavailable, match="a last word"):
            await sender.send("topic", b"yes", key=None, partition=2, on_delivery=ends)
    assert [error.outcome_unknown for error in ends.errors] == [True]
    assert ends.offsets == []


async def test_a_reader_shows_records_as_they_are_and_its_death() -> None:
    async with reading(sys.executable, "-c", READER, starts={PARTITION: Offset(7)}) as reader:
        while not (records := await reader.poll()):
            pass
        assert [(record.topic, record.partition, record.offset, record.value) for record in records] == [
            ("topic", 2, 7, b"a"),
            ("topic", 2, 8, b"b\xff"),
        ]
        with pytest.raises(PeerUnavailable, match="a last word"):
            await poll_for_ever(reader)
