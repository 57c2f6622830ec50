"""Until all is loaded nothing is known, least of all that something is not there (rule 63)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from quorate.broker.groups import loading, shard
from quorate.broker.groups.invariants import validate
from quorate.broker.groups.loading import load
from quorate.broker.groups.records import decode_record, encode_record, offset_record
from quorate.chaos.sim.patch import Patch
from quorate.core.records import Record, encode_batch
from quorate.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, QuorateError
from quorate.v1.group_pb2 import (
    DeleteGroupsRequest,
    DeleteOffsetsRequest,
    DescribeGroupsRequest,
    FetchOffsetsRequest,
    ListGroupsRequest,
)
from quorate.v1.group_records_pb2 import OffsetValue
from tests.unit.broker.broker_harness import SECOND, SELF
from tests.unit.groups_coordinator.group_cluster import commit_request
from tests.unit.groups_coordinator.group_world import (
    GROUP,
    GroupWorld,
    beat,
    join,
    refusal,
    settle,
    simulate,
)


@contextmanager
def slow_loading() -> Iterator[asyncio.Event]:
    """Loading that waits to be let go."""
    may_go = asyncio.Event()

    async def slowly(*arguments: Any) -> Any:
        await may_go.wait()
        return await load(*arguments)

    with Patch() as patch:
        patch.setattr(shard, "load", slowly)
        yield may_go


def test_until_it_is_loaded_every_call_is_put_off() -> None:
    simulate(until_it_is_loaded_every_call_is_put_off)


async def until_it_is_loaded_every_call_is_put_off(world: GroupWorld) -> None:
    await world.start()
    await world.commit({world.at(0): 5})
    with slow_loading() as may_go:
        world.lead(SELF)
        await settle()
        calls = {
            "FetchOffsets": FetchOffsetsRequest(group=GROUP),
            "CommitOffsets": commit_request({world.at(0): 6}),
            "GroupHeartbeat": join("a"),
            "DeleteOffsets": DeleteOffsetsRequest(group=GROUP),
        }
        for method, request in calls.items():
            assert isinstance(await refusal(world.ask(method, request)), CoordinatorLoadInProgress), method
        [described] = (await world.ask("DescribeGroups", DescribeGroupsRequest(groups=[GROUP]))).groups
        assert described.error.code == CoordinatorLoadInProgress.code
        [deleted] = (await world.ask("DeleteGroups", DeleteGroupsRequest(groups=[GROUP]))).results
        assert deleted.error.code == CoordinatorLoadInProgress.code
        listed = await world.ask("ListGroups", ListGroupsRequest())
        assert list(listed.loading) == [world.number_of()]
        assert not listed.groups

        may_go.set()
        await settle()
        assert await world.fetch_offsets() == {world.at(0): 5}
        assert not (await world.ask("ListGroups", ListGroupsRequest())).loading


def test_what_was_decided_before_is_there_afterwards() -> None:
    simulate(what_was_decided_before_is_there_afterwards)


async def what_was_decided_before_is_there_afterwards(world: GroupWorld) -> None:
    await world.start()
    told = await world.join("a")
    await world.join("b")
    await world.ask("GroupHeartbeat", beat("a", told))
    await world.commit({world.at(0): 5}, member_id="a", member_epoch=told.member_epoch)
    groups = world.shard().groups
    before = {name: (groups[name].members, groups[name].offsets, groups[name].group_epoch) for name in groups}
    assert before
    before = {
        name: (dict(members), dict(offsets), epoch) for name, (members, offsets, epoch) in before.items()
    }
    world.lead(SELF)
    await settle()
    groups = world.shard().groups
    for name in groups:
        validate(groups[name])
    assert before == {
        name: (dict(groups[name].members), dict(groups[name].offsets), groups[name].group_epoch)
        for name in groups
    }


def test_what_was_deleted_is_not_brought_back_by_who_saw_it_before_the_log_was_loaded() -> None:
    simulate(what_was_deleted_is_not_brought_back)


async def what_was_deleted_is_not_brought_back(world: GroupWorld) -> None:
    """Of the offset that was deleted, the next coordinator finds no trace."""
    await world.start()
    seen = str(world.shard().revision)
    assert await world.commit({world.at(0): 5}, revision=seen) == [""]
    request = DeleteGroupsRequest(groups=[GROUP], revisions=[str(world.shard().revision)])
    [deleted] = (await world.ask("DeleteGroups", request)).results
    assert not deleted.HasField("error")
    world.lead(SELF)
    await settle()
    assert await world.commit({world.at(0): 5}, revision=seen) == ["INVALID_UPDATE_VERSION"]
    assert await world.fetch_offsets() == {}
    assert await world.commit({world.at(0): 5}, revision=str(world.shard().revision)) == [""]


def test_a_shard_is_loaded_before_anybody_asks() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 5})
        world.lead(SECOND)
        world.lead(SELF)
        await settle()
        [loaded] = [
            each.shard
            for number, each in world.groups.coordinator.led()
            if each is not None and number == world.number_of()
        ]
        assert loaded.is_loaded
        assert list(loaded.groups) == [GROUP]

    simulate(scenario)


def append_record(world: GroupWorld, key: bytes, value: bytes | None) -> None:
    """Past the coordinator, as another version of it would."""
    leadership = world.replica().leadership
    assert leadership is not None
    leadership.append(encode_batch([Record(0, 1_000, key, value)]), acks_all=True)


def test_what_cannot_be_understood_is_an_error_and_not_nothing() -> None:
    simulate(what_cannot_be_understood_is_an_error_and_not_nothing)


async def what_cannot_be_understood_is_an_error_and_not_nothing(world: GroupWorld) -> None:
    await world.start()
    await world.commit({world.at(0): 5})
    key, _ = encode_record(offset_record(GROUP, world.at(1), OffsetValue(offset=7)))
    append_record(world, key, b"\xff\xff no offset")
    world.lead(SELF)
    await settle()
    error = await refusal(world.fetch_offsets())
    assert isinstance(error, CoordinatorNotAvailable)
    assert error.retriable
    assert error.facts["offset"] == 1
    # Neither does it change its mind: it is loaded again now and then, and is as it was.
    await world.clock.sleep(60)
    assert isinstance(await refusal(world.fetch_offsets()), CoordinatorNotAvailable)


def test_records_of_a_newer_kind_do_no_harm() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 5})
        # A key whose part is field 9, which nobody here has heard of.
        append_record(world, b"\x0a\x01g\x4a\x01x", b"anything")
        world.lead(SELF)
        await settle()
        assert await world.fetch_offsets() == {world.at(0): 5}

    simulate(scenario)


def test_a_damaged_log_is_not_taken_for_an_empty_one() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        for offset in range(5):
            await world.commit({world.at(0): offset})
        directory = world.replica().log.directory
        [segment] = [name for name in world.disk.list(directory) if name.endswith(".log")]
        content = bytearray(world.disk.read_file(f"{directory}/{segment}"))
        content[len(content) // 2] ^= 0xFF
        await world.disk.write_file(f"{directory}/{segment}", bytes(content))
        world.lead(SELF)
        await settle()
        error = await refusal(world.fetch_offsets())
        assert error.retriable
        assert error.code in ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")
        assert world.replica().failure is not None, "and another replica is to lead"

    simulate(scenario)


def test_loading_that_fails_for_a_moment_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 5})
        attempts = 0

        async def fail_first(*arguments: Any) -> Any:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                raise QuorateError("no descriptor left")
            return await load(*arguments)

        monkeypatch.setattr(shard, "load", fail_first)
        world.lead(SELF)
        await settle()
        assert isinstance(await refusal(world.fetch_offsets()), CoordinatorNotAvailable)
        await world.clock.sleep(10)
        assert await world.fetch_offsets() == {world.at(0): 5}

    simulate(scenario)


def test_a_leadership_that_ends_while_it_is_loaded_leaves_nothing_behind() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 5})
        with slow_loading() as may_go:
            world.lead(SELF)
            await settle()
            world.lead(SECOND)
            may_go.set()
            await settle()
        assert (await refusal(world.fetch_offsets())).code == "NOT_COORDINATOR"
        world.lead(SELF)
        await settle()
        assert await world.fetch_offsets() == {world.at(0): 5}

    simulate(scenario)


def test_loading_does_not_hold_the_loop() -> None:
    simulate(loading_does_not_hold_the_loop)


async def loading_does_not_hold_the_loop(world: GroupWorld) -> None:
    await world.start()
    records = 1_000
    leadership = world.replica().leadership
    assert leadership is not None
    encoded = [
        encode_record(offset_record(GROUP, world.at(number), OffsetValue(offset=number)))
        for number in range(records)
    ]
    # One batch, as a commit of very many partitions is.
    leadership.append(encode_batch([Record(0, 1_000, key, value) for key, value in encoded]), acks_all=True)
    applied_in_turn = 0
    most = 0

    def count(key: bytes, value: bytes | None) -> Any:
        nonlocal applied_in_turn, most
        applied_in_turn += 1
        most = max(most, applied_in_turn)
        return decode_record(key, value)

    with Patch() as patch:
        patch.setattr(loading, "decode_record", count)
        world.lead(SELF)
        for _ in range(100):
            applied_in_turn = 0
            await asyncio.sleep(0)
        assert len(world.shard().groups[GROUP].offsets) == records
    assert 0 < most < records / 2
