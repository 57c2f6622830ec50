"""Decisions about members: who comes, stays and goes, and what each is told.

Each is a function from the groups as they are to records, and to an answer where somebody has asked.
Nothing is changed: whoever called appends the records as one batch, applies them, and gives the answer once
they are committed (docs/adr/0016). What is refused raises an error, and has no records.

How partitions change hands, and what a member may be believed, is in ``reconciliation``.

Calls arrive late, in another order, and more than once. What one says of partitions does no harm then
(``reconciliation``); what it wants would. So two things are asked of each, unless its member says neither:

- *Is there a later one?* A member numbers its calls. The number of the last one that had a subscription, or
  said that it is away, is written down: what was said before it means nothing to any coordinator. The others
  are told apart by the number that was heard last, in memory (``group_members``).
- *Is it from before its member went?* A join names the group's ``departure_epoch``, which every departure
  changes. The member's own departure has, too: its join does not fit any more, and does not bring back a
  process that is dead, nor take an instance id from the one that has it now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from quorate.broker.groups.group import Group, Groups
from quorate.broker.groups.member import Member
from quorate.broker.groups.reconciliation import Draft
from quorate.broker.groups.records import (
    GroupRecord,
    TopicIdPartition,
    offset_record,
    partitions_of,
    topic_partitions,
)
from quorate.broker.groups.requests import check_heartbeat, normalized
from quorate.broker.groups.settings import GroupSettings
from quorate.broker.groups.targets import compute_targets, is_alike, is_up_to_date
from quorate.broker.groups.topics import TopicCatalog
from quorate.core.member_epochs import AWAY_EPOCH, JOIN_EPOCH, LEAVE_EPOCH
from quorate.errors import (
    FencedMemberEpoch,
    GroupFull,
    HeartbeatOvertaken,
    InvalidRequest,
    InvalidUpdateVersion,
    UnknownMember,
    UnreleasedInstance,
)
from quorate.v1.group_pb2 import (
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    GroupSubscription,
)

__all__ = [
    "Decision",
    "answer",
    "check_call_number",
    "has_news",
    "heartbeat",
    "known_member",
    "rebalance_timeout_ms",
    "remove_member",
    "topics_changed",
]


class Decision(NamedTuple):
    #: one batch; none: nothing changes
    records: list[GroupRecord]
    #: true once the records are committed
    answer: GroupHeartbeatResponse


def heartbeat(
    groups: Groups,
    request: GroupHeartbeatRequest,
    *,
    topics: TopicCatalog,
    settings: GroupSettings,
    now_ms: int,
    seems_dead: Callable[[str], bool] = lambda _: False,
    silent_ms: Callable[[str], int] = lambda _: 0,
) -> Decision:
    """``seems_dead``: of a member by its id, as far as can be told from its calls.

    ``silent_ms``: how long ago the last of them came.
    """
    check_heartbeat(request, settings)
    group = groups.get(request.group) or Group(request.group)
    known = group.members.get(request.member_id)
    if known is not None:
        # Not higher: one that waits is decided again.
        check_call_number(request, at_least=known.call_number)
    draft = Draft(group)
    if request.member_epoch == LEAVE_EPOCH:
        known_member(group, request.member_id)
        _remove(draft, request.member_id, topics)
    elif request.member_epoch == AWAY_EPOCH:
        _step_away(draft, known_member(group, request.member_id), request.call_number)
    elif request.member_epoch == JOIN_EPOCH:
        _join(draft, group, request, topics, settings, seems_dead, silent_ms)
    else:
        _stay(draft, known_member(group, request.member_id), request, topics)
    draft.assign_free()
    _note_epoch_heard(draft, request)
    member = None if request.member_epoch < JOIN_EPOCH else draft.member(request.member_id)
    if member is None:
        told = GroupHeartbeatResponse(member_epoch=request.member_epoch)
    else:
        told = answer(member, topics=topics, settings=settings)
    return Decision(draft.records(now_ms=now_ms), told)


def remove_member(
    groups: Groups,
    group: str,
    member_id: str,
    *,
    topics: TopicCatalog,
    now_ms: int,
) -> list[GroupRecord]:
    """Its session is over, or it has taken too long to give something up. None left: it is gone already."""
    found = groups.get(group)
    if found is None or member_id not in found.members:
        return []
    draft = Draft(found)
    _remove(draft, member_id, topics)
    draft.assign_free()
    return draft.records(now_ms=now_ms)


def topics_changed(groups: Groups, group: str, *, topics: TopicCatalog, now_ms: int) -> list[GroupRecord]:
    """New targets if there is anything else to read; and offsets of topics that are deleted are removed.

    That the metadata lacks a topic means that it is deleted, and not that it is too new to be known: an
    offset is taken only of a topic that the coordinator's metadata has, and whoever coordinates after it
    has become so by a later record of the same metadata.
    """
    found = groups.get(group)
    if found is None:
        return []
    draft = Draft(found)
    if found.members and not is_up_to_date(found, topics):
        draft.retarget(compute_targets(draft.members, topics))
        draft.assign_free()
    deleted = sorted(each for each in found.offsets if not topics.partition_count(each.topic_id))
    return [
        *draft.records(now_ms=now_ms),
        *(offset_record(group, partition, None) for partition in deleted),
    ]


def has_news(groups: Groups, request: GroupHeartbeatRequest) -> bool:
    """Whether a call that waits has to be answered: the member said something else than what is so.

    Always, of one that comes or goes.
    """
    group = groups.get(request.group)
    member = None if group is None else group.members.get(request.member_id)
    if member is None or request.member_epoch <= JOIN_EPOCH:
        return True
    return member.member_epoch != request.member_epoch or member.assigned.keys() != partitions_of(
        request.owned
    )


def answer(member: Member, *, topics: TopicCatalog, settings: GroupSettings) -> GroupHeartbeatResponse:
    """All that there is to tell a member, as of now."""
    return GroupHeartbeatResponse(
        member_epoch=member.member_epoch,
        assignment=topic_partitions(member.assigned, topics.names_of(member.assigned)),
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        session_timeout_ms=settings.session_timeout_ms,
    )


def rebalance_timeout_ms(member: Member, settings: GroupSettings) -> int:
    """How long it may take to give up what is revoking."""
    wanted = member.subscription.rebalance_timeout_ms or settings.rebalance_timeout_default_ms
    return min(wanted, settings.rebalance_timeout_max_ms)


def check_call_number(request: GroupHeartbeatRequest, *, at_least: int) -> None:
    if request.call_number < at_least:
        raise HeartbeatOvertaken(
            f"member {request.member_id} has made call {at_least - 1} or a later one, and this is its call "
            f"{request.call_number}: each has a higher call_number than the one before",
            member_id=request.member_id,
            call_number=request.call_number,
        )


def known_member(group: Group | None, member_id: str) -> Member:
    member = None if group is None else group.members.get(member_id)
    if member is None:
        where = "the group" if group is None else f"group {group.name}"
        raise UnknownMember(f"{where} has no member {member_id}", member_id=member_id)
    return member


# -- coming


def _join(
    draft: Draft,
    group: Group,
    request: GroupHeartbeatRequest,
    topics: TopicCatalog,
    settings: GroupSettings,
    seems_dead: Callable[[str], bool],
    silent_ms: Callable[[str], int],
) -> None:
    if not request.HasField("subscription"):
        raise InvalidRequest(f"member {request.member_id} joins without a subscription")
    subscription = normalized(request.subscription)
    member = group.members.get(request.member_id)
    if member is not None:
        _come_again(draft, member, subscription, request.call_number, topics)
        return
    _check_departures(group, request)
    former = group.member_of_instance(subscription.instance_id) if subscription.instance_id else None
    if former is None:
        _add(draft, group, request, subscription, topics, settings)
    elif former.is_away or seems_dead(former.member_id):
        _succeed(draft, former, request, subscription, topics)
    else:
        # By these the one who asks can tell a process that lives from one whose end was not noticed yet.
        raise UnreleasedInstance(
            f"group {group.name}: instance {subscription.instance_id} is member {former.member_id}, "
            "which has neither left nor been given up; stop it, or give this process a group_instance_id "
            "of its own",
            instance_id=subscription.instance_id,
            member_id=former.member_id,
            silent_ms=silent_ms(former.member_id),
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            session_timeout_ms=settings.session_timeout_ms,
        )


def _check_departures(group: Group, request: GroupHeartbeatRequest) -> None:
    if request.HasField("departure_epoch") and request.departure_epoch != group.departure_epoch:
        raise InvalidUpdateVersion(
            f"a member of group {group.name} has gone since {request.member_id} asked to join: join again, "
            f"with departure_epoch {group.departure_epoch}",
            departure_epoch=group.departure_epoch,
        )


def _add(
    draft: Draft,
    group: Group,
    request: GroupHeartbeatRequest,
    subscription: GroupSubscription,
    topics: TopicCatalog,
    settings: GroupSettings,
) -> None:
    if len(group.members) >= settings.members_max:
        raise GroupFull(
            f"group {group.name} has {len(group.members)} member(s), {settings.members_max} at most",
            members_max=settings.members_max,
        )
    epoch = draft.next_epoch()
    draft.put(
        Member(
            member_id=request.member_id,
            subscription=subscription,
            member_epoch=epoch,
            previous_member_epoch=epoch,
            call_number=request.call_number,
        )
    )
    draft.retarget(compute_targets(draft.members, topics))


def _come_again(
    draft: Draft, member: Member, subscription: GroupSubscription, call_number: int, topics: TopicCatalog
) -> None:
    """The answer to its join was lost, it was fenced, it is back, or the call is an old one that comes late.

    Which of them cannot be told. So nothing that it holds is taken for given up: in the epoch that it is told
    now, it will say.
    """
    draft.put(replace(member, is_away=False))
    _subscribe(draft, member, subscription, call_number, topics)


def _succeed(
    draft: Draft,
    former: Member,
    request: GroupHeartbeatRequest,
    subscription: GroupSubscription,
    topics: TopicCatalog,
) -> None:
    if not former.is_away:
        former = draft.step_away(former.member_id)
    epoch = draft.next_epoch()
    successor = replace(
        former,
        member_id=request.member_id,
        subscription=subscription,
        member_epoch=epoch,
        previous_member_epoch=epoch,
        is_away=False,
        call_number=request.call_number,
    )
    draft.succeed(former, successor)
    if not is_alike(subscription, former.subscription):
        draft.retarget(compute_targets(draft.members, topics))


# -- staying


def _stay(draft: Draft, member: Member, request: GroupHeartbeatRequest, topics: TopicCatalog) -> None:
    owned = partitions_of(request.owned)
    _check_epoch(member, request.member_epoch)
    _check_owned(member, owned)
    if request.HasField("subscription"):
        _subscribe(draft, member, normalized(request.subscription), request.call_number, topics)
    if _is_believed(member, request.member_epoch):
        draft.release(member.member_id, owned)


def _check_epoch(member: Member, epoch: int) -> None:
    if member.is_away:
        raise FencedMemberEpoch(
            f"member {member.member_id} has left for a while: it has to join again",
            member_id=member.member_id,
        )
    if not member.previous_member_epoch <= epoch <= member.member_epoch:
        raise FencedMemberEpoch(
            f"member {member.member_id} is in epoch {member.member_epoch}, and speaks in {epoch}",
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            request_member_epoch=epoch,
        )


def _is_believed(member: Member, epoch: int) -> bool:
    """When it says that it does not hold something: in an earlier epoch, it may be about to."""
    return epoch == member.member_epoch


def _check_owned(member: Member, owned: frozenset[TopicIdPartition]) -> None:
    surplus = sorted(each for each in owned if not member.holds(each))
    if surplus:
        raise FencedMemberEpoch(
            f"member {member.member_id} says that it holds {surplus[0]}"
            + (f" and {len(surplus) - 1} more" if len(surplus) > 1 else "")
            + ", which it was not given, or has given up",
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            topic_id=surplus[0].topic_id,
            partition=surplus[0].partition,
        )


def _subscribe(
    draft: Draft, member: Member, subscription: GroupSubscription, call_number: int, topics: TopicCatalog
) -> None:
    if subscription.instance_id != member.instance_id:
        raise InvalidRequest(
            f"member {member.member_id} has instance id {member.instance_id!r}, which cannot become "
            f"{subscription.instance_id!r}"
        )
    # The number also of one that is as before: between the two it may have wanted something else.
    current = draft.member(member.member_id)
    assert current is not None
    draft.put(replace(current, subscription=subscription, call_number=call_number))
    if not is_alike(subscription, member.subscription):
        draft.retarget(compute_targets(draft.members, topics))


def _note_epoch_heard(draft: Draft, request: GroupHeartbeatRequest) -> None:
    """Only with a record that is written anyway: what it is for, fencing earlier epochs, can wait."""
    member = draft.member(request.member_id)
    if member is not None and request.member_epoch > JOIN_EPOCH and draft.has_changed(request.member_id):
        draft.put(replace(member, previous_member_epoch=request.member_epoch))


# -- going


def _remove(draft: Draft, member_id: str, topics: TopicCatalog) -> None:
    draft.remove(member_id)
    draft.retarget(compute_targets(draft.members, topics))


def _step_away(draft: Draft, member: Member, call_number: int) -> None:
    if not member.instance_id:
        raise InvalidRequest(f"member {member.member_id} has no instance id, so it can only leave for good")
    if not member.is_away:
        # With its number: a join of before must not say that it is back.
        draft.put(replace(draft.step_away(member.member_id), call_number=call_number))
