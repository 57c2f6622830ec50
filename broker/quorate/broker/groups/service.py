"""GroupService: a handler for each of its methods, under bounds on what a request may ask for and hold."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import zip_longest

from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.descriptions import GroupDescriptions
from quorate.broker.groups.ends import Ends
from quorate.broker.groups.lag_watch import LagWatch
from quorate.broker.groups.leader_calls import LeaderCalls
from quorate.broker.groups.offset_calls import OffsetCalls
from quorate.broker.groups.offsets_topic import OffsetsTopic
from quorate.broker.groups.records import partition_of_group
from quorate.broker.groups.requests import check_group_name
from quorate.broker.handlers.request_memory import RequestMemory
from quorate.broker.hosted import Hosted
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.ids import TopicId
from quorate.core.transport import Call, Service
from quorate.errors import CoordinatorNotAvailable, InvalidRequest
from quorate.metadata.changes import MetadataDelta
from quorate.metadata.image import TopicImage
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import group_pb2
from quorate.v1.group_pb2 import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    Coordinator,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteOffsetsRequest,
    DeleteOffsetsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    FindCoordinatorsRequest,
    FindCoordinatorsResponse,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    TopicPartitions,
)

__all__ = ["GroupService"]


class GroupService:
    def __init__(
        self,
        config: NodeConfig,
        hosted: Hosted,
        calls: LeaderCalls,
        *,
        clock: Clock,
        rng: random.Random,
        random_bytes: Callable[[int], bytes],
        create_offsets_topic: Callable[[TopicId], Awaitable[None]],
    ) -> None:
        self._hosted = hosted
        self._names_max = config.request_partitions_max
        self._memory = RequestMemory(config.queued_max_request_bytes, kind="requests about groups")
        # Apart: commits that wait for a follower must not make members look dead.
        self._heartbeat_memory = RequestMemory(config.queued_max_request_bytes, kind="heartbeats of members")
        self._topic = OffsetsTopic(
            lambda: hosted.image,
            create_offsets_topic,
            clock=clock,
            backoff=Backoff(rng),
            random_bytes=random_bytes,
        )
        self._ends = Ends(calls)
        self.coordinator = GroupCoordinator(config, hosted, clock)
        self._settings = self.coordinator.context.settings
        self._offsets = OffsetCalls(self.coordinator, self._ends)
        self._descriptions = GroupDescriptions(self.coordinator, calls)
        self.lag_watch = LagWatch(self.coordinator, calls, config.metrics)
        self.service = Service(
            group_pb2.DESCRIPTOR.services_by_name["GroupService"],
            {
                "FindCoordinators": self._find_coordinators,
                "GroupHeartbeat": self._group_heartbeat,
                "CommitOffsets": self._commit_offsets,
                "FetchOffsets": self._fetch_offsets,
                "ListGroups": self._list_groups,
                "DescribeGroups": self._describe_groups,
                "DeleteGroups": self._delete_groups,
                "DeleteOffsets": self._delete_offsets,
            },
            long_polls=("GroupHeartbeat",),
        )

    def image_changed(self, delta: MetadataDelta | None) -> None:
        """After the replicas have taken up their parts. None: everything is new."""
        self._topic.image_changed()
        self.coordinator.image_changed(delta)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._topic.run(), name="offsets-topic")
            tasks.create_task(self.coordinator.run(), name="group-coordinator")
            tasks.create_task(self.lag_watch.run(), name="group-lag")

    async def close(self) -> None:
        await self._ends.close()

    # -- who coordinates

    async def _find_coordinators(
        self, request: FindCoordinatorsRequest, call: Call
    ) -> FindCoordinatorsResponse:
        """Any broker knows, also one that has lost touch: whoever it names says who it is by now."""
        self._check_groups(request.groups)
        topic = await self._topic.require(call.remaining_s())
        return FindCoordinatorsResponse(
            coordinators=[self._coordinator_of(group, topic) for group in request.groups]
        )

    def _coordinator_of(self, group: str, topic: TopicImage) -> Coordinator:
        partition = topic.partitions[partition_of_group(group, len(topic.partitions))]
        broker = self._hosted.image.brokers.get(partition.leader)
        if broker is None:
            error = CoordinatorNotAvailable(
                f"{topic.name}-{partition.partition} has no leader", partition=partition.partition
            )
            return Coordinator(group=group, error=detail_from_error(error))
        return Coordinator(group=group, broker_id=broker.broker_id, address=broker.address)

    # -- members

    async def _group_heartbeat(self, request: GroupHeartbeatRequest, _call: Call) -> GroupHeartbeatResponse:
        if request.max_wait_ms < 0:
            raise InvalidRequest("max_wait_ms cannot be negative")
        self._check_groups([request.group])
        with self._heartbeat_memory.hold_or_refuse(request.ByteSize()):
            return await self.coordinator.find(request.group).members.heartbeat(request)

    # -- offsets

    async def _commit_offsets(self, request: CommitOffsetsRequest, _call: Call) -> CommitOffsetsResponse:
        self._check_groups([request.group])
        self._check_count(len(request.offsets), "partitions")
        with self._memory.hold_or_refuse(request.ByteSize()):
            return await self._offsets.commit(request)

    async def _fetch_offsets(self, request: FetchOffsetsRequest, _call: Call) -> FetchOffsetsResponse:
        self._check_groups([request.group])
        self._check_partitions(request.partitions)
        with self._memory.hold_or_refuse(request.ByteSize()):
            return await self._offsets.fetch(request)

    async def _delete_offsets(self, request: DeleteOffsetsRequest, _call: Call) -> DeleteOffsetsResponse:
        self._check_groups([request.group])
        self._check_partitions(request.partitions)
        with self._memory.hold_or_refuse(request.ByteSize()):
            return await self._offsets.delete_offsets(request)

    # -- groups

    async def _list_groups(self, _request: ListGroupsRequest, _call: Call) -> ListGroupsResponse:
        return await self._descriptions.list_all()

    async def _describe_groups(self, request: DescribeGroupsRequest, _call: Call) -> DescribeGroupsResponse:
        self._check_groups(request.groups)
        with self._memory.hold_or_refuse(request.ByteSize()):
            return await self._descriptions.describe(request.groups)

    async def _delete_groups(self, request: DeleteGroupsRequest, _call: Call) -> DeleteGroupsResponse:
        self._check_groups(request.groups)
        if len(request.revisions) > len(request.groups):
            raise InvalidRequest("there are more revisions than groups: one for each is expected")
        with self._memory.hold_or_refuse(request.ByteSize()):
            results = [
                await self._offsets.delete_group(group, revision)
                for group, revision in zip_longest(request.groups, request.revisions, fillvalue="")
            ]
        return DeleteGroupsResponse(results=results)

    # -- bounds

    def _check_groups(self, groups: Sequence[str]) -> None:
        self._check_count(len(groups), "groups")
        if len(set(groups)) < len(groups):
            raise InvalidRequest("a group is named twice")
        for group in groups:
            check_group_name(group, self._settings)

    def _check_partitions(self, named: Iterable[TopicPartitions]) -> None:
        partitions = [(each.topic_id, partition) for each in named for partition in each.partitions]
        self._check_count(len(partitions), "partitions")
        if len(set(partitions)) < len(partitions):
            raise InvalidRequest("a partition is named twice")

    def _check_count(self, count: int, what: str) -> None:
        if count > self._names_max:
            raise InvalidRequest(
                f"the request names {count} {what}, request.partitions.max is {self._names_max}",
                request_partitions_max=self._names_max,
            )
