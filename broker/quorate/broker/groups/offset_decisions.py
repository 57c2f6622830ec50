"""Decisions about offsets: who may say how far a group has come, and when that is forgotten.

**Commits are fenced** (rule 62). A member that the group has given up must not move offsets: whoever reads
the partition now would begin there, or has gone further. So a member commits

- only in an epoch that the coordinator has given it: not in a newer one than it knows;
- only what it holds: assigned, or about to be given up;
- only in an epoch in which it held it already: not in one from before it lost the partition and got it back.

A member that is merely behind, because an answer is still on its way, commits what it has held all along.

**Of two commits of a member the later one stands**, in whichever order they arrive. A member that has given
up on a request sends another; if the first one was merely slow, it comes last, and would undo what the member
was told is committed. So members number their requests.

Somebody without a member id, a tool or an application that assigns partitions by itself, may commit while
the group has no members. There is no one whose epochs or numbers could be compared, so such a commit, and
every deletion, is one of offsets that somebody has *seen*: it names their revision, and what has changed
since stays as it is (``revisions``). It is answered as done where what it wants is so, which it is when it
was carried out and its answer lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from quorate.broker.groups.group import Group, GroupOffset, Groups
from quorate.broker.groups.member import Member
from quorate.broker.groups.membership import known_member
from quorate.broker.groups.records import (
    GroupRecord,
    TopicIdPartition,
    group_record,
    named_partitions,
    offset_record,
    partition_of,
    partitions_of,
)
from quorate.broker.groups.requests import check_new_group_name
from quorate.broker.groups.revisions import Revision
from quorate.broker.groups.settings import GroupSettings
from quorate.broker.groups.topics import TopicCatalog
from quorate.errors import (
    CommitOvertaken,
    FencedMemberEpoch,
    GroupNotEmpty,
    InvalidRequest,
    InvalidUpdateVersion,
    QuorateError,
    StaleMemberEpoch,
    UnknownMember,
    UnknownTopicOrPartition,
)
from quorate.v1.group_pb2 import (
    CommitOffsetsRequest,
    FetchOffsetsRequest,
    OffsetToCommit,
    TopicPartitions,
)
from quorate.v1.group_records_pb2 import GroupValue, OffsetValue

__all__ = [
    "OffsetsDecision",
    "check_commit",
    "check_fetch",
    "check_partition",
    "commit",
    "delete_group",
    "delete_offsets",
    "expired_offsets",
    "unknown_partition",
]


#: no call lasts so long, by far
_CALLS_UNDER_WAY_MS: Final = 600_000


class OffsetsDecision(NamedTuple):
    #: none: nothing changes
    records: list[GroupRecord]
    #: one for each partition of the request, in its order; None: it is done once the records are committed
    errors: list[QuorateError | None]


# -- committing


def commit(
    groups: Groups,
    request: CommitOffsetsRequest,
    *,
    topics: TopicCatalog,
    settings: GroupSettings,
    now_ms: int,
    refused: Mapping[int, QuorateError] | None = None,
) -> OffsetsDecision:
    """``refused``: what the caller knows against some of the offsets, by their place in the request."""
    check_new_group_name(request.group, settings)
    member = check_commit(groups, request)
    seen = None if request.member_id else Revision.parse(request.revision, group=request.group)
    group = groups.get(request.group)
    records: list[GroupRecord] = []
    errors: list[QuorateError | None] = []
    for place, entry in enumerate(request.offsets):
        error = (
            _error_of(entry, member, request, topics, settings)
            or (refused or {}).get(place)
            or _overtaken(group, partition_of(entry), request)
        )
        is_done = False
        if seen is not None and error is None and _has_changed(groups, request.group, entry, seen):
            is_done = _is_in_force(group, entry)
            error = None if is_done else _changed_since(request.group, str(partition_of(entry)))
        errors.append(error)
        if error is None and not is_done:
            records.append(_record_of(request, entry, topics, now_ms))
    return OffsetsDecision(records, errors)


def check_commit(groups: Groups, request: CommitOffsetsRequest) -> Member | None:
    """May whoever this is commit anything at all? The member that commits; None: none does."""
    partitions = [partition_of(entry) for entry in request.offsets]
    if len(set(partitions)) < len(partitions):
        raise InvalidRequest("a partition is in the request twice: which of the offsets counts?")
    group = groups.get(request.group)
    if not request.member_id:
        if group is not None and group.members:
            raise UnknownMember(
                f"group {group.name} has {len(group.members)} member(s): nobody else may commit for it",
                group=group.name,
            )
        return None
    member = known_member(group, request.member_id)
    _check_not_newer(member, request.member_epoch)
    return member


def check_partition(member: Member, partition: TopicIdPartition, *, member_epoch: int) -> None:
    """May the member commit in this partition, in this epoch?"""
    since_epoch = member.since_epoch(partition)
    if since_epoch is None:
        raise StaleMemberEpoch(
            f"member {member.member_id} does not hold {partition}",
            member_id=member.member_id,
            member_epoch=member.member_epoch,
        )
    if since_epoch > member_epoch:
        raise StaleMemberEpoch(
            f"member {member.member_id} holds {partition} since epoch {since_epoch}, and speaks in "
            f"{member_epoch}",
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            since_epoch=since_epoch,
        )


def _check_not_newer(member: Member, epoch: int) -> None:
    if epoch > member.member_epoch:
        raise FencedMemberEpoch(
            f"member {member.member_id} is in epoch {member.member_epoch}, and speaks in {epoch}",
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            request_member_epoch=epoch,
        )


def _error_of(
    entry: OffsetToCommit,
    member: Member | None,
    request: CommitOffsetsRequest,
    topics: TopicCatalog,
    settings: GroupSettings,
) -> QuorateError | None:
    partition = partition_of(entry)
    try:
        if member is not None:
            check_partition(member, partition, member_epoch=request.member_epoch)
        _check_entry(entry, settings)
        # An offset of a topic that is not in the metadata could never be told from one of a deleted topic.
        if not topics.has(partition):
            raise unknown_partition(partition)
    except QuorateError as error:
        return error
    return None


def unknown_partition(partition: TopicIdPartition) -> UnknownTopicOrPartition:
    return UnknownTopicOrPartition(
        f"there is no partition {partition}", topic_id=partition.topic_id, partition=partition.partition
    )


def _check_entry(entry: OffsetToCommit, settings: GroupSettings) -> None:
    if entry.offset < 0:
        raise InvalidRequest(f"offset {entry.offset} of {partition_of(entry)} is negative")
    size = len(entry.metadata.encode())
    if size > settings.offset_metadata_bytes_max:
        raise InvalidRequest(
            f"metadata of {size} bytes, {settings.offset_metadata_bytes_max} at most",
            bytes_max=settings.offset_metadata_bytes_max,
        )


def _overtaken(
    group: Group | None, partition: TopicIdPartition, request: CommitOffsetsRequest
) -> QuorateError | None:
    """A request with the same number is the same one once more, and changes nothing either way."""
    stands = _offset_in(group, partition)
    if (
        stands is None
        or not request.member_id
        or not request.commit_number
        or stands.member_id != request.member_id
        or stands.commit_number <= request.commit_number
    ):
        return None
    return CommitOvertaken(
        f"commit {stands.commit_number} of member {request.member_id} for {partition} is here already: "
        f"{request.commit_number} comes too late",
        member_id=request.member_id,
        commit_number=stands.commit_number,
    )


def _offset_in(group: Group | None, partition: TopicIdPartition) -> GroupOffset | None:
    return None if group is None else group.offsets.get(partition)


def _has_changed(groups: Groups, name: str, entry: OffsetToCommit, seen: Revision) -> bool:
    """Since then, or perhaps: of an offset that is not there it is not known when it went."""
    stands = _offset_in(groups.get(name), partition_of(entry))
    return not seen.is_after(groups.forgotten_at if stands is None else stands.written_at)


def _is_in_force(group: Group | None, entry: OffsetToCommit) -> bool:
    """What is asked for is so already: by this very request, as a rule, whose answer was lost."""
    stands = _offset_in(group, partition_of(entry))
    epoch = entry.leader_epoch if entry.HasField("leader_epoch") else None
    wanted = entry.offset, epoch, entry.metadata
    return stands is not None and (stands.offset, stands.leader_epoch, stands.metadata) == wanted


def _changed_since(group: str, what: str) -> InvalidUpdateVersion:
    return InvalidUpdateVersion(
        f"{what} of group {group} has changed since the revision that the request is based on. It was left "
        "as it is: look at it, and ask again if the change is still wanted",
        group=group,
    )


def _record_of(
    request: CommitOffsetsRequest, entry: OffsetToCommit, topics: TopicCatalog, now_ms: int
) -> GroupRecord:
    partition = partition_of(entry)
    value = OffsetValue(
        offset=entry.offset,
        leader_epoch=entry.leader_epoch if entry.HasField("leader_epoch") else None,
        metadata=entry.metadata,
        committed_at_ms=now_ms,
        topic=topics.name_of(partition.topic_id),
        member_id=request.member_id,
        commit_number=request.commit_number if request.member_id else 0,
    )
    return offset_record(request.group, partition, value)


# -- asking


def check_fetch(groups: Groups, request: FetchOffsetsRequest) -> None:
    """May whoever this is be told offsets?

    Anybody may who asks in nobody's name. A member asks where to begin in what it holds: not if it has been
    given the partition since and does not know it yet, because it may be about to read on from where it was
    when it last had it; and not if somebody else may be reading there (rule 62).
    """
    if not request.member_id:
        return
    member = known_member(groups.get(request.group), request.member_id)
    _check_not_newer(member, request.member_epoch)
    if request.member_epoch < member.previous_member_epoch:
        raise StaleMemberEpoch(
            f"member {member.member_id} is in epoch {member.member_epoch}, and asks in "
            f"{request.member_epoch}",
            member_id=member.member_id,
            member_epoch=member.member_epoch,
        )
    for partition in sorted(partitions_of(request.partitions)):
        check_partition(member, partition, member_epoch=request.member_epoch)


# -- forgetting


def expired_offsets(group: Group, *, now_ms: int, retention_ms: int) -> list[GroupRecord]:
    """What is due of a group without members, counted from its last commit and from when it became empty.

    With its last offset the group itself goes, but not before everything that former members have said has
    arrived or is lost. Its epochs begin anew after that: a commit of before would not be too old then.
    Whoever sleeps even longer is not fenced by epochs, but by its name: a member that begins anew takes
    another one.
    """
    if group.members:
        return []
    due = sorted(
        partition
        for partition, entry in group.offsets.items()
        if max(entry.committed_at_ms, group.empty_since_ms) + retention_ms <= now_ms
    )
    records = [offset_record(group.name, partition, None) for partition in due]
    if group.group_epoch and len(due) == len(group.offsets) and _is_quiet(group, now_ms):
        records.append(group_record(group.name, None))
    return records


def _is_quiet(group: Group, now_ms: int) -> bool:
    """Whatever its former members have said has arrived or is lost."""
    return group.empty_since_ms + _CALLS_UNDER_WAY_MS <= now_ms


def delete_group(groups: Groups, name: str, *, seen: Revision, now_ms: int) -> list[GroupRecord]:
    """As somebody has seen it. A group that is not there is not an error: that it is gone was asked for.

    Its epochs are remembered for as long as they would be if it had expired; nobody sees it meanwhile.
    """
    group = groups.get(name)
    if group is None or group.is_deleted:
        return []
    if group.members:
        raise GroupNotEmpty(
            f"group {name} has {len(group.members)} member(s)", group=name, members=len(group.members)
        )
    if not seen.is_after(group.changed_at):
        raise _changed_since(name, "something")
    records = [offset_record(name, partition, None) for partition in sorted(group.offsets)]
    if group.group_epoch:
        records.append(group_record(name, None if _is_quiet(group, now_ms) else _deleted(group)))
    return records


def _deleted(group: Group) -> GroupValue:
    return GroupValue(
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        departure_epoch=group.departure_epoch,
        empty_since_ms=group.empty_since_ms,
        is_deleted=True,
    )


def delete_offsets(
    groups: Groups,
    name: str,
    partitions: Iterable[TopicPartitions],
    *,
    topics: TopicCatalog,
    seen: Revision,
) -> OffsetsDecision:
    """Only where nobody reads. One error, or none, for each partition, in their order.

    A partition without an offset is not an error: that there is none is what was asked for.
    """
    group = groups.get(name) or Group(name)
    read = {
        topic_id
        for member in group.members.values()
        for topic_id in topics.subscribed(member.topic_names, member.subscription.pattern)
    }
    records: list[GroupRecord] = []
    errors: list[QuorateError | None] = []
    for partition in named_partitions(partitions):
        is_read = partition.topic_id in read or group.holder_of(partition) is not None
        stands = group.offsets.get(partition)
        error: QuorateError | None = None
        if is_read:
            topic = topics.name_of(partition.topic_id) or partition.topic_id
            error = GroupNotEmpty(
                f"group {name} has a member that reads {topic}-{partition.partition}: stop it first",
                group=name,
            )
        elif stands is not None and not seen.is_after(stands.written_at):
            error = _changed_since(name, str(partition))
        elif stands is not None:
            records.append(offset_record(name, partition, None))
        errors.append(error)
    return OffsetsDecision(records, errors)
