"""What clients are told when a replica cannot do what they asked.

An error inside the broker says what is wrong with this replica. A client needs to know what to do: ask the
broker that leads, or try again once there is one. So the broker that leads is named, and a replica that is
out of order is no longer a replica that serves: another one will lead.
"""

from __future__ import annotations

from quorate.broker.hosted import Hosted
from quorate.broker.replica.partition import Partition
from quorate.errors import (
    BrokerFenced,
    LogDamaged,
    NotLeaderOrFollower,
    QuorateError,
    StorageFailed,
    Unavailable,
)

__all__ = ["appended_while_fenced", "fenced", "for_client"]


def for_client(error: QuorateError, partition: Partition, hosted: Hosted) -> QuorateError:
    """The error that a client gets for one that was raised while ``partition`` was used. Nothing was done."""
    if isinstance(error, LogDamaged | StorageFailed):
        # Never skipped and never served (rule 44), but not the client's concern either: it shall try again.
        topic, number = partition.topic_partition
        return NotLeaderOrFollower(
            f"{partition.topic_partition} cannot be served from this broker any more ({error.code}); "
            "another replica takes over",
            topic=topic,
            partition=number,
            leader_epoch=partition.leader_epoch,
            cause=error.code,
        )
    if isinstance(error, NotLeaderOrFollower):
        return _with_leader(error, partition, hosted)
    return error


def _with_leader(error: NotLeaderOrFollower, partition: Partition, hosted: Hosted) -> NotLeaderOrFollower:
    """Saves the client a question: it knows where to go on from the answer alone."""
    leader = hosted.image.brokers.get(partition.leader)
    facts = {
        **error.facts,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "leader_address": leader.address if leader is not None else None,
    }
    return NotLeaderOrFollower(error.message, **facts)


def fenced() -> BrokerFenced:
    """For answers that need the lease, when it is over (rule 37). Nothing was done."""
    return BrokerFenced("this broker has lost touch with the active controller: another one may lead by now")


def appended_while_fenced() -> Unavailable:
    """For acks of the leader alone: another leader may have been elected, without the record (rule 37)."""
    return Unavailable(
        "appended, but this broker has lost touch with the active controller: whether it stays is unknown"
    )
