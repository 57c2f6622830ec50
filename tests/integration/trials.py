"""A real cluster under load, something done to it, and the proof that nothing acknowledged was lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from quorate.chaos.history.history import History
from quorate.chaos.live.load import LedgerLoad
from quorate.chaos.live.reach import Reach
from quorate.chaos.live.sight import Sight
from quorate.chaos.live.waiting import until_so, until_whole
from quorate.client import AsyncAdmin
from quorate.client.admin.types import TopicDescription
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.node.local_cluster import LocalCluster
from tests.integration.direct_calls import BrokerCalls
from tests.integration.proof import Proof, prove

__all__ = ["LEDGER", "QUICK", "Trial", "trial", "until"]

#: A hung broker is noticed sooner than by default. A dead one is noticed at once, whatever these say.
QUICK: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "2000",
    "broker.lease.ms": "900",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.heartbeat.interval.ms": "100",
}


#: the first partition of the topic that most trials write to
LEDGER: Final = TopicPartition(TopicName("ledger"), PartitionId(0))


async def until(is_so: Callable[[], Awaitable[bool]], what: str) -> None:
    await until_so(what, is_so, bool)


class Trial(Sight):
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

    @property
    def node_names(self) -> dict[int, str]:
        return {node.id: node.name for node in self.cluster.nodes}

    def load(self, *topics: str, **options: Any) -> LedgerLoad:
        """On the topics named; none: on all."""
        partitions = [each for each in self.partitions if not topics or each.topic in topics]
        return LedgerLoad(self.cluster.bootstrap, partitions, history=self.history, **options)

    async def prove(self, *topics: str) -> Proof:
        """About these topics, or all. Every node runs, nobody writes."""
        return await prove(Reach.of(self.cluster), self.history, *(topics or self.topics))

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
