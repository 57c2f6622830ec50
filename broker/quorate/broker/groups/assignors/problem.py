"""What an assignor is asked: who wants which topics, and who had what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from quorate.broker.groups.records import TopicIdPartition
from quorate.core.ids import TopicId

__all__ = ["AssignableMember", "AssignableTopic", "Assignment", "Assignor"]

#: by member id; every member is in it
Assignment = dict[str, frozenset[TopicIdPartition]]


class AssignableMember(NamedTuple):
    member_id: str
    #: those that exist, of those that it wants
    topic_ids: tuple[TopicId, ...]
    #: empty: not known
    rack: str
    #: what it was to hold before
    target: frozenset[TopicIdPartition]


class AssignableTopic(NamedTuple):
    partition_count: int
    #: where each partition has replicas; empty: nobody asks
    racks: tuple[frozenset[str], ...] = ()


#: Every partition of every topic that somebody wants goes to exactly one of those who want it. The same
#: question has the same answer, in whatever order the members come.
Assignor = Callable[[Sequence[AssignableMember], Mapping[TopicId, AssignableTopic]], Assignment]
