"""Replicas found damaged, on their way to the controller (rule 44).

Each report has to be heard once: until then the replica may be taken for one that holds everything. And it
must not be heard again afterwards, because by then the replica may be whole again, and would be thrown out of
the ISR for nothing; as the only member it had, the partition would be offline for good. So a report is kept
until a heartbeat that carried it is answered; if the stream breaks first, the next heartbeat carries it
again, unless the replica is of use by then. A damaged log is dropped only in a leader epoch that does not
count on it (``following.may_refetch``): whoever was repaired has been heard.
"""

from __future__ import annotations

from collections.abc import Callable

from quorate.core.ids import ReplicaKey
from quorate.v1.controller_pb2 import ReplicaName

__all__ = ["DamageReports"]


class DamageReports:
    """At most one heartbeat that carries reports is under way at a time."""

    def __init__(self, is_unusable: Callable[[ReplicaKey], bool]) -> None:
        self._is_unusable = is_unusable
        self._waiting: set[ReplicaKey] = set()
        self._under_way: set[ReplicaKey] = set()

    def add(self, replica: ReplicaKey) -> None:
        self._waiting.add(replica)

    def send(self) -> list[ReplicaName]:
        """For the heartbeat that leaves now."""
        assert not self._under_way
        self._under_way = {each for each in self._waiting if self._is_unusable(each)}
        self._waiting = set()
        return [
            ReplicaName(topic_id=each.topic_id, partition=each.partition) for each in sorted(self._under_way)
        ]

    def answered(self) -> None:
        self._under_way = set()

    def unanswered(self) -> None:
        """The heartbeat may or may not have been heard."""
        self._waiting |= self._under_way
        self._under_way = set()
