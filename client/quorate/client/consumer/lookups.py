"""Questions about positions that only a partition's leader can answer: where is it, and is it still good.

Both are asked for many partitions in one call, in the leader epoch that metadata names (rule 3), and answered
for each of them alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.client.consumer.positions import EpochEnd, PartitionReader
from quorate.core.transport import Channel, method_of
from quorate.errors import QuorateError, UnknownServerError
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import broker_pb2

__all__ = ["Question", "look_up_offsets", "validate_positions"]

_BROKER: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
_LIST_OFFSETS: Final = method_of(
    _BROKER, "ListOffsets", broker_pb2.ListOffsetsRequest, broker_pb2.ListOffsetsResponse
)
_OFFSET_FOR_LEADER_EPOCH: Final = method_of(
    _BROKER,
    "OffsetForLeaderEpoch",
    broker_pb2.OffsetForLeaderEpochRequest,
    broker_pb2.OffsetForLeaderEpochResponse,
)


@dataclass(frozen=True, slots=True)
class Question:
    """About one partition, as it was when the question left."""

    reader: PartitionReader
    generation: int
    #: in which it is asked
    leader_epoch: int
    #: of the last record that was read; for validation
    read_epoch: int | None

    @property
    def is_stale(self) -> bool:
        """The application has sought meanwhile, or there is another leader."""
        reader = self.reader
        return reader.generation != self.generation or reader.leader_epoch != self.leader_epoch


async def look_up_offsets(
    channel: Channel, questions: Sequence[Question], *, timeout_s: float
) -> list[tuple[Question, QuorateError]]:
    """Readers learn where their `start` is; returned are those that did not."""
    request = broker_pb2.ListOffsetsRequest()
    for question in questions:
        start, (topic, partition) = question.reader.start, question.reader.topic_partition
        assert start is not None
        request.partitions.add(
            topic=topic,
            topic_id=question.reader.topic_id,
            partition=partition,
            current_leader_epoch=question.leader_epoch,
            spec=start.spec,
            timestamp_ms=start.timestamp_ms,
        )
    response = await channel.call(_LIST_OFFSETS, request, timeout_s=timeout_s)
    _check_count(channel, questions, response.partitions)
    refused = []
    for question, result in zip(questions, response.partitions, strict=True):
        if question.is_stale:
            continue
        if result.HasField("error"):
            refused.append((question, error_from_detail(result.error)))
        else:
            epoch = result.leader_epoch if result.HasField("leader_epoch") else None
            question.reader.found(_found_offset(channel, result), epoch)
    return refused


def _found_offset(channel: Channel, result: broker_pb2.ListOffsetsPartitionResult) -> int:
    if result.HasField("offset"):
        return result.offset
    if not result.HasField("end_offset"):
        raise UnknownServerError(f"{channel.address} names no offset", address=channel.address)
    # No record is that late yet: the first one to come will be. Where the log ends by now is not asked, for
    # it may have come meanwhile.
    return result.end_offset


async def validate_positions(
    channel: Channel, questions: Sequence[Question], *, timeout_s: float
) -> list[tuple[Question, QuorateError]]:
    """Readers learn whether their position is still good; returned are those that did not."""
    request = broker_pb2.OffsetForLeaderEpochRequest()
    for question in questions:
        topic, partition = question.reader.topic_partition
        request.partitions.add(
            topic=topic,
            topic_id=question.reader.topic_id,
            partition=partition,
            current_leader_epoch=question.leader_epoch,
            leader_epoch=question.read_epoch,
        )
    response = await channel.call(_OFFSET_FOR_LEADER_EPOCH, request, timeout_s=timeout_s)
    _check_count(channel, questions, response.partitions)
    refused = []
    for question, result in zip(questions, response.partitions, strict=True):
        if question.is_stale:
            continue
        if result.HasField("error"):
            refused.append((question, error_from_detail(result.error)))
            continue
        assert question.read_epoch is not None
        epoch = result.leader_epoch if result.HasField("leader_epoch") else None
        end = EpochEnd(epoch, result.end_offset if epoch is not None else 0)
        question.reader.validated(end, read_epoch=question.read_epoch, leader_epoch=question.leader_epoch)
    return refused


def _check_count(channel: Channel, questions: Sequence[Question], results: Iterable[object]) -> None:
    if len(list(results)) != len(questions):
        raise UnknownServerError(f"{channel.address} answers what was not asked", address=channel.address)
