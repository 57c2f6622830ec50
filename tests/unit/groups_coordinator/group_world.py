"""The group service of one broker over real replicas and logs, on a simulated disk in virtual time.

The metadata is made by hand, as for the other handlers of a broker (``broker_harness``). Followers exist in
the metadata alone: what they would acknowledge, a test does for them. Topic ``t`` is what groups read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import pytest

from quorate.broker.groups.coordinator import Coordinated
from quorate.broker.groups.leader_calls import LeaderCalls
from quorate.broker.groups.records import TopicIdPartition, partition_of_group
from quorate.broker.groups.service import GroupService
from quorate.broker.groups.shard import GroupShard
from quorate.broker.partition_ends import PartitionEnds
from quorate.broker.replica.partition import Partition
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.transport import SimTransport
from quorate.core.config import GroupConfig, MetricsConfig, NodeConfig
from quorate.core.ids import BrokerId, LeaderEpoch, Offset, PartitionId, TopicId
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.errors import QuorateError
from quorate.metadata.changes import changes_between
from quorate.v1.group_pb2 import (
    CommitOffsetsResponse,
    FetchOffsetsRequest,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    GroupSubscription,
)
from tests.unit.broker.broker_harness import (
    DATA_DIRECTORY,
    DEFAULT_CONFIG,
    SECOND,
    SELF,
    NoCall,
    World,
    settle,
)
from tests.unit.groups_coordinator.group_cluster import commit_request, offsets_in

GROUP: Final = "g"
#: of the topic of offsets
PARTITIONS: Final = 4
BOTH: Final = (SELF, SECOND)


class GroupWorld(World):
    def __init__(self, simulation: Simulation, disk: SimDisk, config: NodeConfig) -> None:
        super().__init__(simulation, disk, config)
        self.simulation = simulation
        self.network = SimNetwork(simulation.loop, simulation.rng)
        self.transport = SimTransport(self.network, "self")
        #: ids under which the topic of offsets was asked for
        self.creations: list[TopicId] = []
        self._told = self.image
        self._running: asyncio.Task[None] | None = None
        self.begin_service()

    def begin_service(self) -> None:
        """As a new process, over the same replicas."""
        ends = PartitionEnds(self.hosted.find_by_id, self.lease)
        self.groups = GroupService(
            self.config,
            self.hosted,
            LeaderCalls(self.transport, ends, lambda: self.hosted.image, broker_id=SELF),
            clock=self.clock,
            rng=self.simulation.rng,
            random_bytes=self.simulation.rng.randbytes,
            create_offsets_topic=self.create_offsets_topic,
        )
        self._group_handlers: dict[str, Any] = {
            method.name: handler for method, handler in self.groups.service.handlers.items()
        }

    async def start(self, *, replicas: Sequence[BrokerId] = (SELF,), partitions: int = PARTITIONS) -> None:
        """With the topic of offsets, and a topic that can be read."""
        await self.create_topic("t", partitions=4)
        await self.create_topic(OFFSETS_TOPIC, partitions=partitions, replicas=replicas)
        for number in range(4):
            await self.produce(*["v"] * 10, partition=number)
        self.run()
        self.tell_all()
        await settle()

    def run(self) -> None:
        self._running = asyncio.create_task(self.groups.run(), name="groups")

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
            assert self._running.cancelled(), self._running.exception()
        await self.groups.close()

    async def create_offsets_topic(self, topic_id: TopicId) -> None:
        self.creations.append(topic_id)

    # -- metadata

    def tell_all(self) -> None:
        """As after a start: everything is new."""
        self._told = self.image
        self.groups.image_changed(None)

    def tell(self) -> None:
        """What has changed since the last time."""
        before, self._told = self._told, self.image
        self.groups.image_changed(changes_between(before, self.image))

    def lead(self, leader: BrokerId, *, group: str = GROUP, **fields: Any) -> None:
        """Committed metadata: another one leads the group's partition, or the same in another epoch."""
        number = self.number_of(group)
        epoch = self.image.topics[self.topic_id(OFFSETS_TOPIC)].partitions[number].leader_epoch
        self.change(number, topic=OFFSETS_TOPIC, leader=leader, leader_epoch=LeaderEpoch(epoch + 1), **fields)
        self.tell()

    def number_of(self, group: str = GROUP) -> PartitionId:
        count = len(self.image.topics[self.topic_id(OFFSETS_TOPIC)].partitions)
        return partition_of_group(group, count)

    # -- replicas

    def replica(self, group: str = GROUP) -> Partition:
        return self.partition(self.number_of(group), topic=OFFSETS_TOPIC)

    def replicate(self, group: str = GROUP) -> None:
        """The follower has all of the group's partition."""
        replica = self.replica(group)
        assert replica.leadership is not None
        replica.leadership.follower_at(
            SECOND,
            self.image.brokers[SECOND].broker_epoch,
            replica.log.log_end_offset,
            replica.leadership.epoch if replica.log.log_end_offset else LeaderEpoch(-1),
            replica.log.log_start_offset,
        )

    def log_end(self, group: str = GROUP) -> Offset:
        return self.replica(group).log.log_end_offset

    # -- what is in memory

    def coordinated(self, group: str = GROUP) -> Coordinated:
        return self.groups.coordinator.find(group)

    def shard(self, group: str = GROUP) -> GroupShard:
        return self.coordinated(group).shard

    def members(self, group: str = GROUP) -> list[str]:
        """Sorted."""
        found = self.shard(group).groups.get(group)
        return [] if found is None else sorted(found.members)

    # -- calls

    async def ask(self, method: str, request: Any) -> Any:
        return await self._group_handlers[method](request, NoCall())

    def asking(self, method: str, request: Any) -> asyncio.Task[Any]:
        return asyncio.create_task(self.ask(method, request), name=method)

    async def commit(
        self, offsets: dict[TopicIdPartition, int], *, group: str = GROUP, **fields: Any
    ) -> list[str]:
        response: CommitOffsetsResponse = await self.ask(
            "CommitOffsets", commit_request(offsets, group=group, **fields)
        )
        return [result.error.code for result in response.results]

    async def fetch_offsets(self, group: str = GROUP) -> dict[TopicIdPartition, int]:
        return offsets_in(await self.ask("FetchOffsets", FetchOffsetsRequest(group=group)))

    def at(self, number: int = 0, topic: str = "t") -> TopicIdPartition:
        return TopicIdPartition(self.topic_id(topic), PartitionId(number))

    async def join(self, name: str = "a", *, group: str = GROUP, **more: Any) -> GroupHeartbeatResponse:
        response: GroupHeartbeatResponse = await self.ask("GroupHeartbeat", join(name, group=group, **more))
        return response

    def waiting(
        self, name: str, told: GroupHeartbeatResponse, *, max_wait_ms: int = 60_000, group: str = GROUP
    ) -> asyncio.Task[Any]:
        """A call of a member that holds what it was told, and has nothing to say."""
        return self.asking("GroupHeartbeat", beat(name, told, max_wait_ms=max_wait_ms, group=group))


def join(
    name: str, *, group: str = GROUP, max_wait_ms: int = 0, **subscription: Any
) -> GroupHeartbeatRequest:
    wish = {"topics": ["t"], "rebalance_timeout_ms": 60_000, **subscription}
    return GroupHeartbeatRequest(
        group=group, member_id=name, max_wait_ms=max_wait_ms, subscription=GroupSubscription(**wish)
    )


def beat(
    name: str, told: GroupHeartbeatResponse, *, group: str = GROUP, max_wait_ms: int = 0, **fields: Any
) -> GroupHeartbeatRequest:
    """From a member that does what it was told."""
    return GroupHeartbeatRequest(
        **{
            "group": group,
            "member_id": name,
            "member_epoch": told.member_epoch,
            "owned": told.assignment,
            "max_wait_ms": max_wait_ms,
            **fields,
        }
    )


def simulate(
    scenario: Callable[[GroupWorld], Awaitable[None]],
    *,
    seed: int = 1,
    metrics: MetricsConfig | None = None,
    **groups: Any,
) -> None:
    """``groups``: fields of ``GroupConfig``."""

    async def main(simulation: Simulation) -> None:
        disk = SimDisk()
        disk.make_directory(DATA_DIRECTORY)
        config = replace(DEFAULT_CONFIG, groups=GroupConfig(**groups), metrics=metrics or MetricsConfig())
        world = GroupWorld(simulation, disk, config)
        try:
            await scenario(world)
        finally:
            await world.stop()
            for found in world.replicas.found.values():
                if isinstance(found, Partition):
                    found.stop()

    run_simulation(main, seed=seed, time_limit_s=30 * 24 * 3600)


async def refusal(call: Awaitable[object]) -> QuorateError:
    with pytest.raises(QuorateError) as raised:
        await call
    return raised.value


async def cancel(task: asyncio.Task[Any]) -> None:
    """The connection of a call breaks."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


__all__ = [
    "BOTH",
    "GROUP",
    "GroupWorld",
    "beat",
    "cancel",
    "join",
    "refusal",
    "settle",
    "simulate",
]
