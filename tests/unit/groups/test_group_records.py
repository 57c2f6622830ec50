"""Records of groups: the same bytes for the same record, and the same state for the same latest records."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.groups.group import Groups
from quorate.broker.groups.invariants import validate
from quorate.broker.groups.member import Member
from quorate.broker.groups.records import (
    GroupRecord,
    TopicIdPartition,
    decode_record,
    encode_record,
    group_record,
    member_record,
    offset_record,
    partition_of_group,
)
from quorate.broker.groups.revisions import BEFORE_ALL
from quorate.chaos.models.groups.group_model import GroupModel
from quorate.chaos.models.groups.group_world import (
    GROUP,
    World,
    at,
    compacted,
    contents,
    group_contents,
    replayed,
)
from quorate.core.ids import PartitionId, TopicId
from quorate.errors import LogDamaged
from quorate.v1.group_pb2 import GroupHeartbeatRequest, GroupSubscription
from quorate.v1.group_records_pb2 import GroupRecordKey, GroupValue, MemberValue, OffsetValue

_PARTITION = TopicIdPartition(TopicId("t"), PartitionId(3))


@given(st.integers(0, 1 << 32), st.integers(0, 120), st.randoms(use_true_random=False))
def test_whoever_reads_the_log_has_the_state_of_whoever_wrote_it(
    seed: int, steps: int, rng: random.Random
) -> None:
    """Whatever was decided, and whatever of it compaction has left of those that are not the latest."""
    model = GroupModel(seed)
    for _ in range(steps):
        model.step()
    world = model._world
    assert contents(replayed(world.log)) == contents(world.groups)
    for _ in range(3):
        assert contents(replayed(compacted(world.log, rng))) == contents(world.groups)


@given(st.integers(0, 1 << 32))
def test_a_decision_changes_nothing_until_its_records_are_applied(seed: int) -> None:
    model = GroupModel(seed)
    for _ in range(60):
        model.step()
    world = model._world
    before = contents(world.groups)
    joining = GroupHeartbeatRequest(
        group=GROUP, member_id="new", subscription=GroupSubscription(topics=["east"])
    )
    assert world.decide(joining).records
    for member_id in sorted(world.group.members) if GROUP in world.groups else ():
        assert world.removal(member_id)
        leaving = GroupHeartbeatRequest(group=GROUP, member_id=member_id, member_epoch=-1)
        assert world.decide(leaving).records
    world.change_of_topics()
    assert contents(world.groups) == before


# -- bytes


_RECORDS = [
    group_record("g", GroupValue(group_epoch=3, assignment_epoch=2, empty_since_ms=5)),
    group_record("g", None),
    member_record("g", "m", MemberValue(member_epoch=1, subscription=GroupSubscription(topics=["a"]))),
    member_record("g", "m", None),
    offset_record("g", _PARTITION, OffsetValue(offset=0, metadata="x", committed_at_ms=1, topic="t")),
    offset_record("g", _PARTITION, OffsetValue(offset=1 << 62, leader_epoch=0)),
    offset_record("g", _PARTITION, None),
]


@pytest.mark.parametrize("record", _RECORDS, ids=str)
def test_every_record_comes_back_as_it_was(record: GroupRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_keys_differ_by_what_they_are_about() -> None:
    keys = {
        encode_record(group_record("g", None))[0],
        encode_record(group_record("h", None))[0],
        encode_record(member_record("g", "m", None))[0],
        encode_record(member_record("g", "n", None))[0],
        encode_record(offset_record("g", _PARTITION, None))[0],
        encode_record(offset_record("g", _PARTITION._replace(partition=PartitionId(0)), None))[0],
        encode_record(offset_record("g", _PARTITION._replace(topic_id=TopicId("u")), None))[0],
    }
    assert len(keys) == 7


@given(st.permutations(sorted(at("a", 0, 1, 2) | at("b", 0, 1))), st.permutations([1, 2, 3, 1, 2]))
def test_the_order_in_which_partitions_came_does_not_show_in_the_bytes(
    partitions: list[TopicIdPartition], epochs: list[int]
) -> None:
    since = dict(zip(sorted(partitions), epochs, strict=True))
    member = Member(
        member_id="m",
        subscription=GroupSubscription(),
        member_epoch=3,
        previous_member_epoch=3,
        target=frozenset(partitions),
        assigned={partition: since[partition] for partition in partitions},
    )
    in_order = Member(
        member_id="m",
        subscription=GroupSubscription(),
        member_epoch=3,
        previous_member_epoch=3,
        target=frozenset(sorted(partitions)),
        assigned=since,
    )
    value = member.to_value()
    assert value.SerializeToString(deterministic=True) == in_order.to_value().SerializeToString(
        deterministic=True
    )
    assert Member.of("m", value) == member


def test_what_only_a_newer_broker_knows_is_left_alone() -> None:
    # Field 15, of two bytes, that no version of the key has.
    unknown = GroupRecordKey(group="g").SerializeToString() + b"\x7a\x02hi"
    assert decode_record(unknown, b"whatever") is None
    assert decode_record(unknown, None) is None


def test_bytes_that_are_no_record_are_not_passed_over() -> None:
    key, _ = encode_record(offset_record("g", _PARTITION, None))
    with pytest.raises(LogDamaged):
        decode_record(key, b"\xff\xff")
    with pytest.raises(LogDamaged):
        decode_record(b"\xff", None)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_record_or_an_error_and_can_be_applied(key: bytes, value: bytes | None) -> None:
    try:
        record = decode_record(key, value)
    except LogDamaged:
        return
    if record is not None:
        Groups().apply(record, BEFORE_ALL)


# -- where groups are


def test_a_group_is_in_the_same_partition_for_ever() -> None:
    names = ["", "a", "workers", "größe", "x" * 255]
    assert [partition_of_group(name, 16) for name in names] == [9, 12, 6, 4, 15]
    assert {partition_of_group(f"group-{number}", 16) for number in range(200)} == set(range(16))
    assert partition_of_group("anything", 1) == 0


# -- groups that come and go


def test_a_group_without_anything_left_is_gone() -> None:
    groups = Groups()
    member = MemberValue(member_epoch=1, previous_member_epoch=1)
    groups.apply(offset_record("g", _PARTITION, OffsetValue(offset=1)), BEFORE_ALL)
    groups.apply(member_record("g", "m", member), BEFORE_ALL)
    groups.apply(group_record("g", GroupValue(group_epoch=1, assignment_epoch=1)), BEFORE_ALL)
    groups.apply(member_record("g", "m", None), BEFORE_ALL)
    groups.apply(group_record("g", None), BEFORE_ALL)
    assert list(groups) == ["g"]
    groups.apply(offset_record("g", _PARTITION, None), BEFORE_ALL)
    assert list(groups) == []
    groups.apply(offset_record("g", _PARTITION, None), BEFORE_ALL)
    assert len(groups) == 0


def test_groups_are_told_in_the_order_of_their_names() -> None:
    groups = Groups()
    for name in ("b", "c", "a"):
        groups.apply(offset_record(name, _PARTITION, OffsetValue(offset=1)), BEFORE_ALL)
    assert list(groups) == ["a", "b", "c"]


# -- the invariants themselves


def test_the_invariants_notice_what_no_decision_would_write() -> None:
    world = World(topics={"orders": 4})
    world.heartbeat("a", topics=["orders"])
    world.heartbeat("b", topics=["orders"])
    world.settle("a", "b")
    a, b = world.group.members["a"], world.group.members["b"]
    stolen = sorted(b.assigned)[0]
    value = b.to_value()
    for change in (
        {"assigned": {**a.assigned, stolen: 1}, "target": a.target | {stolen}},
        {"revoking": {stolen: 1}},
        {"target": a.target | {stolen}},
        {"assigned": dict(list(a.assigned.items())[:1])},
        {"member_epoch": 99},
        {"previous_member_epoch": a.member_epoch + 1},
        {"assigned": dict.fromkeys(a.assigned, a.member_epoch + 1)},
        {"is_away": True},
    ):
        groups = replayed(world.log)
        validate(groups[GROUP])
        fields = {
            field.name: getattr(a, field.name) for field in dataclasses.fields(a) if field.init
        } | change
        groups.apply(member_record(GROUP, "a", Member(**fields).to_value()), BEFORE_ALL)
        with pytest.raises(AssertionError):
            validate(groups[GROUP])
    assert group_contents(world.group) == group_contents(replayed(world.log)[GROUP])
    assert value == world.group.members["b"].to_value()
