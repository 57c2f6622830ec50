"""What a record costs the clients, before it is on its way and after it came: calls, counted and not timed.

A regression here is a decision: where a record is worth more work, say why and raise its bound. Where it
needs less, lower it.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bench.client_path.answering_transport import ADDRESS, AnsweringTransport
from quorate.client.consumer.buffer import Account, Chunk, FetchBuffer
from quorate.client.consumer.positions import BEGINNING, PartitionReader
from quorate.client.producer.engine import ProducerEngine
from quorate.client.producer.options import ProducerOptions
from quorate.core.clock import SystemClock
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.records import CODEC, encode_values
from quorate.v1 import broker_pb2
from tests.counted_work import counted_calls

pytestmark = pytest.mark.skipif(CODEC == "pure", reason="the bounds are those of the compiled codec")

RECORDS = 1_000
#: calls of one ``send``, from its arguments to its future
SEND_VALUE_BOUND = 4
SEND_BOUND = 7
SEND_KEYED_BOUND = 8
#: calls of one ``send_many``, however many records it has, into one partition and into six
SEND_MANY_BOUND = 31
SEND_MANY_SIX_BOUND = 142
#: calls of a poll that brings a whole batch, however many records it has
POLL_BOUND = 27


def ours(calls: Counter[str]) -> int:
    return calls.total() - calls[""]


def engine(partitions: int) -> ProducerEngine:
    made = ProducerEngine(
        ProducerOptions(batch_bytes=1_000_000),
        AnsweringTransport(partitions),
        [ADDRESS],
        clock=SystemClock(),
        rng=random.Random(1),
        wake=lambda _: None,
    )
    made.accumulator.update_topic(TopicName("t"), partitions, list(range(partitions)))
    return made


def calls_of_sends(key: bytes | None) -> int:
    made = engine(1)
    topic = made.accumulator.topics["t"]
    made.append(topic, b"v", key, None, None, None, None, None, None)
    with counted_calls() as calls:
        for _ in range(RECORDS):
            made.append(topic, b"v" * 100, key, None, None, None, None, None, None)
    return round(ours(calls) / RECORDS)


def calls_of_values() -> int:
    """A value and nothing else, into a batch that is open."""
    made = engine(1).accumulator
    topic = made.topics["t"]
    made.append(topic, b"v", None, None, None, None, broker_pb2.ACKS_ALL, None, None, ticket=None)
    with counted_calls() as calls:
        for _ in range(RECORDS):
            assert made.append_value(topic, b"v" * 100) is not None
    return round(ours(calls) / RECORDS)


def calls_of_many(partitions: int, *, has_keys: bool) -> int:
    made = engine(partitions)
    topic = made.accumulator.topics["t"]
    values = [b"v" * 100] * RECORDS
    keys = [b"%d" % number for number in range(RECORDS)] if has_keys else None
    made.plan(topic, values, keys, None, None, None, None, None).place()  # opens the batches
    with counted_calls() as calls:
        assert made.plan(topic, values, keys, None, None, None, None, None).place() is None
    return ours(calls)


def test_send_costs_no_more_calls_than_it_did() -> None:
    assert calls_of_values() <= SEND_VALUE_BOUND
    assert calls_of_sends(None) <= SEND_BOUND
    assert calls_of_sends(b"key") <= SEND_KEYED_BOUND


def test_many_records_cost_calls_by_partition_and_none_by_record() -> None:
    assert calls_of_many(1, has_keys=False) <= SEND_MANY_BOUND
    assert calls_of_many(6, has_keys=True) <= SEND_MANY_SIX_BOUND


def test_poll_costs_calls_by_batch_and_none_by_record() -> None:
    reader = PartitionReader(TopicPartition(TopicName("t"), PartitionId(0)), BEGINNING)
    buffer = FetchBuffer()
    batch = encode_values([b"v" * 100] * RECORDS, timestamp_ms=1)
    account = Account(lambda: None)
    for _ in range(2):
        buffer.put(reader, Chunk(batch, from_offset=0, next_offset=RECORDS, account=account))
    buffer.take(RECORDS)  # what is done once is done
    with counted_calls() as calls:
        assert len(buffer.take(RECORDS)) == RECORDS
    assert ours(calls) <= POLL_BOUND
