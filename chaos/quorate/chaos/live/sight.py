"""What can be seen of a real cluster through its admin API, with nodes by the names that people give them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from quorate.chaos.live.waiting import topic_until, until_so
from quorate.client import AsyncAdmin
from quorate.client.admin.types import ClusterDescription, PartitionDescription
from quorate.core.ids import TopicPartition

__all__ = ["Sight"]


class Sight(ABC):
    """Whoever looks has an admin and knows the nodes. Broken clusters answer late, so all of it waits."""

    __slots__ = ()

    admin: AsyncAdmin

    @property
    @abstractmethod
    def node_names(self) -> Mapping[int, str]:
        """By id, as they are now: brokers join."""

    def name_of(self, node_id: int) -> str:
        return self.node_names.get(node_id, str(node_id))

    def id_of(self, name: str) -> int:
        return next(node_id for node_id, known in self.node_names.items() if known == name)

    # -- a partition

    async def describe(self, partition: TopicPartition) -> PartitionDescription:
        return await self.described_until(partition, lambda _: True)

    async def described_until(
        self, partition: TopicPartition, is_so: Callable[[PartitionDescription], bool]
    ) -> PartitionDescription:
        found = await topic_until(
            self.admin, partition.topic, lambda topic: is_so(topic.partitions[partition.partition])
        )
        return found.partitions[partition.partition]

    async def leader(self, partition: TopicPartition) -> str:
        """Once there is one."""
        found = await self.described_until(partition, lambda each: each.leader is not None)
        assert found.leader is not None
        return self.name_of(found.leader)

    async def followers(self, partition: TopicPartition) -> list[str]:
        leader = await self.leader(partition)
        replicas = (await self.describe(partition)).replicas
        return [name for name in map(self.name_of, replicas) if name != leader]

    async def another_leads(self, partition: TopicPartition, than: str) -> str:
        """Once it is so; returns who."""
        found = await self.described_until(
            partition, lambda each: each.leader not in (None, self.id_of(than))
        )
        assert found.leader is not None
        return self.name_of(found.leader)

    # -- the cluster

    async def cluster_until(self, is_so: Callable[[ClusterDescription], bool]) -> ClusterDescription:
        return await until_so("the cluster", self.admin.describe_cluster, is_so)

    async def active_controller(self) -> str:
        described = await self.cluster_until(lambda each: each.controller is not None)
        assert described.controller is not None
        return self.name_of(described.controller)

    async def are_unfenced(self, names: Sequence[str]) -> None:
        """These brokers, and nobody else."""
        wanted = set(map(self.id_of, names))
        await self.cluster_until(
            lambda found: {each.broker_id for each in found.brokers if not each.is_fenced} == wanted
        )

    async def moving(self) -> list[TopicPartition]:
        """Partitions whose replicas are on the way."""
        return [each.partition for each in await self.admin.list_reassignments()]
