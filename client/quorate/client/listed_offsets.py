"""Offsets of many partitions, asked from the leader of each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from quorate.client.arguments import check_partition_argument, shown
from quorate.client.cluster import ClusterView
from quorate.client.from_message import from_message
from quorate.client.retrying import retrying
from quorate.core.clock import Clock
from quorate.core.ids import TopicPartition
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

__all__ = [
    "LIST_OFFSETS",
    "OFFSETS_TIMEOUT_S",
    "LeaderQuestion",
    "ListedOffset",
    "OffsetAt",
    "list_offsets",
    "questions_by_leader",
]

OFFSETS_TIMEOUT_S: Final = 30.0

#: the first offset, the one behind the last committed record, or the first of a time (ms since 1970)
OffsetAt: TypeAlias = Literal["earliest", "latest"] | int

LIST_OFFSETS: Final = method_of(
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


class LeaderQuestion(NamedTuple):
    """What one broker is asked, for the epochs in which it leads: if it does not any more, it refuses."""

    address: str
    #: in the order of the request
    partitions: list[TopicPartition]
    request: broker_pb2.ListOffsetsRequest


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
        timeout_s = min(remaining_s, _ATTEMPT_TIMEOUT_S)
        calls = [_ask(cluster, each, found, timeout_s) for each in questions_by_leader(cluster, missing, at)]
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


def questions_by_leader(
    cluster: ClusterView, partitions: Iterable[TopicPartition], at: OffsetAt
) -> list[LeaderQuestion]:
    """To whom leads each partition as far as is known; ``NotLeaderOrFollower`` where nobody does."""
    questions: dict[str, LeaderQuestion] = {}
    for each in partitions:
        topic, leader = cluster.known_topic(each.topic), cluster.leader_of(each)
        if topic is None or leader is None:
            raise NotLeaderOrFollower(
                f"{each} has no leader right now", topic=each.topic, partition=each.partition
            )
        question = questions.get(leader.address)
        if question is None:
            question = LeaderQuestion(leader.address, [], broker_pb2.ListOffsetsRequest())
            questions[leader.address] = question
        question.partitions.append(each)
        question.request.partitions.add(
            topic=each.topic,
            topic_id=topic.topic_id,
            partition=each.partition,
            current_leader_epoch=leader.epoch,
            spec=_SPECS.get(at, broker_pb2.OFFSET_SPEC_AT_TIMESTAMP),
            timestamp_ms=at if isinstance(at, int) else 0,
        )
    return list(questions.values())


async def _ask(
    cluster: ClusterView,
    question: LeaderQuestion,
    found: dict[TopicPartition, ListedOffset],
    timeout_s: float,
) -> None:
    """Notes what the leader says; raises the last of what it refuses."""
    address, asked, request = question
    response = await cluster.channel(address).call(LIST_OFFSETS, request, timeout_s=timeout_s)
    if len(response.partitions) != len(asked):
        raise UnknownServerError(f"{address} answers what was not asked", address=address)
    refusal: QuorateError | None = None
    for partition, result in zip(asked, response.partitions, strict=True):
        if result.HasField("error"):
            refusal = error_from_detail(result.error)
            cluster.apply_hint(partition, refusal)
        else:
            found[partition] = from_message(ListedOffset, result)
    if refusal is not None:
        raise refusal
