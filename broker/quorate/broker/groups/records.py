"""The records of groups: what a coordinator writes into ``__consumer_offsets``, and reads back.

The latest record of a key counts, and one without a value (a tombstone) removes what the key is about. So the
state of all groups is a function of the latest record of each key, and nothing else may be needed to make it:
compaction may remove any other record at any time, between two runs as well as while somebody reads.

Bytes are the same for the same record, on every broker: fields are written in their order, lists are sorted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from quorate.core.ids import PartitionId, TopicId
from quorate.core.records import murmur2
from quorate.errors import LogDamaged
from quorate.v1.group_pb2 import OffsetToCommit, TopicPartitions
from quorate.v1.group_records_pb2 import (
    GroupRecordKey,
    GroupValue,
    HeldPartitions,
    MemberValue,
    OffsetKey,
    OffsetValue,
)

__all__ = [
    "GroupRecord",
    "TopicIdPartition",
    "decode_record",
    "encode_record",
    "group_record",
    "held_partitions",
    "holdings_of",
    "member_record",
    "named_partitions",
    "offset_record",
    "partition_of",
    "partition_of_group",
    "partitions_of",
    "topic_partitions",
]

Value = GroupValue | MemberValue | OffsetValue

_POSITIVE: Final = 0x7FFFFFFF


class TopicIdPartition(NamedTuple):
    """A partition that is meant whatever becomes of its topic's name (rule 43)."""

    topic_id: TopicId
    partition: PartitionId

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.partition}"


class GroupRecord(NamedTuple):
    key: GroupRecordKey
    #: None: what the key is about exists no longer
    value: Value | None


def partition_of_group(group: str, partition_count: int) -> PartitionId:
    """Where a group's records are; the same for ever, as long as the number of partitions is."""
    return PartitionId((murmur2(group.encode()) & _POSITIVE) % partition_count)


def group_record(group: str, value: GroupValue | None) -> GroupRecord:
    return GroupRecord(GroupRecordKey(group=group, is_group=True), value)


def member_record(group: str, member_id: str, value: MemberValue | None) -> GroupRecord:
    return GroupRecord(GroupRecordKey(group=group, member_id=member_id), value)


def offset_record(group: str, partition: TopicIdPartition, value: OffsetValue | None) -> GroupRecord:
    about = OffsetKey(topic_id=partition.topic_id, partition=partition.partition)
    return GroupRecord(GroupRecordKey(group=group, offset=about), value)


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value."""
    key = record.key.SerializeToString(deterministic=True)
    value = record.value
    return key, None if value is None else value.SerializeToString(deterministic=True)


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """None: about something that only a newer broker knows of; it is left alone."""
    try:
        about = GroupRecordKey.FromString(key)
        kind = about.WhichOneof("about")
        if kind is None:
            return None
        return GroupRecord(about, None if value is None else _value_of(kind, value))
    except DecodeError as error:
        # Left out, it could be an offset that the group has come to: the group would begin anew.
        raise LogDamaged(f"a record of {len(key)} bytes of key is none of a group: {error}") from None


def _value_of(kind: str, value: bytes) -> Value:
    if kind == "is_group":
        return GroupValue.FromString(value)
    if kind == "member_id":
        return MemberValue.FromString(value)
    return OffsetValue.FromString(value)


# -- sets of partitions, as messages have them


def topic_partitions(
    partitions: Iterable[TopicIdPartition], names: Mapping[TopicId, str] | None = None
) -> list[TopicPartitions]:
    """In one order, whatever the order that they come in. ``names``: of topics, if it is to say them."""
    by_topic: defaultdict[TopicId, list[PartitionId]] = defaultdict(list)
    for topic_id, partition in partitions:
        by_topic[topic_id].append(partition)
    names = names or {}
    return [
        TopicPartitions(
            topic_id=topic_id, topic=names.get(topic_id, ""), partitions=sorted(by_topic[topic_id])
        )
        for topic_id in sorted(by_topic)
    ]


def partition_of(message: OffsetKey | OffsetToCommit) -> TopicIdPartition:
    return TopicIdPartition(TopicId(message.topic_id), PartitionId(message.partition))


def named_partitions(messages: Iterable[TopicPartitions]) -> list[TopicIdPartition]:
    """In the order in which they are named."""
    return [each for message in messages for each in _partitions_in(message)]


def partitions_of(messages: Iterable[TopicPartitions]) -> frozenset[TopicIdPartition]:
    return frozenset(named_partitions(messages))


def held_partitions(holdings: Mapping[TopicIdPartition, int]) -> list[HeldPartitions]:
    """``holdings``: the member epoch since which each is held."""
    grouped: defaultdict[tuple[TopicId, int], list[PartitionId]] = defaultdict(list)
    for (topic_id, partition), since_epoch in holdings.items():
        grouped[topic_id, since_epoch].append(partition)
    return [
        HeldPartitions(topic_id=topic_id, since_epoch=since_epoch, partitions=sorted(partitions))
        for (topic_id, since_epoch), partitions in sorted(grouped.items())
    ]


def holdings_of(messages: Iterable[HeldPartitions]) -> dict[TopicIdPartition, int]:
    return {each: message.since_epoch for message in messages for each in _partitions_in(message)}


def _partitions_in(message: TopicPartitions | HeldPartitions) -> Iterator[TopicIdPartition]:
    topic_id = TopicId(message.topic_id)
    return (TopicIdPartition(topic_id, PartitionId(number)) for number in message.partitions)
