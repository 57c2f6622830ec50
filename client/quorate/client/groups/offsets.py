"""How far a group has come in a partition, as an application gives and gets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from quorate.client.arguments import (
    check_integer_or_none,
    check_offset,
    check_partition_argument,
    check_record_argument,
    shown,
)
from quorate.client.groups.partitions import GroupPartition
from quorate.core.ids import TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.errors import InvalidRequest
from quorate.v1 import group_pb2

__all__ = ["OffsetAndMetadata", "offset_from", "offset_given", "offset_to", "offsets_given"]


class OffsetAndMetadata(NamedTuple):
    """What is committed: where to go on, how to tell that it is still there, and the application's word."""

    #: of the next record to read: one more than that of the last one that is done
    offset: int
    #: of the last record that is done; None: not known, and what vanished before the offset is not noticed
    leader_epoch: int | None = None
    #: anything that is to be found with it
    metadata: str = ""

    @classmethod
    def after(cls, record: ConsumerRecord, metadata: str = "") -> Self:
        """This record, and all before it in its partition, are done."""
        check_record_argument(record)
        return cls(record.offset + 1, record.leader_epoch, metadata)


def offset_given(given: object) -> OffsetAndMetadata:
    """An application may give a bare offset, or all of it."""
    if not isinstance(given, OffsetAndMetadata):
        return OffsetAndMetadata(check_offset("offset", given))
    if not isinstance(given.metadata, str):
        raise InvalidRequest(f"metadata is {shown(given.metadata)}: a str is expected", argument="metadata")
    check_offset("offset", given.offset)
    if isinstance(given.leader_epoch, str):
        raise InvalidRequest(
            f"leader_epoch is {shown(given.leader_epoch)}: an int is expected; a note is given as metadata=…",
            argument="leader_epoch",
        )
    check_integer_or_none("leader_epoch", given.leader_epoch, bits=32)
    return given


def offsets_given(given: object) -> dict[TopicPartition, OffsetAndMetadata]:
    if not isinstance(given, Mapping):
        raise InvalidRequest(
            f"offsets is {shown(given)}: a mapping from partitions to offsets is expected", argument="offsets"
        )
    return {check_partition_argument(partition): offset_given(offset) for partition, offset in given.items()}


def offset_to(partition: GroupPartition, offset: OffsetAndMetadata) -> group_pb2.OffsetToCommit:
    return group_pb2.OffsetToCommit(
        topic_id=partition.topic_id,
        topic=partition.topic,
        partition=partition.partition,
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def offset_from(message: group_pb2.CommittedOffset) -> OffsetAndMetadata | None:
    """None: nothing is committed."""
    if not message.HasField("offset"):
        return None
    epoch = message.leader_epoch if message.HasField("leader_epoch") else None
    return OffsetAndMetadata(message.offset, epoch, message.metadata)
