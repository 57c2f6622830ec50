"""Why a broker that is drained goes on leading: nobody else can, and nobody else will by itself.

A replica that runs and is not in sync catches up, so it is worth waiting for. One whose broker is away, or
draining as well, is not, and where there is no other replica nobody ever comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quorate.errors import UnknownTopicOrPartition
from quorate.v1 import admin_pb2

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin

__all__ = ["KeptLeader", "kept_leaders", "told_kept"]

#: So many are looked at, and named: the count says the rest.
_NAMED_MAX: Final = 20


class KeptLeader(NamedTuple):
    """A partition that stays with the broker that is drained."""

    topic: str
    partition: int
    why: str

    def document(self) -> dict[str, Any]:
        return self._asdict()


async def kept_leaders(
    connection: ImpatientAdmin, broker_id: int, led: Sequence[admin_pb2.PartitionName]
) -> list[KeptLeader]:
    """The first that it leads, if none of these will get another leader; else nothing: waiting helps."""
    cluster = await connection.describe_cluster()
    brokers = {each.broker_id: each for each in cluster.brokers}
    topics: dict[str, admin_pb2.TopicDescription] = {}
    kept: list[KeptLeader] = []
    for name in led[:_NAMED_MAX]:
        try:
            if name.topic not in topics:
                topics[name.topic] = await connection.describe_topic(name.topic)
        except UnknownTopicOrPartition:
            return []  # deleted meanwhile
        described = [each for each in topics[name.topic].partitions if each.partition == name.partition]
        others = {other for each in described for other in each.replicas} - {broker_id}
        away = {other for other in others if _is_away(brokers.get(other))}
        draining = {other for other in others - away if brokers[other].is_draining}
        if others - away - draining:
            return []
        kept.append(KeptLeader(name.topic, name.partition, _why(draining, away)))
    return kept


def told_kept(broker_id: int, kept: Sequence[KeptLeader], count: int) -> str:
    """``count``: of all partitions that it leads."""
    names = ", ".join(f"{each.topic}:{each.partition} ({each.why})" for each in kept)
    more = f" and {count - len(kept)} more" if count > len(kept) else ""
    return (
        f"broker {broker_id} is draining, and still leads {count} partition(s) that nobody else can lead: "
        f"{names}{more}; bring a broker back that is away (`quorate cluster health`), take one back into "
        "service (`quorate broker drain ID --cancel`), or give them another replica (`quorate partition "
        f"reassign`): they then leave by themselves; or `quorate broker drain {broker_id} --cancel`"
    )


def _is_away(broker: admin_pb2.BrokerDescription | None) -> bool:
    return broker is None or broker.is_fenced or broker.is_shutting_down


def _why(draining: Iterable[int], away: Iterable[int]) -> str:
    reasons = [
        *(f"broker {each} is draining" for each in sorted(draining)),
        *(f"broker {each} is away" for each in sorted(away)),
    ]
    return ", ".join(reasons) or "no other replica"
