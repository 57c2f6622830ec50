"""Groups as people see them: who is in them, what each member holds, and how far behind they are.

What is told of a group is one moment of it, as it was when it was looked at, and is told when all of it is
committed, like any other answer. How far its partitions reach is asked after that, so it is a little younger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quorate.broker.groups.coordinator import Coordinated, GroupCoordinator
from quorate.broker.groups.group import Group
from quorate.broker.groups.lag import Lag, Progress, find_lags, partitions_read
from quorate.broker.groups.leader_calls import LeaderCalls
from quorate.broker.groups.member import Member
from quorate.broker.groups.records import TopicIdPartition, topic_partitions
from quorate.broker.groups.targets import assignor_of
from quorate.errors import GroupNotFound, QuorateError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1.group_pb2 import (
    DescribeGroupsResponse,
    GroupDescription,
    GroupListing,
    GroupProgress,
    ListGroupsResponse,
    MemberDescription,
)

__all__ = ["GroupDescriptions"]


class _Described(NamedTuple):
    description: GroupDescription
    #: None: there is an error in the description
    coordinated: Coordinated | None
    #: one for each that the description has
    progress: Sequence[Progress] = ()


class GroupDescriptions:
    def __init__(self, coordinator: GroupCoordinator, calls: LeaderCalls) -> None:
        self._coordinator = coordinator
        self._context = coordinator.context
        self._calls = calls

    # -- in short

    async def list_all(self) -> ListGroupsResponse:
        response = ListGroupsResponse()
        listed: list[tuple[Coordinated, list[GroupListing]]] = []
        for number, found in self._coordinator.led():
            if found is None or not found.shard.is_loaded:
                response.loading.append(number)
            else:
                listed.append((found, list(_listings(found))))
        for found, listings in listed:
            try:
                await found.shard.committed(is_appended=False)
            except QuorateError:
                response.loading.append(found.shard.number)
            else:
                response.groups.extend(listings)
        response.groups.sort(key=lambda each: each.group)
        response.loading.sort()
        # Looked at for each shard when it was confirmed; the answer leaves now (rule 37).
        self._context.hosted.lease.check()
        return response

    # -- in full

    async def describe(self, groups: Sequence[str]) -> DescribeGroupsResponse:
        described = []
        for group in groups:
            described.append(await self._describe(group))
            await asyncio.sleep(0)
        await self._fill_in_lag(described)
        for each in described:
            if each.coordinated is not None and each.coordinated.shard.is_ended:
                _replace_by(each.description, self._context.not_coordinator(each.coordinated.shard.number))
        self._context.hosted.lease.check()
        return DescribeGroupsResponse(groups=[each.description for each in described])

    async def _describe(self, name: str) -> _Described:
        description = GroupDescription(group=name, coordinator=self._context.broker_id)
        try:
            found = self._coordinator.find(name)
            group = found.shard.groups.get(name)
            if group is not None and group.is_deleted:
                group = None
            progress: list[Progress] = []
            if group is not None:
                progress = self._progress_of(group)
                self._fill_in(description, group, found)
                description.progress.extend(self._messages(group, progress))
            await found.shard.committed(is_appended=False)
            if group is None:
                raise GroupNotFound(f"there is no group {name}", group=name)
        except QuorateError as error:
            _replace_by(description, error)
            return _Described(description, None)
        return _Described(description, found, progress)

    def _fill_in(self, description: GroupDescription, group: Group, found: Coordinated) -> None:
        description.revision = str(found.shard.revision)
        description.state = group.state
        description.group_epoch = group.group_epoch
        description.assignment_epoch = group.assignment_epoch
        description.assignor = assignor_of(group.members.values()) if group.members else ""
        for member_id in sorted(group.members):
            member = group.members[member_id]
            silent_ms = found.members.silent_ms(group.name, member_id)
            description.members.append(self._member(member, silent_ms))

    def _member(self, member: Member, silent_ms: int) -> MemberDescription:
        names = self._context.topics.names_of([*member.target, *member.assigned, *member.revoking])
        return MemberDescription(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            subscription=member.subscription,
            assignment=topic_partitions(member.assigned, names),
            target=topic_partitions(member.target, names),
            revoking=topic_partitions(member.revoking, names),
            silent_ms=silent_ms,
            is_away=member.is_away,
        )

    def _progress_of(self, group: Group) -> list[Progress]:
        """In the order of the topics' names."""
        partitions = partitions_read(group, self._context.hosted.image.topics)
        names = self._context.topics.names_of(partitions)
        in_order = sorted(partitions, key=lambda each: (names.get(each.topic_id, ""), each))
        return [Progress.of(group, partition) for partition in in_order]

    def _messages(self, group: Group, progress: Sequence[Progress]) -> Iterator[GroupProgress]:
        names = self._context.topics.names_of(each.partition for each in progress)
        for partition, _ in progress:
            yield _progress_in(group, partition, names.get(partition.topic_id))

    async def _fill_in_lag(self, described: Sequence[_Described]) -> None:
        progress = [place for each in described for place in each.progress]
        messages = [message for each in described for message in each.description.progress]
        lags = await find_lags(progress, self._calls, self._context)
        for message, lag in zip(messages, lags, strict=True):
            _fill_in_lag(message, lag)


def _listings(found: Coordinated) -> Iterator[GroupListing]:
    groups = found.shard.groups
    for name in groups:
        group = groups[name]
        if not group.is_deleted:
            yield GroupListing(group=name, state=group.state, members=len(group.members))


def _progress_in(group: Group, partition: TopicIdPartition, topic: str | None) -> GroupProgress:
    progress = GroupProgress(
        topic_id=partition.topic_id,
        topic=topic or "",
        partition=partition.partition,
        member_id=group.holder_of(partition) or "",
    )
    committed = group.offsets.get(partition)
    if committed is not None:
        progress.topic = topic or committed.topic
        progress.committed_offset = committed.offset
        progress.committed_at_ms = committed.committed_at_ms
        progress.metadata = committed.metadata
    return progress


def _fill_in_lag(progress: GroupProgress, lag: Lag | QuorateError) -> None:
    if isinstance(lag, QuorateError):
        progress.error.CopyFrom(detail_from_error(lag))
        return
    progress.log_start_offset = lag.end.log_start_offset
    progress.end_offset = lag.end.high_watermark
    progress.lag = lag.records
    if lag.ms is not None:
        progress.lag_ms = lag.ms
    if lag.of_retention is not None:
        progress.lag_of_retention = lag.of_retention


def _replace_by(description: GroupDescription, error: QuorateError) -> None:
    group, coordinator = description.group, description.coordinator
    description.Clear()
    description.group, description.coordinator = group, coordinator
    description.error.CopyFrom(detail_from_error(error))
