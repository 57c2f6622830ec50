"""A commit beyond the end of its partition is refused; who leads the partition knows where that is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.broker.groups.ends import Ends
from quorate.chaos.sim.patch import Patch
from quorate.core.ids import TopicId
from quorate.core.records import Record, encode_batch
from quorate.errors import (
    BrokerFenced,
    InvalidRequest,
    OffsetNotAvailable,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from tests.unit.broker.broker_harness import SECOND, SELF, THIRD
from tests.unit.groups_coordinator.fake_leaders import FakeLeader
from tests.unit.groups_coordinator.group_cluster import commit_request
from tests.unit.groups_coordinator.group_world import GROUP, GroupWorld, refusal, settle, simulate


def test_an_offset_beyond_what_is_committed_is_refused() -> None:
    simulate(an_offset_beyond_what_is_committed_is_refused)


async def an_offset_beyond_what_is_committed_is_refused(world: GroupWorld) -> None:
    await world.start()
    assert await world.commit({world.at(0): 11}) == [OffsetOutOfRange.code]
    assert await world.fetch_offsets() == {}
    assert await world.commit({world.at(0): 10}) == [""], "where the next record will be"
    assert await world.fetch_offsets() == {world.at(0): 10}
    await world.produce("more")
    assert await world.commit({world.at(0): 11}) == [""]


def test_each_partition_has_a_result_of_its_own() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        unknown = world.at(0)._replace(topic_id=TopicId("A" * 22))
        beyond = world.at(9)
        offsets = {world.at(0): 5, world.at(1): 99, unknown: 1, world.at(2): -1, beyond: 0, world.at(3): 10}
        assert await world.commit(offsets) == [
            "",
            OffsetOutOfRange.code,
            UnknownTopicOrPartition.code,
            InvalidRequest.code,
            UnknownTopicOrPartition.code,
            "",
        ]
        assert await world.fetch_offsets() == {world.at(0): 5, world.at(3): 10}

    simulate(scenario)


def test_a_partition_that_appears_while_ends_are_asked_for_is_not_taken_unasked() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        original = Ends.find_unreached

        async def find_unreached(self: Ends, wanted: Any) -> Any:
            found = await original(self, wanted)
            await world.create_topic("u")
            world.tell()
            return found

        with Patch() as patch:
            patch.setattr(Ends, "find_unreached", find_unreached)
            later = world.at(0)._replace(topic_id=TopicId(f"{'u':_<22}"))
            results = await world.commit({world.at(0): 5, later: 1_000})
        assert results == ["", UnknownTopicOrPartition.code]
        assert await world.fetch_offsets() == {world.at(0): 5}

    simulate(scenario)


def test_what_is_written_and_not_committed_does_not_count() -> None:
    """Rule 17: nobody has read it."""

    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.create_topic("r", replicas=(SELF, SECOND))
        world.tell()
        leadership = world.partition(0, topic="r").leadership
        assert leadership is not None
        leadership.append(encode_batch([Record(0, 1_000, None, b"v")] * 3), acks_all=True)
        assert await world.commit({world.at(0, "r"): 1}) == [OffsetOutOfRange.code]

    simulate(scenario)


def test_what_is_below_a_known_end_needs_no_question() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        leader = FakeLeader(world, SECOND, {0: 100, 1: 100})
        await leader.serve()
        leader.lead(0, 1)
        assert await world.commit({world.at(0): 40}) == [""]
        assert await world.commit({world.at(0): 100}) == [""]
        assert leader.questions == [[0]]
        leader.ends[0] = 50
        assert await world.commit({world.at(0): 100}) == [""], "ends only grow"
        assert await world.commit({world.at(0): 101, world.at(1): 7}) == [OffsetOutOfRange.code, ""]
        assert leader.questions == [[0], [0, 1]]

    simulate(scenario)


def test_many_commits_share_a_question() -> None:
    simulate(many_commits_share_a_question)


async def many_commits_share_a_question(world: GroupWorld) -> None:
    await world.start()
    leader = FakeLeader(world, SECOND, {0: 100, 1: 100})
    await leader.serve()
    leader.lead(0, 1)
    leader.may_answer.clear()
    calls = []
    for number in range(20):
        request = commit_request({world.at(number % 2): 5 + number}, group=f"g{number}")
        calls.append(world.asking("CommitOffsets", request))
        await world.clock.sleep(0.01)
    leader.may_answer.set()
    for call in calls:
        assert not (await call).results[0].HasField("error")
    assert leader.at_once_most == 1
    assert leader.questions == [[0], [1, 0]]


def test_a_question_that_is_under_way_says_nothing_about_what_comes_later() -> None:
    simulate(a_question_that_is_under_way_says_nothing_about_what_comes_later)


async def a_question_that_is_under_way_says_nothing_about_what_comes_later(world: GroupWorld) -> None:
    await world.start()
    leader = FakeLeader(world, SECOND, {0: 10})
    await leader.serve()
    leader.lead(0)
    leader.may_answer.clear()
    first = world.asking("CommitOffsets", commit_request({world.at(0): 10}))
    await world.clock.sleep(0.1)
    leader.ends[0] = 20
    second = world.asking("CommitOffsets", commit_request({world.at(0): 20}, group="another"))
    await world.clock.sleep(0.1)
    leader.may_answer.set()
    for call in (first, second):
        assert not (await call).results[0].HasField("error")


def test_a_leader_that_cannot_be_asked_costs_its_own_partitions_and_only_for_now() -> None:
    simulate(a_leader_that_cannot_be_asked_costs_its_own_partitions_and_only_for_now)


async def a_leader_that_cannot_be_asked_costs_its_own_partitions_and_only_for_now(world: GroupWorld) -> None:
    await world.start()
    dead, living = FakeLeader(world, SECOND, {}), FakeLeader(world, THIRD, {1: 10})
    await living.serve()
    dead.lead(0)
    living.lead(1)
    response = await world.ask(
        "CommitOffsets", commit_request({world.at(0): 5, world.at(1): 5, world.at(2): 5})
    )
    codes = [result.error.code for result in response.results]
    assert codes == [OffsetNotAvailable.code, "", ""]
    assert response.results[0].error.retriable
    assert not response.results[0].error.outcome_unknown
    assert await world.fetch_offsets() == {world.at(1): 5, world.at(2): 5}
    await dead.serve()
    dead.ends[0] = 10
    assert await world.commit({world.at(0): 5}) == [""]


@pytest.mark.parametrize("error", [BrokerFenced("lost touch"), OffsetNotAvailable("not yet")])
def test_a_leader_that_does_not_know_is_not_believed(error: Exception) -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        leader = FakeLeader(world, SECOND, {0: error})  # type: ignore[dict-item]
        await leader.serve()
        leader.lead(0)
        assert await world.commit({world.at(0): 5}) == [OffsetNotAvailable.code]

    simulate(scenario)


def test_a_partition_without_a_leader_is_not_refused_for_good() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        FakeLeader(world, -1, {}).lead(0)  # type: ignore[arg-type]
        assert await world.commit({world.at(0): 5}) == [OffsetNotAvailable.code]

    simulate(scenario)


def test_this_broker_does_not_believe_itself_without_its_lease() -> None:
    """Rule 37: another may lead the partition, and have more."""
    simulate(this_broker_does_not_believe_itself_without_its_lease)


async def this_broker_does_not_believe_itself_without_its_lease(world: GroupWorld) -> None:
    await world.start()
    ends: Ends = world.groups._ends
    world.lease.revoke()
    [error] = (await ends.find_unreached({world.at(0): 11})).values()  # type: ignore[dict-item]
    assert isinstance(error, OffsetNotAvailable)


def test_whoever_goes_away_does_not_take_the_answer_with_him() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        leader = FakeLeader(world, SECOND, {0: 100})
        await leader.serve()
        leader.lead(0)
        leader.may_answer.clear()
        calls = [
            world.asking("CommitOffsets", commit_request({world.at(0): 5}, group=f"g{number}"))
            for number in range(2)
        ]
        await settle()
        calls[0].cancel()
        await asyncio.wait([calls[0]])
        leader.may_answer.set()
        assert not (await calls[1]).results[0].HasField("error")

    simulate(scenario)


def test_a_group_that_has_moved_while_the_leader_was_asked_is_not_changed_here() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        leader = FakeLeader(world, SECOND, {0: 100})
        await leader.serve()
        leader.lead(0)
        leader.may_answer.clear()
        call = world.asking("CommitOffsets", commit_request({world.at(0): 5}))
        await settle()
        end = world.log_end()
        world.lead(THIRD)
        leader.may_answer.set()
        error = await refusal(call)
        assert error.code == "NOT_COORDINATOR"
        assert world.log_end() == end

    simulate(scenario)


def test_a_commit_of_very_many_offsets_is_spread_over_batches() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.create_topic("t", partitions=200)
        await world.create_topic("__consumer_offsets", partitions=1, max_message_bytes="4000")
        world.run()
        world.tell_all()
        await settle()
        offsets = {world.at(number): 0 for number in range(200)}
        assert await world.commit(offsets) == [""] * 200
        assert await world.fetch_offsets() == offsets
        before = world.shard().groups[GROUP]
        assert len(before.offsets) == 200
        world.lead(SELF)
        await settle()
        assert await world.fetch_offsets() == offsets

    simulate(scenario)
