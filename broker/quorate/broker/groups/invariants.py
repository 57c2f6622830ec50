"""What is true of every group after every decision; for tests and for the simulator."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.broker.groups.group import Group
from quorate.broker.groups.member import Member
from quorate.broker.groups.records import TopicIdPartition

__all__ = ["validate"]


def validate(group: Group) -> None:
    """AssertionError: there is a bug, or somebody wrote records that no decision has made."""
    assert not group.is_gone, f"{group.name} has nothing, and is there"
    _validate_epochs(group)
    _validate_owners(group)
    _validate_static_members(group)
    for member in group.members.values():
        _validate_member(member)
    _validate_progress(group)
    if group.group_epoch:
        assert bool(group.empty_since_ms) == (not group.members), (group.name, group.empty_since_ms)


def _validate_epochs(group: Group) -> None:
    assert group.assignment_epoch <= group.group_epoch, group.name
    assert group.departure_epoch <= group.group_epoch, group.name
    for member in group.members.values():
        name = member.member_id
        assert 0 < member.member_epoch <= group.group_epoch, (name, member.member_epoch, group.group_epoch)
        assert 0 < member.previous_member_epoch <= member.member_epoch, name
        for since in (*member.assigned.values(), *member.revoking.values()):
            assert 0 < since <= member.member_epoch, (name, since, member.member_epoch)


def _validate_owners(group: Group) -> None:
    """No partition has two members that may read it, or two that are to; and what is looked up is so."""
    members = group.members.values()
    holders = _owners((each.member_id, (*each.assigned, *each.revoking)) for each in members)
    targets = _owners((each.member_id, each.target) for each in members)
    assert holders == group.holders
    assert targets == group.target_owners


def _owners(shares: Iterable[tuple[str, Iterable[TopicIdPartition]]]) -> dict[TopicIdPartition, str]:
    owners: dict[TopicIdPartition, str] = {}
    for member_id, partitions in shares:
        for partition in partitions:
            other = owners.setdefault(partition, member_id)
            assert other == member_id, f"{partition} is both {other}'s and {member_id}'s"
    return owners


def _validate_static_members(group: Group) -> None:
    names = [member.instance_id for member in group.members.values() if member.instance_id]
    assert len(set(names)) == len(names), names


def _validate_member(member: Member) -> None:
    name = member.member_id
    assert member.assigned.keys() <= member.target, f"{name} may read what it is not to hold"
    assert member.assigned.keys().isdisjoint(member.revoking), f"{name} is to read and to give up the same"
    if member.is_away:
        assert member.instance_id, f"{name} is away, and not static"
        assert not member.revoking, f"{name} is away, and would have to give something up"


def _validate_progress(group: Group) -> None:
    """Nobody waits for what is free, but those who have to give something up first."""
    for member in group.members.values():
        if not member.revoking:
            for partition in member.target:
                assert group.holder_of(partition) is not None, f"{member.member_id} waits for {partition}"
