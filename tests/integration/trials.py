"""A real cluster under load, something done to it, and the proof that nothing acknowledged was lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from quorate.chaos.history.history import History
from quorate.chaos.ledger.load import LedgerLoad
from quorate.chaos.ledger.proof import Proof, prove
from quorate.chaos.ledger.waiting import topic_until, until_so, until_whole
from quorate.client import AsyncAdmin
from quorate.client.admin.types import PartitionDescription, TopicDescription
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.node.local_cluster import LocalCluster
from tests.integration.direct_calls import BrokerCalls

__all__ = ["QUICK", "Trial", "trial", "until"]

#: A hung broker is noticed sooner than by default. A dead one is noticed at once, whatever these say.
QUICK: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "2000",
    "broker.lease.ms": "900",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.heartbeat.interval.ms": "100",
}


async def until(is_so: Callable[[], Awaitable[bool]], what: str) -> None:
    await until_so(what, is_so, bool)


class Trial:
    """What a test may do and look at. Nodes go by their names, as in ``LocalCluster``."""

    def __init__(
        self, cluster: LocalCluster, admin: AsyncAdmin, topics: Mapping[str, TopicDescription]
    ) -> None:
        self.cluster = cluster
        self.admin = admin
        self.topics = topics
        self.history = History()
        self.partitions = [
            TopicPartition(TopicName(name), PartitionId(each.partition))
            for name, topic in topics.items()
            for each in topic.partitions
        ]

    def load(self, *topics: str, **options: Any) -> LedgerLoad:
        """On the topics named; none: on all."""
        partitions = [each for each in self.partitions if not topics or each.topic in topics]
        return LedgerLoad(self.cluster.bootstrap, partitions, history=self.history, **options)

    async def prove(self, *topics: str) -> Proof:
        """About these topics, or all. Every node runs, nobody writes."""
        return await prove(self.cluster, self.history, *(topics or self.topics))

    # -- looking

    def name(self, node_id: int) -> str:
        return next(node.name for node in self.cluster.nodes if node.id == node_id)

    def id(self, name: str) -> int:
        return self.cluster.node(name).id

    async def partition(self, topic: str, number: int = 0) -> PartitionDescription:
        return (await self.admin.describe_topic(topic)).partitions[number]

    async def leader(self, topic: str, number: int = 0) -> str:
        """Once there is one."""
        found = await self.partition_until(topic, lambda each: each.leader is not None, number=number)
        assert found.leader is not None
        return self.name(found.leader)

    async def followers(self, topic: str, number: int = 0) -> list[str]:
        leader = await self.leader(topic, number)
        replicas = (await self.partition(topic, number)).replicas
        return [name for name in map(self.name, replicas) if name != leader]

    async def active_controller(self) -> str:
        return self.name((await self.cluster.wait_for_controller()).controller)

    async def partition_until(
        self, topic: str, is_so: Callable[[PartitionDescription], bool], *, number: int = 0
    ) -> PartitionDescription:
        found = await topic_until(self.admin, topic, lambda each: is_so(each.partitions[number]))
        return found.partitions[number]

    async def until_whole(self) -> None:
        for topic in self.topics:
            await until_whole(self.admin, topic)

    def calls(self, name: str) -> BrokerCalls:
        """To this broker alone."""
        return BrokerCalls(self.cluster.node(name).address)


@asynccontextmanager
async def trial(
    directory: Path,
    topics: Mapping[str, Mapping[str, Any]],
    *,
    settings: Mapping[str, str] = QUICK,
    **layout: Any,
) -> AsyncIterator[Trial]:
    """``topics``: by name, what ``create_topic`` is given; ``layout``: what ``LocalCluster.create`` is."""
    cluster = LocalCluster.create(str(directory), settings=settings, **layout)
    async with cluster, AsyncAdmin(cluster.bootstrap) as admin:
        created = {name: await admin.create_topic(name, **arguments) for name, arguments in topics.items()}
        yield Trial(cluster, admin, created)
