"""What is wrong with a cluster, as ``quorate cluster health`` tells it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from quorate.console.health_steps import next_steps
from quorate.console.topic_documents import partition_documents
from quorate.errors import UnknownTopicOrPartition
from quorate.v1 import admin_pb2

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin

__all__ = ["Health", "health_of", "look_at_cluster"]

#: So many partitions are named at most, and so many topics are looked at for them: the counts say the rest.
_PARTITIONS_NAMED_MAX: Final = 20
_TOPICS_ASKED_MAX: Final = 200
_TOPICS_AT_ONCE: Final = 8

_STATES_BY_GRAVITY: Final = ("offline", "under min.insync.replicas", "recovering", "under-replicated")


@dataclass(slots=True)
class Health:
    #: what is wrong now: data or changes cannot be served, or one more failure would do that
    problems: list[str] = field(default_factory=list)
    #: what should not stay like this
    warnings: list[str] = field(default_factory=list)
    #: about the problems, the first thing first
    next_steps: list[str] = field(default_factory=list)
    #: partitions that the problems are about, the worst first: their documents with a ``topic``
    partitions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def what_to_do(self) -> str | None:
        """The first step; None: there is none that is known."""
        return self.next_steps[0] if self.next_steps else None


async def look_at_cluster(connection: ImpatientAdmin) -> Health:
    cluster = await connection.describe_cluster()
    quorum = await connection.describe_quorum()
    health = health_of(cluster, quorum)
    if cluster.offline_partition_count or cluster.under_replicated_partition_count:
        health.partitions = await _ill_partitions(connection)
    health.next_steps = next_steps(cluster, quorum, health.partitions)
    return health


async def _ill_partitions(connection: ImpatientAdmin) -> list[dict[str, Any]]:
    names = [topic.name for topic in await connection.list_topics()][:_TOPICS_ASKED_MAX]
    at_once = asyncio.Semaphore(_TOPICS_AT_ONCE)

    async def look(name: str) -> list[dict[str, Any]]:
        try:
            async with at_once:
                described = await connection.describe_topic(name)
        except UnknownTopicOrPartition:
            return []  # deleted meanwhile
        documents = [{"topic": name, **each} for each in partition_documents(described)]
        return [each for each in documents if _gravity(each) < len(_STATES_BY_GRAVITY)]

    found = [each for ill in await asyncio.gather(*map(look, names)) for each in ill]
    return sorted(found, key=_gravity)[:_PARTITIONS_NAMED_MAX]


def _gravity(document: dict[str, Any]) -> int:
    """Less is worse; one that cannot be served, though it has a leader, comes first."""
    if document["error"]:
        return -1
    state = document["state"]
    return _STATES_BY_GRAVITY.index(state) if state in _STATES_BY_GRAVITY else len(_STATES_BY_GRAVITY)


def health_of(cluster: admin_pb2.DescribeClusterResponse, quorum: admin_pb2.DescribeQuorumResponse) -> Health:
    health = Health()
    _look_at_quorum(quorum, health)
    counts = (
        (cluster.offline_partition_count, "without a leader"),
        (cluster.under_min_isr_partition_count, "with fewer replicas in sync than min.insync.replicas"),
        (cluster.under_replicated_partition_count, "with replicas that are not in sync"),
        (cluster.recovering_partition_count, "recovered, which may lack acknowledged records"),
    )
    health.problems += [
        f"{count} {'partition' if count == 1 else 'partitions'} {what}" for count, what in counts if count
    ]
    for broker in cluster.brokers:
        if broker.is_fenced:
            health.problems.append(
                f"broker {broker.broker_id} at {broker.address} is fenced: down, cut off, or not ready yet"
            )
        elif broker.is_draining:
            health.warnings.append(
                f"broker {broker.broker_id} is draining: it leads nothing new and takes no new replicas; "
                f"`quorate broker drain {broker.broker_id} --cancel` takes it back into service"
            )
    health.warnings += [
        f"unclean election is allowed on {topic}" for topic in cluster.unclean_election_topics
    ]
    return health


def _look_at_quorum(quorum: admin_pb2.DescribeQuorumResponse, health: Health) -> None:
    count = len(quorum.voters)
    if count > 0 and count % 2 == 0:
        health.warnings.append(
            f"{count} voters: the loss of {count // 2} stops the quorum, as with {count - 1}; add one more"
        )
    for voter in quorum.voters:
        who = f"voter {voter.node_id} at {voter.address}"
        if voter.HasField("is_digest_equal") and not voter.is_digest_equal:
            health.problems.append(
                f"{who} has other metadata than the leader at offset {voter.applied_index}: stop it, keep "
                "its files"
            )
        if voter.state in ("unreachable", "refused"):
            health.problems.append(f"{who} is {voter.state}")
        elif voter.state not in ("leader", "follower"):
            health.warnings.append(f"{who} is {voter.state}")
    for learner in quorum.learners:
        health.warnings.append(f"node {learner.node_id} is being brought up to date in order to vote")
