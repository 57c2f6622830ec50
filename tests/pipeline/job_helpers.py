"""What the tests of jobs share: records with a known truth, and what a topic holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest

from quorate.client import TopicPartition
from quorate.core.ids import PartitionId, TopicName
from quorate.testing import LocalCluster

__all__ = ["KEPT", "LONG", "Held", "fill_topic", "topic_content", "without_offsets"]

#: jobs in processes of their own: each start of a JVM costs seconds
LONG: Final = pytest.mark.skipif(
    "PIPELINE_STANDALONE" not in os.environ, reason="it takes a minute: `make pipeline-test` runs it"
)
#: 23:59:00 of a day: records of a minute and more fall on two dates
_START_MS: Final = 1_767_225_540_000
_KEYS: Final = 40
#: of topics with such records: they are older than what is kept by default
KEPT: Final = {"retention.ms": "-1"}


class Held(NamedTuple):
    """A record as a consumer sees it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def fill_topic(
    cluster: LocalCluster, topic: str, count: int, *, first: int = 0, tombstones: bool = False
) -> None:
    """Records of some keys, a tenth of a second apart; with ``tombstones`` every seventh deletes its key."""
    with cluster.producer() as producer:
        for number in range(first, first + count):
            value = b'{"number": %d, "amount": %d.25}' % (number, number % 10)
            producer.send(
                topic,
                None if tombstones and number % 7 == 0 else value,
                key=b"k%d" % (number * 31 % _KEYS),
                headers=[("n", b"%d" % number)] if number % 3 == 0 else None,
                timestamp_ms=_START_MS + number * 100,
            )
        producer.flush()


def topic_content(cluster: LocalCluster, topic: str) -> list[Held]:
    """Everything up to where it ends now, by partition and offset."""
    with cluster.admin() as admin:
        ends = {
            int(place.partition): listed.offset or 0 for place, listed in admin.list_offsets(topic).items()
        }
    left = {partition for partition, end in ends.items() if end > 0}
    found: list[Held] = []
    with cluster.consumer() as consumer:
        consumer.assign([TopicPartition(TopicName(topic), PartitionId(each)) for each in sorted(left)])
        while left:
            for record in consumer.poll(timeout=1.0):
                headers = tuple((key, value) for key, value in record.headers)
                found.append(
                    Held(record.partition, record.offset, record.timestamp, record.key, record.value, headers)
                )
                if record.offset + 1 >= ends[record.partition]:
                    left.discard(record.partition)
    return sorted(found)


def without_offsets(held: Sequence[Held]) -> list[tuple[object, ...]]:
    return [(each.partition, each.timestamp_ms, each.key, each.value, each.headers) for each in held]
