"""What administration answers about groups, as plain values.

The fields have the names of the messages in group.proto, where each is described; here stands what differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from quorate.client.from_message import from_message
from quorate.client.groups.partitions import partitions_from
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import group_pb2

__all__ = [
    "CommittedOffset",
    "GroupDescription",
    "GroupListing",
    "GroupProgress",
    "GroupStateName",
    "MemberDescription",
    "OffsetReset",
    "group_from",
    "listing_from",
    "offset_from",
]

GroupStateName: TypeAlias = Literal["unspecified", "empty", "reconciling", "stable"]

_STATES: dict[int, GroupStateName] = {
    group_pb2.GROUP_STATE_EMPTY: "empty",
    group_pb2.GROUP_STATE_RECONCILING: "reconciling",
    group_pb2.GROUP_STATE_STABLE: "stable",
}


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    state: GroupStateName
    members: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member_id: str
    member_epoch: int
    instance_id: str
    client_id: str
    host: str
    rack: str
    topics: tuple[str, ...]
    pattern: str
    #: what it holds, is to hold, and has to give up
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]
    revoking: tuple[TopicPartition, ...]
    silent_ms: int
    #: a static member that will be back: it reads nothing, and what it holds is kept for it
    is_away: bool


@dataclass(frozen=True, slots=True)
class GroupProgress:
    topic_id: str
    partition: TopicPartition
    #: None: no member holds it
    member_id: str | None
    #: None: nothing is committed
    committed_offset: int | None
    committed_at_ms: int | None
    #: these are None where the leader did not say, for the reason in ``error``
    log_start_offset: int | None
    end_offset: int | None
    lag: int | None
    lag_ms: int | None
    #: None also where the topic keeps its records for ever
    lag_of_retention: float | None
    metadata: str
    error: QuorateError | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group: str
    state: GroupStateName
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[MemberDescription, ...]
    progress: tuple[GroupProgress, ...]
    coordinator: int
    #: as of when this is how it looks: what `delete_group` may be told
    revision: str

    @property
    def lag(self) -> int | None:
        """Records that are not read yet, of all partitions; None: of one it is not known, or none is read."""
        lags = [each.lag for each in self.progress]
        return None if not lags or None in lags else sum(each or 0 for each in lags)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    topic_id: str
    offset: int
    leader_epoch: int | None
    metadata: str
    committed_at_ms: int


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """What becomes of one offset."""

    #: None: there was none
    before: int | None
    after: int


def listing_from(message: group_pb2.GroupListing) -> GroupListing:
    return from_message(GroupListing, message, state=_state(message.state))


def offset_from(message: group_pb2.CommittedOffset) -> CommittedOffset:
    return from_message(CommittedOffset, message)


def group_from(message: group_pb2.GroupDescription) -> GroupDescription:
    return from_message(
        GroupDescription,
        message,
        state=_state(message.state),
        members=tuple(_member(each) for each in message.members),
        progress=tuple(_progress(each) for each in message.progress),
    )


def _member(message: group_pb2.MemberDescription) -> MemberDescription:
    subscription = message.subscription
    return from_message(
        MemberDescription,
        message,
        instance_id=subscription.instance_id,
        client_id=subscription.client_id,
        host=subscription.host,
        rack=subscription.rack,
        topics=tuple(subscription.topics),
        pattern=subscription.pattern,
        assignment=_names(message.assignment),
        target=_names(message.target),
        revoking=_names(message.revoking),
    )


def _progress(message: group_pb2.GroupProgress) -> GroupProgress:
    return from_message(
        GroupProgress,
        message,
        partition=TopicPartition(TopicName(message.topic), PartitionId(message.partition)),
        member_id=message.member_id or None,
        error=error_from_detail(message.error) if message.HasField("error") else None,
    )


def _names(messages: Iterable[group_pb2.TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(each.name for each in partitions_from(messages)))


def _state(state: int) -> GroupStateName:
    return _STATES.get(state, "unspecified")
