"""Replicas found damaged, on their way to the controller (rule 44).

Each report has to be heard once: until then the replica may be taken for one that holds everything. So it is
kept until a heartbeat that carried it is answered; if the stream breaks first, the next heartbeat carries it
again, unless the replica is of use by then.

And it must not be heard when the replica is whole again: that one would be thrown out of the ISR for nothing,
and as the only member the partition would be offline for good. A copy that was given up may arrive at any
time, and at a controller that has heard nothing of this broker yet. So a report names the leader epoch in
which the replica was found damaged, and goes on naming that one. A damaged log is dropped only in a later
epoch, and one that does not count on it (``following.may_refetch``); there the controller does not listen to
the report any more. Where a later one counts on it all the same, the replica is reported again as soon as it
is to lead or to follow there (``Partition``).
"""

from __future__ import annotations

from collections.abc import Callable

from quorate.core.ids import LeaderEpoch, ReplicaKey
from quorate.v1.controller_pb2 import DamagedReplica

__all__ = ["DamageReports"]


class DamageReports:
    """At most one heartbeat that carries reports is under way at a time."""

    def __init__(self, is_unusable: Callable[[ReplicaKey], bool]) -> None:
        self._is_unusable = is_unusable
        #: with the last leader epoch in which each was found damaged
        self._waiting: dict[ReplicaKey, LeaderEpoch] = {}
        self._under_way: dict[ReplicaKey, LeaderEpoch] = {}

    def add(self, replica: ReplicaKey, leader_epoch: LeaderEpoch) -> None:
        self._waiting[replica] = max(leader_epoch, self._waiting.get(replica, leader_epoch))

    def send(self) -> list[DamagedReplica]:
        """For the heartbeat that leaves now."""
        assert not self._under_way
        self._under_way = {each: epoch for each, epoch in self._waiting.items() if self._is_unusable(each)}
        self._waiting = {}
        return [
            DamagedReplica(topic_id=each.topic_id, partition=each.partition, leader_epoch=epoch)
            for each, epoch in sorted(self._under_way.items())
        ]

    def answered(self) -> None:
        self._under_way = {}

    def unanswered(self) -> None:
        """The heartbeat may or may not have been heard."""
        under_way, self._under_way = self._under_way, {}
        for replica, leader_epoch in under_way.items():
            self.add(replica, leader_epoch)
