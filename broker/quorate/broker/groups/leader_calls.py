"""Questions of a coordinator to the leaders of the partitions that its groups read.

One connection for each leader, kept, because a group that commits asks again and again. A leader that cannot
be asked costs its own partitions an answer and nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from quorate.broker.groups.records import TopicIdPartition
from quorate.broker.partition_ends import ENDS_PER_QUESTION_MAX, PartitionEnds
from quorate.core.ids import BrokerId, Offset, TimestampMs
from quorate.core.transport import Channel, Transport, method_of
from quorate.errors import (
    BrokerNotAvailable,
    NotLeaderOrFollower,
    QuorateError,
    RequestTimedOut,
    Unavailable,
    UnknownServerError,
    UnknownTopicOrPartition,
    copy_of,
)
from quorate.metadata.image import NO_LEADER, MetadataImage
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import replica_pb2
from quorate.v1.controller_pb2 import ReplicaName
from quorate.v1.replica_pb2 import (
    DescribeEndsRequest,
    DescribeEndsResponse,
    PartitionEnd,
    PartitionPosition,
)

__all__ = ["POSITIONS_MAX", "End", "LeaderCalls", "Position", "was_not_asked"]

_DESCRIBE_ENDS: Final = method_of(
    replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"],
    "DescribeEnds",
    DescribeEndsRequest,
    DescribeEndsResponse,
)
#: an answer takes no disk but for times; a commit waits for it
_TIMEOUT_S: Final = 2.0
#: in one question
POSITIONS_MAX: Final = ENDS_PER_QUESTION_MAX


class Position(NamedTuple):
    key: TopicIdPartition
    #: set: the time of the first record from there on is wanted, too, and how many bytes there are
    offset: Offset | None = None


class End(NamedTuple):
    log_start_offset: Offset
    #: exclusive
    high_watermark: Offset
    #: None: not asked for, or there is no such record
    timestamp: TimestampMs | None = None
    #: from that record to the end of the log; None: as above
    unread_bytes: int | None = None


class LeaderCalls:
    def __init__(
        self,
        transport: Transport,
        here: PartitionEnds,
        image: Callable[[], MetadataImage],
        *,
        broker_id: BrokerId,
    ) -> None:
        """``here``: what this broker leads itself. ``image``: the metadata at the moment."""
        self._transport = transport
        self._here = here
        self._image = image
        self._broker_id = broker_id
        #: by address
        self._channels: dict[str, Channel] = {}

    def by_leader(
        self, positions: Iterable[Position]
    ) -> tuple[dict[BrokerId, list[Position]], dict[TopicIdPartition, QuorateError]]:
        """Whom to ask about which, and what nobody can be asked about."""
        led: dict[BrokerId, list[Position]] = {}
        unknown: dict[TopicIdPartition, QuorateError] = {}
        image = self._image()
        for position in positions:
            topic_id, number = position.key
            partition = image.partition(topic_id, number)
            if partition is None:
                unknown[position.key] = UnknownTopicOrPartition(
                    f"topic id {topic_id} has no partition {number}", topic_id=topic_id, partition=number
                )
            elif partition.leader == NO_LEADER:
                name = image.topics[topic_id].name
                unknown[position.key] = NotLeaderOrFollower(
                    f"{name}-{number} has no leader", topic=name, partition=number
                )
            else:
                led.setdefault(partition.leader, []).append(position)
        return led, unknown

    async def ask(self, leader: BrokerId, positions: Sequence[Position]) -> list[End | QuorateError]:
        """One answer for each, in the same order. Never raises: a leader that is away answers nothing."""
        assert len(positions) <= POSITIONS_MAX
        request = DescribeEndsRequest(partitions=map(_to_message, positions))
        try:
            response = await self._describe(leader, request)
            if len(response.ends) != len(positions):
                raise UnknownServerError(
                    f"broker {leader} answers {len(response.ends)} of {len(positions)} questions"
                )
        except QuorateError as error:
            error.facts["broker_id"] = leader
            return [copy_of(error) for _ in positions]
        return [_from_message(end) for end in response.ends]

    async def close(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def _describe(self, leader: BrokerId, request: DescribeEndsRequest) -> DescribeEndsResponse:
        if leader == self._broker_id:
            return await self._here.describe(request)
        broker = self._image().brokers.get(leader)
        if broker is None:
            raise BrokerNotAvailable(f"this broker does not know the address of broker {leader} yet")
        channel = self._channels.get(broker.address)
        if channel is None:
            await self._forget_strangers()
            channel = self._channels[broker.address] = self._transport.connect(broker.address)
        try:
            return await channel.call(_DESCRIBE_ENDS, request, timeout_s=_TIMEOUT_S)
        except (Unavailable, RequestTimedOut):
            # A broken channel takes its time before it tries to connect again; a new one does not.
            if self._channels.get(broker.address) is channel:
                del self._channels[broker.address]
                await channel.close()
            raise

    async def _forget_strangers(self) -> None:
        """Addresses that no broker has any more."""
        current = {broker.address for broker in self._image().brokers.values()}
        for address in [each for each in self._channels if each not in current]:
            await self._channels.pop(address).close()


def was_not_asked(error: QuorateError) -> bool:
    """Whether it is about the leader, and not what the leader says about a partition."""
    return "broker_id" in error.facts


def _to_message(position: Position) -> PartitionPosition:
    topic_id, partition = position.key
    return PartitionPosition(
        replica=ReplicaName(topic_id=topic_id, partition=partition), offset=position.offset
    )


def _from_message(end: PartitionEnd) -> End | QuorateError:
    if end.HasField("error"):
        return error_from_detail(end.error)
    return End(
        log_start_offset=Offset(end.log_start_offset),
        high_watermark=Offset(end.high_watermark),
        timestamp=TimestampMs(end.timestamp_ms) if end.HasField("timestamp_ms") else None,
        unread_bytes=end.unread_bytes if end.HasField("unread_bytes") else None,
    )
