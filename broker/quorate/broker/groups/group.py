"""All groups of one coordinator, changed by records and by nothing else.

``Groups.apply`` is called for every record, in the order of the log: when it has been appended, and when it
is read back. What is kept follows from the latest record of each key, so it does not matter which of the
earlier ones compaction has removed. On the way, while a log is read that is being compacted, a partition
may seem to have two owners, or a member's record be there before its group's; nothing here minds that, and
once the end is reached it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from quorate.broker.groups.member import Member
from quorate.broker.groups.records import GroupRecord, TopicIdPartition, partition_of
from quorate.broker.groups.revisions import BEFORE_ALL, Revision
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs, TopicName
from quorate.v1.group_pb2 import (
    GROUP_STATE_EMPTY,
    GROUP_STATE_RECONCILING,
    GROUP_STATE_STABLE,
    GroupState,
)
from quorate.v1.group_records_pb2 import GroupValue, MemberValue, OffsetValue

__all__ = ["Group", "GroupOffset", "Groups", "Member"]


class GroupOffset(NamedTuple):
    """How far a group has come in one partition."""

    #: of the next record to read
    offset: Offset
    #: of the record before it; None: not known
    leader_epoch: LeaderEpoch | None
    metadata: str
    committed_at_ms: TimestampMs
    #: the topic's name when it was committed
    topic: TopicName
    #: who committed it; empty: not a member
    member_id: str
    #: how the member numbered its request; 0: not at all
    commit_number: int
    #: where in the log
    written_at: Revision


class Group:
    """To be read by everybody, and changed by records alone."""

    __slots__ = (
        "_holders",
        "_is_marked_deleted",
        "_members",
        "_offsets",
        "_target_owners",
        "assignment_epoch",
        "changed_at",
        "departure_epoch",
        "empty_since_ms",
        "group_epoch",
        "name",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        #: counts the changes: of members, of what they want, of topics, of who holds what; 0: none yet
        self.group_epoch = 0
        #: the group epoch for which targets were computed last
        self.assignment_epoch = 0
        #: the group epoch in which a member has gone for good last; 0: none has
        self.departure_epoch = 0
        #: when the last member left; 0: it has members, or never had one
        self.empty_since_ms = TimestampMs(0)
        #: where in the log something came to it last: a member, an offset, an epoch
        self.changed_at = BEFORE_ALL
        self._is_marked_deleted = False
        self._members: dict[str, Member] = {}
        self._offsets: dict[TopicIdPartition, GroupOffset] = {}
        #: the member that may be reading a partition
        self._holders: dict[TopicIdPartition, str] = {}
        #: the member that is to read it
        self._target_owners: dict[TopicIdPartition, str] = {}

    @property
    def members(self) -> Mapping[str, Member]:
        """By their ids, in no particular order."""
        return self._members

    @property
    def offsets(self) -> Mapping[TopicIdPartition, GroupOffset]:
        """In no particular order."""
        return self._offsets

    @property
    def state(self) -> GroupState:
        if not self._members:
            return GROUP_STATE_EMPTY
        is_stable = all(member.is_settled for member in self._members.values())
        return GROUP_STATE_STABLE if is_stable else GROUP_STATE_RECONCILING

    def holder_of(self, partition: TopicIdPartition) -> str | None:
        """The member that may be reading it, assigned or about to give it up."""
        return self._holders.get(partition)

    def target_owner_of(self, partition: TopicIdPartition) -> str | None:
        """The member that is to read it."""
        return self._target_owners.get(partition)

    @property
    def holders(self) -> Mapping[TopicIdPartition, str]:
        return self._holders

    @property
    def target_owners(self) -> Mapping[TopicIdPartition, str]:
        return self._target_owners

    def member_of_instance(self, instance_id: str) -> Member | None:
        """The static member of that name."""
        return next((each for each in self._members.values() if each.instance_id == instance_id), None)

    @property
    def is_gone(self) -> bool:
        """Nothing says that it exists."""
        return not self.group_epoch and not self._members and not self._offsets

    @property
    def is_deleted(self) -> bool:
        """For everybody but its former members: its epochs are remembered, and nothing else is there."""
        return self._is_marked_deleted and not self._members and not self._offsets

    def apply(self, record: GroupRecord, written_at: Revision) -> None:
        """For ``Groups``, which knows when the group is gone."""
        key, value = record
        if value is not None:
            self.changed_at = max(self.changed_at, written_at)
        kind = key.WhichOneof("about")
        if kind == "is_group":
            assert value is None or isinstance(value, GroupValue)
            self._set_group(value)
        elif kind == "member_id":
            assert value is None or isinstance(value, MemberValue)
            self._set_member(key.member_id, value)
        elif kind == "offset":
            assert value is None or isinstance(value, OffsetValue)
            self._set_offset(partition_of(key.offset), value, written_at)

    def _set_group(self, value: GroupValue | None) -> None:
        value = value or GroupValue()
        self.group_epoch = value.group_epoch
        self.assignment_epoch = value.assignment_epoch
        self.departure_epoch = value.departure_epoch
        self.empty_since_ms = TimestampMs(value.empty_since_ms)
        self._is_marked_deleted = value.is_deleted

    def _set_member(self, member_id: str, value: MemberValue | None) -> None:
        former = self._members.pop(member_id, None)
        if former is not None:
            _forget(self._holders, former.assigned, member_id)
            _forget(self._holders, former.revoking, member_id)
            _forget(self._target_owners, former.target, member_id)
        if value is not None:
            member = self._members[member_id] = Member.of(member_id, value)
            self._holders.update(dict.fromkeys(member.assigned, member_id))
            self._holders.update(dict.fromkeys(member.revoking, member_id))
            self._target_owners.update(dict.fromkeys(member.target, member_id))

    def _set_offset(
        self, partition: TopicIdPartition, value: OffsetValue | None, written_at: Revision
    ) -> None:
        if value is None:
            self._offsets.pop(partition, None)
            return
        self._offsets[partition] = GroupOffset(
            Offset(value.offset),
            LeaderEpoch(value.leader_epoch) if value.HasField("leader_epoch") else None,
            value.metadata,
            TimestampMs(value.committed_at_ms),
            TopicName(value.topic),
            value.member_id,
            value.commit_number,
            written_at,
        )


def _forget(
    owners: dict[TopicIdPartition, str], partitions: Iterable[TopicIdPartition], member_id: str
) -> None:
    """Not those that are somebody else's by now: in a batch, who gets may come before who gives."""
    for partition in partitions:
        if owners.get(partition) == member_id:
            del owners[partition]


class Groups(Mapping[str, Group]):
    """By name. A group that nothing is known of any more is not in it."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        #: where in the log an offset was removed last, of whichever group: of one that is not there any more,
        #: nothing else tells that it has ever been
        self.forgotten_at = BEFORE_ALL

    def __getitem__(self, name: str) -> Group:
        return self._groups[name]

    def __iter__(self) -> Iterator[str]:
        """In the order of their names: that in which they were made depends on what was compacted."""
        return iter(sorted(self._groups))

    def __len__(self) -> int:
        return len(self._groups)

    def apply(self, record: GroupRecord, written_at: Revision) -> None:
        """``written_at``: the record's place in the log."""
        name = record.key.group
        if record.value is None and record.key.WhichOneof("about") == "offset":
            self.forgotten_at = max(self.forgotten_at, written_at)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name)
        group.apply(record, written_at)
        if group.is_gone:
            del self._groups[name]
