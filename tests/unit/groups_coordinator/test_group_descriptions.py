"""What people are told of groups: members, what each holds, and how far behind the group is."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.broker.partition_ends import PartitionEnds
from quorate.core.ids import TopicName
from quorate.core.records import Record, encode_batch
from quorate.errors import BrokerFenced, BrokerNotAvailable, GroupNotFound, OffsetNotAvailable
from quorate.v1.controller_pb2 import ReplicaName
from quorate.v1.group_pb2 import (
    GROUP_STATE_EMPTY,
    GROUP_STATE_RECONCILING,
    GROUP_STATE_STABLE,
    DescribeGroupsRequest,
    GroupDescription,
    GroupProgress,
    ListGroupsRequest,
)
from quorate.v1.replica_pb2 import DescribeEndsRequest, PartitionEnd, PartitionPosition
from tests.unit.broker.broker_harness import SECOND, SELF
from tests.unit.groups_coordinator.fake_leaders import FakeLeader
from tests.unit.groups_coordinator.group_world import GROUP, GroupWorld, beat, settle, simulate


async def describe(world: GroupWorld, group: str = GROUP) -> GroupDescription:
    [description] = (await world.ask("DescribeGroups", DescribeGroupsRequest(groups=[group]))).groups
    assert isinstance(description, GroupDescription)
    return description


def of(description: GroupDescription, number: int) -> GroupProgress:
    return next(each for each in description.progress if each.partition == number)


async def append(world: GroupWorld, topic: str, *ages_ms: int) -> None:
    """Records that are so old, one batch."""
    leadership = world.partition(0, topic=topic).leadership
    assert leadership is not None
    now = world.clock.wall_ms()
    leadership.append(encode_batch([Record(0, now - age, None, b"v") for age in ages_ms]), acks_all=True)


def test_members_and_what_they_hold_are_told() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a", client_id="reader-1")
        stable = await describe(world)
        assert stable.state == GROUP_STATE_STABLE
        assert stable.coordinator == SELF
        assert stable.assignor == "uniform"
        [member] = stable.members
        assert (member.member_id, member.member_epoch) == ("a", told.member_epoch)
        assert member.subscription.client_id == "reader-1"
        assert [list(each.partitions) for each in member.assignment] == [[0, 1, 2, 3]]
        assert [each.topic for each in member.assignment] == ["t"]

        await world.join("b")
        reconciling = await describe(world)
        assert reconciling.state == GROUP_STATE_RECONCILING
        first = reconciling.members[0]
        assert len(first.assignment[0].partitions) == 2
        assert len(first.revoking[0].partitions) == 2
        assert {each.member_id for each in reconciling.progress} == {"a"}

        await world.ask("GroupHeartbeat", beat("b", told, member_epoch=-1))
        await world.ask("GroupHeartbeat", beat("a", told, member_epoch=-1))
        await world.commit({world.at(0): 1})
        empty = await describe(world)
        assert empty.state == GROUP_STATE_EMPTY
        assert not empty.members

    simulate(scenario)


def test_a_static_member_that_will_be_back_is_told_to_be_away() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a", instance_id="one")
        [member] = (await describe(world)).members
        assert not member.is_away
        await world.ask("GroupHeartbeat", beat("a", told, member_epoch=-2))
        [member] = (await describe(world)).members
        assert member.is_away
        assert [list(each.partitions) for each in member.assignment] == [[0, 1, 2, 3]]

    simulate(scenario)


def test_partitions_in_which_an_empty_group_has_not_begun_are_told_too() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(2): 0})
        description = await describe(world)
        assert [each.partition for each in description.progress] == [0, 1, 2, 3]
        assert [each.HasField("committed_offset") for each in description.progress] == [
            False,
            False,
            True,
            False,
        ]

    simulate(scenario)


def test_a_group_that_does_not_exist_is_not_found() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        assert (await describe(world, "no-such-group")).error.code == GroupNotFound.code

    simulate(scenario)


def test_groups_are_listed_in_the_order_of_their_names() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        names = [f"g{number}" for number in range(10)]
        for name in reversed(names):
            await world.commit({world.at(0): 1}, group=name)
        await world.join("m", group="g3")
        listed = await world.ask("ListGroups", ListGroupsRequest())
        assert [each.group for each in listed.groups] == names
        assert [each.members for each in listed.groups] == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
        assert not listed.loading

    simulate(scenario)


# -- lag


def test_lag_is_counted_in_records_and_in_time() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("l", retention_ms="100000")
        world.tell()
        await append(world, "l", 50_000, 40_000)
        await append(world, "l", 30_000)
        await append(world, "l", 20_000)
        partition = world.at(0, "l")

        for offset, lag, lag_ms in (
            (0, 4, 50_000),
            (1, 3, 40_000),
            (2, 2, 30_000),
            (3, 1, 20_000),
            (4, 0, 0),
        ):
            assert await world.commit({partition: offset}) == [""]
            progress = of(await describe(world), 0)
            assert (progress.log_start_offset, progress.end_offset) == (0, 4)
            assert progress.committed_offset == offset
            assert (progress.lag, progress.lag_ms) == (lag, lag_ms)
            assert progress.lag_of_retention == pytest.approx(lag_ms / 100_000)

    simulate(scenario)


def test_lag_where_nothing_is_committed_runs_from_the_start_of_the_log() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("l")
        world.tell()
        await append(world, "l", 50_000, 40_000)
        await append(world, "l", 30_000)
        await world.partition(0, topic="l").log.advance_log_start(2)  # type: ignore[arg-type]
        await world.join("a", topics=["l"])
        progress = of(await describe(world), 0)
        assert not progress.HasField("committed_offset")
        assert progress.log_start_offset == 2
        assert (progress.lag, progress.lag_ms) == (1, 30_000)
        assert progress.member_id == "a"

    simulate(scenario)


@pytest.mark.parametrize("configs", [{"retention_ms": "-1"}, {"cleanup_policy": "compact"}])
def test_a_topic_that_keeps_its_records_for_ever_has_no_share_of_it(configs: dict[str, Any]) -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("l", **configs)
        world.tell()
        await append(world, "l", 50_000)
        await world.commit({world.at(0, "l"): 0})
        progress = of(await describe(world), 0)
        assert progress.lag_ms == 50_000
        assert not progress.HasField("lag_of_retention")

    simulate(scenario)


def test_the_share_of_retention_is_the_larger_one_of_time_and_bytes() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("l", retention_ms="100000", retention_bytes="1000")
        world.tell()
        await append(world, "l", 50_000, 40_000)
        size = world.partition(0, topic="l").log.size_in_bytes
        await world.commit({world.at(0, "l"): 0})
        progress = of(await describe(world), 0)
        assert 0 < size / 1_000 < 0.5
        assert progress.lag_of_retention == pytest.approx(0.5), "by time"
        await append(world, "l", *[0] * 1_000)
        size = world.partition(0, topic="l").log.size_in_bytes
        progress = of(await describe(world), 0)
        assert progress.lag_of_retention == pytest.approx(size / 1_000), "by bytes"
        await world.commit({world.at(0, "l"): 1_002})
        assert of(await describe(world), 0).lag_of_retention == 0

    simulate(scenario)


def test_a_topic_that_keeps_so_many_bytes_for_ever_has_a_share_of_these() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("l", retention_ms="-1", retention_bytes="1000000")
        world.tell()
        await append(world, "l", 50_000)
        size = world.partition(0, topic="l").log.size_in_bytes
        await world.commit({world.at(0, "l"): 0})
        assert of(await describe(world), 0).lag_of_retention == pytest.approx(size / 1_000_000)

    simulate(scenario)


def test_a_group_whose_records_are_gone_is_not_reassured_by_that() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("l", retention_ms="100000")
        world.tell()
        await append(world, "l", 99_000)
        await append(world, "l", 1_000)
        await world.commit({world.at(0, "l"): 0})
        assert of(await describe(world), 0).lag_of_retention == pytest.approx(0.99)
        await world.partition(0, topic="l").log.advance_log_start(1)  # type: ignore[arg-type]
        lost = of(await describe(world), 0)
        assert lost.lag_ms == 1_000
        assert lost.lag_of_retention == 1
        await world.commit({world.at(0, "l"): 1})
        assert of(await describe(world), 0).lag_of_retention == pytest.approx(0.01)

    simulate(scenario)


def test_a_record_from_the_future_is_not_late() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("l")
        world.tell()
        await append(world, "l", -5_000)
        await world.commit({world.at(0, "l"): 0})
        assert of(await describe(world), 0).lag_ms == 0

    simulate(scenario)


def test_a_leader_that_does_not_answer_costs_its_own_partitions_their_numbers() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3, world.at(1): 3})
        FakeLeader(world, SECOND, {}).lead(1)
        description = await describe(world)
        assert of(description, 0).lag == 7
        away = of(description, 1)
        assert away.error.retriable
        assert away.committed_offset == 3
        assert not away.HasField("lag")
        assert not away.HasField("end_offset")

    simulate(scenario)


def test_a_leader_is_asked_about_each_place_in_a_partition() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        for number, offset in enumerate((2, 9)):
            await world.commit({world.at(0): offset}, group=f"g{number}")
        response = await world.ask("DescribeGroups", DescribeGroupsRequest(groups=["g0", "g1"]))
        assert [of(each, 0).lag for each in response.groups] == [8, 1]

    simulate(scenario)


def test_what_a_deleted_topic_leaves_is_told_until_it_is_gone() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 3})
        topic_id = world.topic_id("t")
        world._set_image(
            topics=world.image.topics.delete(topic_id), topic_ids=world.image.topic_ids.delete(TopicName("t"))
        )
        progress = of(await describe(world), 0)
        assert progress.error.code == "UNKNOWN_TOPIC_OR_PARTITION"
        assert progress.topic == "t"

    simulate(scenario)


# -- the leader's side


def position(world: GroupWorld, number: int, offset: int | None = None) -> PartitionPosition:
    return PartitionPosition(
        replica=ReplicaName(topic_id=world.topic_id("t"), partition=number), offset=offset
    )


async def ends(world: GroupWorld, *positions: PartitionPosition) -> list[PartitionEnd]:
    handler = PartitionEnds(world.hosted.find_by_id, world.lease)
    return list((await handler.describe(DescribeEndsRequest(partitions=positions))).ends)


def test_a_leader_without_its_lease_says_nothing() -> None:
    simulate(a_leader_without_its_lease_says_nothing)


async def a_leader_without_its_lease_says_nothing(world: GroupWorld) -> None:
    await world.start()
    [end] = await ends(world, position(world, 0))
    assert end.high_watermark == 10
    world.lease.revoke()
    [end] = await ends(world, position(world, 0))
    assert end.error.code == BrokerFenced.code
    assert end.high_watermark == 0


def test_a_new_leader_says_nothing_before_it_knows_what_is_committed() -> None:
    """Rule 17."""

    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("r", replicas=(SELF, SECOND))
        leadership = world.partition(0, topic="r").leadership
        assert leadership is not None
        leadership.append(encode_batch([Record(0, 1_000, None, b"v")]), acks_all=True)
        world.change(0, topic="r", leader_epoch=1)
        name = ReplicaName(topic_id=world.topic_id("r"), partition=0)
        [end] = await ends(world, PartitionPosition(replica=name))
        assert end.error.code == OffsetNotAvailable.code

    simulate(scenario)


def test_answers_come_in_the_order_of_the_questions() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.produce("more", partition=2)
        world.change(1, leader=SECOND, leader_epoch=1)
        positions = [position(world, number % 4, number % 3 or None) for number in range(40)]
        answers = await ends(world, *positions)
        for asked, answer in zip(positions, answers, strict=True):
            number = asked.replica.partition
            if number == 1:
                assert answer.HasField("error")
            else:
                assert answer.high_watermark == (11 if number == 2 else 10)
                assert answer.HasField("timestamp_ms") == asked.HasField("offset")

    simulate(scenario)


def test_a_broker_that_is_not_known_cannot_be_asked() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        FakeLeader(world, 99, {}).lead(0)  # type: ignore[arg-type]
        await world.join("a")
        progress = of(await describe(world), 0)
        assert progress.error.code == BrokerNotAvailable.code
        await settle()

    simulate(scenario)
