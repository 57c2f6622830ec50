"""A simulated cluster and a client of groups that is nothing but calls: what it sends is what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

from quorate.broker.groups.records import (
    TopicIdPartition,
    partition_of_group,
    partitions_of,
    topic_partitions,
)
from quorate.broker.groups.shard import GroupShard
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import newest_image
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.ids import TopicId, TopicName
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.core.transport import Channel, methods_of
from quorate.errors import NotCoordinator, QuorateError
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import admin_pb2, group_pb2
from quorate.v1.group_pb2 import (
    CommitOffsetsRequest,
    FetchOffsetsRequest,
    FindCoordinatorsRequest,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    GroupSubscription,
    OffsetToCommit,
)

METHODS: Final = methods_of(group_pb2.DESCRIPTOR.services_by_name["GroupService"])
GROUP: Final = "g"
#: a revision after all others: for tests that are about something else
EVERYTHING_SEEN: Final = "1000000.0"

T = TypeVar("T")


def simulate(
    scenario: Callable[[SimCluster], Awaitable[T]], *, seed: int = 1, brokers: int = 3, **settings: Any
) -> T:
    """With a topic ``t`` of four partitions, and a few records in each."""

    async def main(simulation: Simulation) -> T:
        cluster = SimCluster(simulation, brokers=brokers, settings=settings)
        await cluster.start()
        await create_topic(cluster, "t", partitions=4)
        return await scenario(cluster)

    return run_simulation(main, seed=seed, time_limit_s=600)


async def create_topic(cluster: SimCluster, name: str, *, partitions: int, records: int = 10) -> None:
    async with cluster.connect() as connection:
        request = admin_pb2.CreateTopicRequest(name=name, partition_count=partitions)
        await connection.create_topic(request)
    async with cluster.producer() as producer:
        for partition in range(partitions):
            sent = [await producer.send(name, b"v", partition=partition) for _ in range(records)]
            for each in sent:
                await each


def topic_id_of(cluster: SimCluster, name: str = "t") -> TopicId:
    return newest_image(cluster).topic_ids[TopicName(name)]


def partition(cluster: SimCluster, number: int, topic: str = "t") -> TopicIdPartition:
    return TopicIdPartition(topic_id_of(cluster, topic), number)  # type: ignore[arg-type]


class GroupClient:
    """On a machine of its own, which can be cut off and killed."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self._transport = cluster.client_transport()
        self.machine = cluster.clients[-1]
        self._channels: dict[str, Channel] = {}

    def channel(self, address: str) -> Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._transport.connect(address)
        return channel

    async def ask(
        self, machine: SimMachine | str, method: str, request: Any, *, timeout_s: float = 60
    ) -> Any:
        """One attempt at one broker."""
        address = machine if isinstance(machine, str) else machine.address
        return await self.channel(address).call(METHODS[method], request, timeout_s=timeout_s)

    async def find(self, group: str = GROUP) -> str:
        """Address of the coordinator, from whoever answers."""
        while True:
            for broker in self.cluster.brokers:
                try:
                    request = FindCoordinatorsRequest(groups=[group])
                    answer = await self.ask(broker, "FindCoordinators", request, timeout_s=10)
                except QuorateError as error:
                    if not error.retriable:
                        raise
                    continue
                [found] = answer.coordinators
                if not found.HasField("error"):
                    return str(found.address)
                assert error_from_detail(found.error).retriable, found.error
            await asyncio.sleep(0.05)

    async def call(self, method: str, request: Any, *, refusals: list[str] | None = None) -> Any:
        """As a client does: find the coordinator, and try again for as long as that may help."""
        while True:
            address = await self.find(request.group)
            try:
                return await self.ask(address, method, request)
            except QuorateError as error:
                if refusals is not None:
                    refusals.append(error.code)
                if not error.retriable or error.code == "STALE_MEMBER_EPOCH":
                    raise
            await asyncio.sleep(0.02)

    async def commit(self, offsets: dict[TopicIdPartition, int], **fields: Any) -> list[str]:
        """The code of each refusal; empty: committed."""
        request = commit_request(offsets, **fields)
        response = await self.call("CommitOffsets", request)
        return [result.error.code for result in response.results]

    async def fetch(self, group: str = GROUP, **more: Any) -> dict[TopicIdPartition, int]:
        response = await self.call("FetchOffsets", FetchOffsetsRequest(group=group), **more)
        return offsets_in(response)


def commit_request(
    offsets: dict[TopicIdPartition, int],
    *,
    group: str = GROUP,
    revision: str = EVERYTHING_SEEN,
    **fields: Any,
) -> CommitOffsetsRequest:
    entries = [
        OffsetToCommit(topic_id=each.topic_id, partition=each.partition, offset=offset)
        for each, offset in offsets.items()
    ]
    return CommitOffsetsRequest(group=group, offsets=entries, revision=revision, **fields)


def offsets_in(response: group_pb2.FetchOffsetsResponse) -> dict[TopicIdPartition, int]:
    return {
        TopicIdPartition(TopicId(each.topic_id), each.partition): each.offset  # type: ignore[arg-type]
        for each in response.offsets
        if each.HasField("offset")
    }


class TestMember:
    """Keeps the rules of a member: takes from higher epochs, gives up at once what it is to lose."""

    __test__ = False

    def __init__(self, client: GroupClient, name: str, *, group: str = GROUP, **subscription: Any) -> None:
        self.client = client
        self.name = name
        self.group = group
        self.epoch = 0
        self.owned: frozenset[TopicIdPartition] = frozenset()
        self.refusals: list[str] = []
        #: what it held after each answer that changed it
        self.history: list[frozenset[TopicIdPartition]] = []
        self._subscription = GroupSubscription(
            **{"topics": ["t"], "rebalance_timeout_ms": 60_000, **subscription}
        )

    async def beat(self, *, max_wait_ms: int = 0) -> GroupHeartbeatResponse:
        request = self.request(max_wait_ms=max_wait_ms)
        response: GroupHeartbeatResponse = await self.client.call(
            "GroupHeartbeat", request, refusals=self.refusals
        )
        self.take(response)
        return response

    def request(self, *, max_wait_ms: int = 0) -> GroupHeartbeatRequest:
        return GroupHeartbeatRequest(
            group=self.group,
            member_id=self.name,
            member_epoch=self.epoch,
            owned=topic_partitions(self.owned),
            max_wait_ms=max_wait_ms,
            subscription=self._subscription if self.epoch == 0 else None,
        )

    def take(self, response: GroupHeartbeatResponse) -> None:
        assigned = partitions_of(response.assignment)
        before = self.owned
        if response.member_epoch > self.epoch:
            self.epoch, self.owned = response.member_epoch, assigned
        elif response.member_epoch == self.epoch:
            self.owned &= assigned
        if self.owned != before or not self.history:
            self.history.append(self.owned)

    async def settle(self, *, rounds: int = 20) -> None:
        """Until an answer says what it said itself."""
        for _ in range(rounds):
            before = (self.epoch, self.owned)
            await self.beat()
            if before == (self.epoch, self.owned):
                return
        raise AssertionError("it does not come to rest")

    async def run(self) -> None:
        """As a member does, until cancelled."""
        while True:
            await self.beat(max_wait_ms=1_000)


async def settle_all(members: Iterable[TestMember]) -> None:
    members = list(members)
    while True:
        before = [(each.epoch, each.owned) for each in members]
        for each in members:
            await each.settle()
        if before == [(each.epoch, each.owned) for each in members]:
            return


def coordinator_of(cluster: SimCluster, group: str = GROUP) -> SimMachine:
    """By the newest metadata."""
    topic = newest_image(cluster).topic_named(OFFSETS_TOPIC)
    assert topic is not None
    return cluster.broker(topic.partitions[partition_of_group(group, len(topic.partitions))].leader)


def shard_of(machine: SimMachine, group: str = GROUP) -> GroupShard | None:
    """What a broker has in memory, whoever it thinks coordinates."""
    broker = machine.broker
    if broker is None:
        return None
    try:
        return broker.groups.find(group).shard
    except (NotCoordinator, QuorateError):
        return None
