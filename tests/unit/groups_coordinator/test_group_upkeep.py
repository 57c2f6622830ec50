"""What a coordinator does unasked: topics come and go, offsets expire; a little of it in each turn."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from quorate.broker.groups import membership
from quorate.chaos.sim.patch import Patch
from quorate.core.ids import TopicName
from quorate.v1.group_pb2 import (
    DeleteGroupsRequest,
    DeleteOffsetsRequest,
    DescribeGroupsRequest,
    FetchOffsetsRequest,
    FindCoordinatorsRequest,
    ListGroupsRequest,
    TopicPartitions,
)
from tests.unit.broker.broker_harness import SECOND, SELF
from tests.unit.groups_coordinator.group_cluster import EVERYTHING_SEEN
from tests.unit.groups_coordinator.group_world import (
    GROUP,
    GroupWorld,
    beat,
    refusal,
    settle,
    simulate,
)

WEEK_S = 7 * 24 * 3600.0
CHECK_S = 600.0


def delete_topic(world: GroupWorld, name: str) -> None:
    topic_id = world.topic_id(name)
    for key in [each for each in world.replicas.found if each[0] == topic_id]:
        del world.replicas.found[key]
    world._set_image(
        topics=world.image.topics.delete(topic_id), topic_ids=world.image.topic_ids.delete(TopicName(name))
    )
    world.tell()


# -- topics


def test_a_new_topic_is_read_by_whom_it_matches() -> None:
    simulate(a_new_topic_is_read_by_whom_it_matches)


async def a_new_topic_is_read_by_whom_it_matches(world: GroupWorld) -> None:
    await world.start()
    told = await world.join("a", topics=[], pattern="t.*")
    call = world.waiting("a", told)
    other = world.waiting("b", await world.join("b", group="another"), group="another")
    await settle()
    began = world.now
    await world.create_topic("t2", partitions=2)
    world.tell()
    gained = await call
    assert world.now == began
    assert {each.topic: len(each.partitions) for each in gained.assignment} == {"t": 4, "t2": 2}
    assert not other.done()


def test_new_partitions_are_read() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a")
        call = world.waiting("a", told)
        await settle()
        topic = world.image.topics[world.topic_id("t")]
        fifth = replace(topic.partitions[0], partition=4, leader=SECOND)  # type: ignore[arg-type]
        grown = replace(topic, partitions=(*topic.partitions, fifth))
        world._set_image(topics=world.image.topics.set(topic.topic_id, grown))
        world.tell()
        gained = await call
        assert [list(each.partitions) for each in gained.assignment] == [[0, 1, 2, 3, 4]]

    simulate(scenario)


def test_offsets_of_a_deleted_topic_go() -> None:
    simulate(offsets_of_a_deleted_topic_go)


async def offsets_of_a_deleted_topic_go(world: GroupWorld) -> None:
    await world.start()
    await world.create_topic("u")
    world.tell()
    await world.commit({world.at(0): 3, world.at(0, "u"): 0})
    deleted = world.at(0, "u")
    delete_topic(world, "u")
    await settle()
    assert await world.fetch_offsets() == {world.at(0): 3}
    world.lead(SELF)
    await settle()
    assert deleted not in await world.fetch_offsets()


def test_what_happened_while_nobody_coordinated_is_made_up_for() -> None:
    simulate(what_happened_while_nobody_coordinated_is_made_up_for)


async def what_happened_while_nobody_coordinated_is_made_up_for(world: GroupWorld) -> None:
    await world.start()
    await world.create_topic("u")
    world.tell()
    told = await world.join("a", topics=["t", "u", "v"])
    await world.commit({world.at(0, "u"): 0}, member_id="a", member_epoch=told.member_epoch)
    world.lead(SECOND)
    delete_topic(world, "u")
    await world.create_topic("v")
    world.tell()
    world.lead(SELF)
    await settle()
    group = world.shard().groups[GROUP]
    assert not group.offsets
    topics = {each.topic_id for each in group.members["a"].target}
    assert topics == {world.topic_id("t"), world.topic_id("v")}


def test_a_new_leader_of_a_partition_is_no_reason_to_look_at_groups() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.join("a")
        looked: list[str] = []
        topics_changed = membership.topics_changed

        def note(groups: Any, group: str, **more: Any) -> Any:
            looked.append(group)
            return topics_changed(groups, group, **more)

        with Patch() as patch:
            patch.setattr(membership, "topics_changed", note)
            world.change(0, leader=SECOND, leader_epoch=1)
            world.tell()
            await settle()
            assert looked == []
            await world.create_topic("more")
            world.tell()
            await settle()
            assert looked == [GROUP]

    simulate(scenario)


def test_very_many_groups_are_looked_at_in_many_turns() -> None:
    simulate(very_many_groups_are_looked_at_in_many_turns)


async def very_many_groups_are_looked_at_in_many_turns(world: GroupWorld) -> None:
    await world.start(partitions=1)
    for number in range(200):
        await world.commit({world.at(0): 1}, group=f"g{number}")
    in_turn = most = looked = 0
    topics_changed = membership.topics_changed

    def count(*arguments: Any, **more: Any) -> Any:
        nonlocal in_turn, most, looked
        in_turn, looked = in_turn + 1, looked + 1
        most = max(most, in_turn)
        return topics_changed(*arguments, **more)

    with Patch() as patch:
        patch.setattr(membership, "topics_changed", count)
        await world.create_topic("more")
        world.tell()
        for _ in range(100):
            in_turn = 0
            await asyncio.sleep(0)
    assert looked == 200
    assert most <= 32


def test_what_cannot_be_written_down_is_tried_again() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start(replicas=(SELF, SECOND))
        commit = asyncio.create_task(world.commit({world.at(0): 3}))
        await settle()
        world.replicate()
        await commit
        world.change(world.number_of(), topic="__consumer_offsets", isr=(SELF,))
        delete_topic(world, "t")
        await world.clock.sleep(5)
        assert len(world.shard().groups[GROUP].offsets) == 1
        world.change(world.number_of(), topic="__consumer_offsets", isr=(SELF, SECOND))
        await world.clock.sleep(2)
        assert GROUP not in world.shard().groups

    simulate(scenario)


# -- expiry


def test_offsets_of_a_group_without_members_expire() -> None:
    simulate(offsets_of_a_group_without_members_expire)


async def offsets_of_a_group_without_members_expire(world: GroupWorld) -> None:
    await world.start()
    await world.commit({world.at(0): 3})
    await world.clock.sleep(WEEK_S - CHECK_S)
    assert await world.fetch_offsets() == {world.at(0): 3}
    await world.commit({world.at(1): 3})
    await world.clock.sleep(2 * CHECK_S)
    assert await world.fetch_offsets() == {world.at(1): 3}
    await world.clock.sleep(WEEK_S)
    assert GROUP not in world.shard().groups
    world.lead(SELF)
    await settle()
    assert await world.fetch_offsets() == {}


def test_offsets_of_a_group_with_members_stay() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a", instance_id="one")
        await world.commit({world.at(0): 3}, member_id="a", member_epoch=told.member_epoch)
        for _ in range(int(2 * WEEK_S / 1800)):
            await world.clock.sleep(1800)
            await world.ask("GroupHeartbeat", beat("a", told))
        assert await world.fetch_offsets() == {world.at(0): 3}

    simulate(scenario, session_timeout_ms=3_600_000)


def test_a_clock_that_jumps_makes_no_group_forget() -> None:
    simulate(a_clock_that_jumps_makes_no_group_forget)


async def a_clock_that_jumps_makes_no_group_forget(world: GroupWorld) -> None:
    await world.start()
    await world.commit({world.at(0): 3})
    clock: Any = world.clock
    clock.jump_wall(30 * 24 * 3600 * 1000)
    await world.clock.sleep(3 * CHECK_S)
    assert await world.fetch_offsets() == {world.at(0): 3}


def test_a_clock_that_was_behind_and_is_put_right_makes_no_group_forget() -> None:
    simulate(a_clock_that_was_behind_and_is_put_right_makes_no_group_forget)


async def a_clock_that_was_behind_and_is_put_right_makes_no_group_forget(world: GroupWorld) -> None:
    """What was committed meanwhile, and a group that became empty meanwhile, are not as old as they look."""
    await world.start()
    told = await world.join("a")
    await world.commit({world.at(0): 3}, member_id="a", member_epoch=told.member_epoch)
    clock: Any = world.clock
    clock.jump_wall(-30 * 24 * 3600 * 1000)
    await world.clock.sleep(10)
    await world.ask("GroupHeartbeat", beat("a", told, member_epoch=-1))
    await world.commit({world.at(1): 4}, group="other")
    await world.clock.sleep(60)
    clock.jump_wall(30 * 24 * 3600 * 1000)
    await world.clock.sleep(3 * CHECK_S)
    assert await world.fetch_offsets() == {world.at(0): 3}
    assert await world.fetch_offsets(group="other") == {world.at(1): 4}


def test_a_group_that_has_nothing_goes() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a")
        await world.ask("GroupHeartbeat", beat("a", told, member_epoch=-1))
        await world.clock.sleep(CHECK_S + 1)
        assert GROUP not in world.shard().groups

    simulate(scenario)


# -- deleting


def test_groups_are_deleted_when_nobody_is_in_them() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a")
        await world.commit({world.at(0): 3}, member_id="a", member_epoch=told.member_epoch)
        request = DeleteGroupsRequest(groups=[GROUP, "none"], revisions=[EVERYTHING_SEEN, EVERYTHING_SEEN])
        results = (await world.ask("DeleteGroups", request)).results
        assert [each.error.code for each in results] == ["NON_EMPTY_GROUP", ""]
        request = DeleteGroupsRequest(groups=[GROUP])
        [result] = (await world.ask("DeleteGroups", request)).results
        assert result.error.code == "INVALID_REQUEST", "nobody says what it is based on"
        await world.ask("GroupHeartbeat", beat("a", told, member_epoch=-1))
        assert await world.fetch_offsets() == {world.at(0): 3}
        described = (await world.ask("DescribeGroups", DescribeGroupsRequest(groups=[GROUP]))).groups[0]
        request = DeleteGroupsRequest(groups=[GROUP], revisions=[described.revision])
        [result] = (await world.ask("DeleteGroups", request)).results
        assert not result.HasField("error")
        assert await world.fetch_offsets() == {}
        for _ in range(2):
            assert not (await world.ask("ListGroups", ListGroupsRequest())).groups
            described = (await world.ask("DescribeGroups", DescribeGroupsRequest(groups=[GROUP]))).groups[0]
            assert described.error.code == "GROUP_ID_NOT_FOUND"
            assert world.shard().groups[GROUP].group_epoch, "its epochs are remembered"
            world.lead(SELF)
            await settle()

    simulate(scenario)


def test_offsets_are_deleted_where_nobody_reads() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("u")
        world.tell()
        await world.commit({world.at(0): 3, world.at(0, "u"): 0})
        await world.join("a")
        request = DeleteOffsetsRequest(
            group=GROUP,
            partitions=[
                TopicPartitions(topic_id=world.topic_id("t"), partitions=[0]),
                TopicPartitions(topic_id=world.topic_id("u"), partitions=[0]),
            ],
            revision=EVERYTHING_SEEN,
        )
        results = (await world.ask("DeleteOffsets", request)).results
        assert [(each.topic, each.error.code) for each in results] == [("t", "NON_EMPTY_GROUP"), ("u", "")]
        assert await world.fetch_offsets() == {world.at(0): 3}

    simulate(scenario)


# -- finding


def test_a_group_is_where_its_name_says_whoever_is_asked() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        world.lead(SECOND)
        request = FindCoordinatorsRequest(groups=[GROUP, "h", "i"])
        found = (await world.ask("FindCoordinators", request)).coordinators
        assert [each.group for each in found] == [GROUP, "h", "i"]
        for each in found:
            is_moved = world.number_of(each.group) == world.number_of(GROUP)
            assert each.broker_id == (SECOND if is_moved else SELF)
            assert each.address == f"broker{each.broker_id}:9092"
        assert world.creations == []

    simulate(scenario)


def test_where_there_is_no_topic_yet_it_is_asked_for_once() -> None:
    simulate(where_there_is_no_topic_yet_it_is_asked_for_once)


async def where_there_is_no_topic_yet_it_is_asked_for_once(world: GroupWorld) -> None:
    world.run()
    request = FindCoordinatorsRequest(groups=[GROUP])
    calls = [world.asking("FindCoordinators", request) for _ in range(10)]
    await world.clock.sleep(0.5)
    assert len(world.creations) == 1
    await world.create_topic("__consumer_offsets", partitions=4)
    world.tell()
    for call in calls:
        assert (await call).coordinators[0].broker_id == SELF


def test_a_topic_that_does_not_come_is_not_waited_for_for_ever() -> None:
    async def scenario(world: GroupWorld) -> None:
        world.run()
        began = world.now
        error = await refusal(world.ask("FindCoordinators", FindCoordinatorsRequest(groups=[GROUP])))
        assert error.code == "COORDINATOR_NOT_AVAILABLE"
        assert error.retriable
        assert world.now - began < 10
        assert (await refusal(world.fetch_offsets())).code == "COORDINATOR_NOT_AVAILABLE"

    simulate(scenario)


# -- bounds


def test_requests_are_bounded() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        for method, request in {
            "FindCoordinators": FindCoordinatorsRequest(groups=[f"g{number}" for number in range(2_001)]),
            "DeleteGroups": DeleteGroupsRequest(groups=["same", "same"]),
            "FetchOffsets": FetchOffsetsRequest(
                group=GROUP, partitions=[TopicPartitions(topic_id="x", partitions=range(2_001))]
            ),
            "DeleteOffsets": DeleteOffsetsRequest(
                group=GROUP, partitions=[TopicPartitions(topic_id="x", partitions=[1, 1])]
            ),
        }.items():
            assert (await refusal(world.ask(method, request))).code == "INVALID_REQUEST", method
        assert (await refusal(world.fetch_offsets(""))).code == "INVALID_REQUEST"
        assert (await refusal(world.fetch_offsets("g" * 256))).code == "INVALID_REQUEST"

    simulate(scenario)


def test_partitions_without_an_offset_are_told_as_such() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(1): 4})
        request = FetchOffsetsRequest(
            group=GROUP, partitions=[TopicPartitions(topic_id=world.topic_id("t"), partitions=[2, 1])]
        )
        offsets = (await world.ask("FetchOffsets", request)).offsets
        assert [(each.partition, each.HasField("offset"), each.offset) for each in offsets] == [
            (2, False, 0),
            (1, True, 4),
        ]
        assert {each.topic for each in offsets} == {"t"}

    simulate(scenario)
