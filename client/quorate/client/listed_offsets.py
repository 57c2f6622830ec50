"""Offsets of many partitions, asked from the leader of each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from quorate.client.arguments import check_partition_argument, shown
from quorate.client.cluster import ClusterView
from quorate.client.from_message import from_message
from quorate.client.retrying import retrying
from quorate.core.clock import Clock
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.transport import method_of
from quorate.errors import (
    InvalidRequest,
    NotLeaderOrFollower,
    QuorateError,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import broker_pb2

__all__ = ["OFFSETS_TIMEOUT_S", "ListedOffset", "OffsetAt", "list_offsets"]

OFFSETS_TIMEOUT_S: Final = 30.0

#: the first offset, the one behind the last committed record, or the first of a time (ms since 1970)
OffsetAt: TypeAlias = Literal["earliest", "latest"] | int

_LIST_OFFSETS: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "ListOffsets",
    broker_pb2.ListOffsetsRequest,
    broker_pb2.ListOffsetsResponse,
)
_SPECS: Final[dict[OffsetAt, broker_pb2.OffsetSpec]] = {
    "earliest": broker_pb2.OFFSET_SPEC_EARLIEST,
    "latest": broker_pb2.OFFSET_SPEC_LATEST,
}
#: One leader that is silent must not use up the time of the whole question.
_ATTEMPT_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ListedOffset:
    #: None: no committed record is that late
    offset: int | None
    #: of the record at the offset, where a time was asked for
    timestamp_ms: int | None
    #: of the leader that answered
    leader_epoch: int | None


async def list_offsets(
    cluster: ClusterView,
    wanted: str | Iterable[tuple[str, int]],
    at: OffsetAt,
    *,
    clock: Clock,
    rng: random.Random,
    timeout_s: float,
) -> dict[TopicPartition, ListedOffset]:
    """In the order of the question, once every partition is answered for."""
    partitions = await _partitions(cluster, wanted, timeout_s)
    found: dict[TopicPartition, ListedOffset] = {}

    async def attempt(remaining_s: float) -> None:
        missing = [each for each in partitions if each not in found]
        by_leader: dict[str, list[broker_pb2.ListOffsetsPartition]] = {}
        for each in missing:
            address, question = _question(cluster, each, at)
            by_leader.setdefault(address, []).append(question)
        timeout_s = min(remaining_s, _ATTEMPT_TIMEOUT_S)
        calls = [_ask(cluster, address, asked, found, timeout_s) for address, asked in by_leader.items()]
        # All of them, also when one fails: what the others say need not be asked again.
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if outcome is not None:
                raise outcome

    def refresh(error: QuorateError) -> None:
        if error.refresh_metadata:
            cluster.needs_refresh()

    await retrying(attempt, clock=clock, rng=rng, timeout_s=timeout_s, on_error=refresh)
    return {each: found[each] for each in partitions}


async def _partitions(
    cluster: ClusterView, wanted: str | Iterable[tuple[str, int]], timeout_s: float
) -> list[TopicPartition]:
    """All of a topic, or those that are named; each is there."""
    if isinstance(wanted, str):
        topic = await cluster.topic(wanted, timeout_s=timeout_s)
        return [TopicPartition(topic.name, each.partition) for each in topic.partitions]
    if not isinstance(wanted, Iterable):
        raise InvalidRequest(
            f"partitions is {shown(wanted)}: a topic, or a list of (topic, number), is expected"
        )
    named = list(dict.fromkeys(check_partition_argument(each) for each in wanted))
    for each in named:
        count = len((await cluster.topic(each.topic, timeout_s=timeout_s)).partitions)
        if not 0 <= each.partition < count:
            raise UnknownTopicOrPartition(
                f"{each}: the topic has {count} partitions", topic=each.topic, partition=each.partition
            )
    return named


def _question(
    cluster: ClusterView, partition: TopicPartition, at: OffsetAt
) -> tuple[str, broker_pb2.ListOffsetsPartition]:
    topic, leader = cluster.known_topic(partition.topic), cluster.leader_of(partition)
    if topic is None or leader is None:
        raise NotLeaderOrFollower(
            f"{partition} has no leader right now", topic=partition.topic, partition=partition.partition
        )
    return leader.address, broker_pb2.ListOffsetsPartition(
        topic=partition.topic,
        topic_id=topic.topic_id,
        partition=partition.partition,
        current_leader_epoch=leader.epoch,
        spec=_SPECS.get(at, broker_pb2.OFFSET_SPEC_AT_TIMESTAMP),
        timestamp_ms=at if isinstance(at, int) else 0,
    )


async def _ask(
    cluster: ClusterView,
    address: str,
    questions: list[broker_pb2.ListOffsetsPartition],
    found: dict[TopicPartition, ListedOffset],
    timeout_s: float,
) -> None:
    """Notes what the leader says; raises the last of what it refuses."""
    request = broker_pb2.ListOffsetsRequest(partitions=questions)
    response = await cluster.channel(address).call(_LIST_OFFSETS, request, timeout_s=timeout_s)
    if len(response.partitions) != len(questions):
        raise UnknownServerError(f"{address} answers what was not asked", address=address)
    refusal: QuorateError | None = None
    for question, result in zip(questions, response.partitions, strict=True):
        partition = TopicPartition(TopicName(question.topic), PartitionId(question.partition))
        if result.HasField("error"):
            refusal = error_from_detail(result.error)
            cluster.apply_hint(partition, refusal)
        else:
            found[partition] = from_message(ListedOffset, result)
    if refusal is not None:
        raise refusal
