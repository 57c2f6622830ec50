"""The producer's batches are the same, compiled or not: their records, their bounds, their partitions."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.client.producer import accumulator as accumulating
from quorate.client.producer import batch as batches
from quorate.client.producer import bulk
from quorate.client.producer.accumulator import Accumulator
from quorate.client.producer.bulk import Placement, columns_of, plan
from quorate.client.producer.options import ProducerOptions
from quorate.core.clock import SystemClock
from quorate.core.ids import TimestampMs, TopicName
from quorate.v1 import broker_pb2
from tests.unit.records.implementations import BOTH

VALUES = st.none() | st.binary(max_size=200)
KEYS = st.none() | st.sampled_from([b"a", b"b", b"c", b"d"])
SENDS = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.lists(st.tuples(VALUES, KEYS), max_size=40)), max_size=8
)
PARTITIONS = 3
BATCH_BYTES = 1_000


def use(patch: pytest.MonkeyPatch, codec: ModuleType) -> None:
    patch.setattr(accumulating, "record_bytes", codec.record_bytes)
    patch.setattr(accumulating, "Intake", codec.Intake)
    patch.setattr(accumulating, "partition_for_key", codec.partition_for_key)
    patch.setattr(batches, "ColumnBuilder", codec.ColumnBuilder)
    for name in ("are_plain_fields", "picked", "record_ends", "rows_by_partition"):
        patch.setattr(bulk, name, getattr(codec, name))


class StoppedClock(SystemClock):
    def wall_ms(self) -> TimestampMs:
        return TimestampMs(7)


def batches_of(sends: list[Any]) -> list[Any]:
    """What waits in each partition after all of it was sent."""
    made = Accumulator(
        ProducerOptions(batch_bytes=BATCH_BYTES, buffer_bytes=10_000_000),
        clock=StoppedClock(),
        rng=random.Random(7),
        wake=lambda: None,
        is_on_loop=lambda: False,
    )
    topic = made.update_topic(TopicName("t"), PARTITIONS, list(range(PARTITIONS)))
    for number, (is_bulk, has_keys, records) in enumerate(sends):
        if is_bulk:
            keys = [key for _, key in records] if has_keys else None
            columns = columns_of(
                [value for value, _ in records], keys, None, key_serializer=None, value_serializer=None
            )
            planned = plan(columns, topic, None, number, made)
            assert Placement(made, topic, planned, broker_pb2.ACKS_ALL, None).place() is None
            continue
        for value, key in records:
            chosen = key if has_keys else None
            if value is not None and chosen is None and made.append_value(topic, value) is not None:
                continue
            made.append(
                topic, value, chosen, None, None, number, broker_pb2.ACKS_ALL, None, None, ticket=None
            )
    found = [
        [
            (each.columns.values, each.columns.keys, each.columns.timestamps, each.columns.bytes)
            for each in (*queue.waiting, *([queue.open] if queue.open else []))
        ]
        for queue in topic.queues
    ]
    return [found, made.buffer.used]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sends=SENDS)
def test_batches_have_the_same_records_and_bounds(monkeypatch: pytest.MonkeyPatch, sends: list[Any]) -> None:
    outcomes = []
    for codec in BOTH:
        with monkeypatch.context() as patch:
            use(patch, codec)
            outcomes.append(batches_of(sends))
    assert outcomes == [outcomes[0]] * len(BOTH)


@given(sends=SENDS)
def test_no_batch_of_several_records_is_larger_than_its_bound(sends: list[Any]) -> None:
    for batches_of_one in batches_of(sends)[0]:
        for values, _, _, size in batches_of_one:
            assert size <= BATCH_BYTES or len(values) == 1


@given(values=st.lists(st.binary(max_size=300), max_size=60))
def test_value_alone_goes_where_any_record_without_a_key_goes(values: list[bytes]) -> None:
    """The short way into a batch is only that: the same batches, and the same count of what is used."""
    sends = [(False, False, [(value, None) for value in values])]
    short = batches_of(sends)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Accumulator, "append_value", lambda *_: None)
        long = batches_of(sends)
    assert [[each[0] for each in queue] for queue in short[0]] == [
        [each[0] for each in queue] for queue in long[0]
    ]
    assert short[1] == long[1]
