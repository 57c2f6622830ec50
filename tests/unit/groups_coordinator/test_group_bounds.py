"""Bounds around the calls of groups: of their own, and settings that fit together."""

from __future__ import annotations

import pytest

from quorate.broker.groups.batches import batches_of
from quorate.broker.groups.records import (
    GroupRecord,
    TopicIdPartition,
    group_record,
    member_record,
    offset_record,
)
from quorate.core.config import GroupConfig
from quorate.core.ids import TimestampMs
from quorate.core.records import decode_batch
from quorate.core.transport import Service, methods_of
from quorate.errors import GroupFull, InvalidConfig, Overloaded
from quorate.rpc.dispatch import Admissions
from quorate.v1 import broker_pb2, group_pb2
from quorate.v1.group_records_pb2 import GroupValue, MemberValue, OffsetValue
from tests.unit.groups_coordinator.group_world import GroupWorld, join, refusal, simulate


def test_readers_that_wait_do_not_keep_members_from_being_heard() -> None:
    """Each service has a bound of its own for calls that wait."""

    async def nothing(*_: object) -> None:
        pass

    admissions = Admissions(requests_max=1, streams_max=1, internal_calls_max=1)
    bounds = []
    for module, name, method in (
        (broker_pb2, "BrokerService", "Fetch"),
        (group_pb2, "GroupService", "GroupHeartbeat"),
    ):
        descriptor = module.DESCRIPTOR.services_by_name[name]
        methods = methods_of(descriptor)
        service = Service(descriptor, dict.fromkeys(methods, nothing), long_polls=[method])
        bounds.append((admissions.of(service, methods[method]), methods[method]))
        assert admissions.of(service, methods[method]) is bounds[-1][0]
    for admission, called in bounds:
        admission.enter(called)
    with pytest.raises(Overloaded):
        bounds[0][0].enter(bounds[0][1])


def test_a_session_has_room_for_several_heartbeats() -> None:
    with pytest.raises(InvalidConfig, match=r"group\.consumer\.heartbeat\.interval\.ms"):
        GroupConfig(session_timeout_ms=9_000, heartbeat_interval_ms=3_001)
    GroupConfig(session_timeout_ms=9_000, heartbeat_interval_ms=3_000)


def test_what_heartbeats_hold_is_bounded_and_apart_from_commits() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        memory = world.groups._heartbeat_memory
        with memory.hold_or_refuse(world.config.queued_max_request_bytes):
            error = await refusal(world.ask("GroupHeartbeat", join("a")))
            assert isinstance(error, Overloaded)
            assert "heartbeats" in error.message
            assert await world.commit({world.at(0): 1}) == [""]
        await world.join("a")

    simulate(scenario)


# -- batches


def written(records: list[GroupRecord], bytes_max: int) -> list[list[GroupRecord]]:
    batches = batches_of(records, now_ms=TimestampMs(1), bytes_max=bytes_max)
    for each in batches:
        assert len(each.batch) <= bytes_max
        assert len(decode_batch(each.batch)) == len(each.records)
    return [list(each.records) for each in batches]


def offset(world_partition: int, metadata: str = "") -> GroupRecord:
    about = TopicIdPartition("A" * 22, world_partition)  # type: ignore[arg-type]
    return offset_record("g", about, OffsetValue(offset=1, metadata=metadata))


def test_what_belongs_together_is_one_batch_and_comes_last() -> None:
    group = group_record("g", GroupValue(group_epoch=3))
    members = [member_record("g", name, MemberValue(member_epoch=3)) for name in ("a", "b")]
    gone = [offset(number)._replace(value=None) for number in range(3)]
    assert written([group, *members, *gone], 1_000) == [gone, [group, *members]]


def test_offsets_are_spread_over_batches_that_are_as_full_as_they_may_be() -> None:
    offsets = [offset(number, "m" * 50) for number in range(40)]
    batches = written(offsets, 1_000)
    assert [each for batch in batches for each in batch] == offsets
    assert 4 < len(batches) < 10


def test_members_that_do_not_fit_are_refused_together() -> None:
    members = [member_record("g", f"member-{number}", MemberValue(member_epoch=3)) for number in range(40)]
    with pytest.raises(GroupFull) as raised:
        batches_of(members, now_ms=TimestampMs(1), bytes_max=1_000)
    assert raised.value.facts["bytes_max"] == 1_000
