"""Calls about how far groups have come: committing, asking, forgetting.

Whoever commits names offsets that have been read, and what was read is committed in its partition. So
before the group is even looked at, the ends of the partitions are (``Ends``). That may take a question to
their leaders, and the group may have moved to another coordinator meanwhile; everything else is decided
after that, in one turn of the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorate.broker.groups import offset_decisions
from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.ends import Ends
from quorate.broker.groups.group import Group, GroupOffset
from quorate.broker.groups.records import TopicIdPartition, named_partitions, partition_of
from quorate.broker.groups.revisions import Revision
from quorate.core.ids import Offset
from quorate.errors import QuorateError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1.group_pb2 import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    CommitResult,
    CommittedOffset,
    DeleteGroupResult,
    DeleteOffsetsRequest,
    DeleteOffsetsResponse,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
)

__all__ = ["OffsetCalls"]


class OffsetCalls:
    def __init__(self, coordinator: GroupCoordinator, ends: Ends) -> None:
        self._coordinator = coordinator
        self._context = coordinator.context
        self._ends = ends

    # -- committing

    async def commit(self, request: CommitOffsetsRequest) -> CommitOffsetsResponse:
        # Whoever has come to the wrong broker need not wait to hear that.
        self._coordinator.find(request.group)
        refused = await self._find_beyond(request)
        shard = self._coordinator.find(request.group).shard
        async with shard.answering():
            decision = offset_decisions.commit(
                shard.groups,
                request,
                topics=self._context.topics,
                settings=self._context.settings,
                now_ms=self._context.retention_time.stamp_ms(),
                refused=refused,
            )
            if decision.records:
                self._context.check_room(shard.groups, request.group)
                shard.carry_out(decision.records)
            partitions = [partition_of(entry) for entry in request.offsets]
            results = self._results(partitions, decision.errors)
            revision = str(shard.revision)
        return CommitOffsetsResponse(results=results, revision=revision)

    async def _find_beyond(self, request: CommitOffsetsRequest) -> dict[int, QuorateError]:
        """Offsets that their partitions do not reach, by their place in the request."""
        topics = self._context.topics
        wanted = {
            partition: Offset(entry.offset)
            for entry in request.offsets
            if topics.has(partition := partition_of(entry))
        }
        unreached = await self._ends.find_unreached(wanted)
        errors: dict[int, QuorateError] = {}
        for place, entry in enumerate(request.offsets):
            partition = partition_of(entry)
            if partition in unreached:
                errors[place] = unreached[partition]
            elif partition not in wanted:
                # It may be there by now, and nobody has asked how far it reaches.
                errors[place] = offset_decisions.unknown_partition(partition)
        return errors

    # -- asking

    async def fetch(self, request: FetchOffsetsRequest) -> FetchOffsetsResponse:
        shard = self._coordinator.find(request.group).shard
        async with shard.answering():
            offset_decisions.check_fetch(shard.groups, request)
            offsets = list(self._committed(shard.groups.get(request.group), request))
            revision = str(shard.revision)
        return FetchOffsetsResponse(offsets=offsets, revision=revision)

    def _committed(self, group: Group | None, request: FetchOffsetsRequest) -> Iterable[CommittedOffset]:
        offsets = {} if group is None else group.offsets
        named = named_partitions(request.partitions) if request.partitions else self._in_order(offsets)
        names = self._context.topics.names_of(named)
        for partition in named:
            message = CommittedOffset(
                topic_id=partition.topic_id,
                topic=names.get(partition.topic_id, ""),
                partition=partition.partition,
            )
            committed = offsets.get(partition)
            if committed is not None:
                _fill_in(message, committed)
            yield message

    def _in_order(self, partitions: Iterable[TopicIdPartition]) -> list[TopicIdPartition]:
        names = self._context.topics.names_of(partitions)
        return sorted(partitions, key=lambda each: (names.get(each.topic_id, ""), each))

    # -- forgetting

    async def delete_offsets(self, request: DeleteOffsetsRequest) -> DeleteOffsetsResponse:
        shard = self._coordinator.find(request.group).shard
        seen = Revision.parse(request.revision, group=request.group)
        async with shard.answering():
            decision = offset_decisions.delete_offsets(
                shard.groups, request.group, request.partitions, topics=self._context.topics, seen=seen
            )
            shard.carry_out(decision.records)
            results = self._results(named_partitions(request.partitions), decision.errors)
        return DeleteOffsetsResponse(results=results)

    async def delete_group(self, group: str, revision: str) -> DeleteGroupResult:
        """``revision``: as the request names it."""
        try:
            shard = self._coordinator.find(group).shard
            seen = Revision.parse(revision, group=group)
            async with shard.answering():
                now_ms = self._context.retention_time.stamp_ms()
                shard.carry_out(offset_decisions.delete_group(shard.groups, group, seen=seen, now_ms=now_ms))
        except QuorateError as error:
            return DeleteGroupResult(group=group, error=detail_from_error(error))
        return DeleteGroupResult(group=group)

    def _results(
        self, partitions: Sequence[TopicIdPartition], errors: Sequence[QuorateError | None]
    ) -> list[CommitResult]:
        names = self._context.topics.names_of(partitions)
        return [
            CommitResult(
                topic_id=partition.topic_id,
                topic=names.get(partition.topic_id, ""),
                partition=partition.partition,
                error=None if error is None else detail_from_error(error),
            )
            for partition, error in zip(partitions, errors, strict=True)
        ]


def _fill_in(message: CommittedOffset, committed: GroupOffset) -> None:
    message.offset = committed.offset
    if committed.leader_epoch is not None:
        message.leader_epoch = committed.leader_epoch
    message.metadata = committed.metadata
    message.committed_at_ms = committed.committed_at_ms
    if not message.topic:
        message.topic = committed.topic
