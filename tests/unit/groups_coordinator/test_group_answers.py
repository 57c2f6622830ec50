"""What leaves a coordinator rests on what is committed, by a broker that leads and holds its lease."""

from __future__ import annotations

import pytest

from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import (
    BrokerFenced,
    CoordinatorNotAvailable,
    DiskFull,
    NotCoordinator,
    NotEnoughReplicas,
    UnknownMember,
)
from quorate.v1.group_pb2 import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FetchOffsetsRequest,
    ListGroupsRequest,
)
from tests.unit.broker.broker_harness import SECOND, SELF
from tests.unit.groups_coordinator.group_cluster import commit_request
from tests.unit.groups_coordinator.group_world import (
    BOTH,
    GROUP,
    GroupWorld,
    beat,
    join,
    refusal,
    settle,
    simulate,
)

#: calls that only look
READS = {
    "FetchOffsets": FetchOffsetsRequest(group=GROUP),
    "DescribeGroups": DescribeGroupsRequest(groups=[GROUP]),
    "ListGroups": ListGroupsRequest(),
}


def test_a_commit_is_answered_when_it_is_on_enough_replicas() -> None:
    simulate(a_commit_is_answered_when_it_is_on_enough_replicas)


async def a_commit_is_answered_when_it_is_on_enough_replicas(world: GroupWorld) -> None:
    await world.start(replicas=BOTH)
    call = world.asking("CommitOffsets", commit_request({world.at(0): 5}))
    await settle()
    assert not call.done()
    world.replicate()
    assert not (await call).results[0].HasField("error")
    assert await world.fetch_offsets() == {world.at(0): 5}


@pytest.mark.parametrize("method", sorted(READS))
def test_what_was_looked_at_is_told_when_it_is_committed(method: str) -> None:
    async def scenario(world: GroupWorld) -> None:
        await what_was_looked_at_is_told_when_it_is_committed(world, method)

    simulate(scenario)


async def what_was_looked_at_is_told_when_it_is_committed(world: GroupWorld, method: str) -> None:
    await world.start(replicas=BOTH)
    commit = world.asking("CommitOffsets", commit_request({world.at(0): 5}))
    await settle()
    read = world.asking(method, READS[method])
    await settle()
    assert not read.done(), "the offset may still vanish"
    world.replicate()
    response = await read
    assert "error" not in str(response)
    assert GROUP in str(response) or world.at(0).topic_id in str(response)
    await commit


def test_an_offset_that_is_never_committed_is_never_told() -> None:
    simulate(an_offset_that_is_never_committed_is_never_told)


async def an_offset_that_is_never_committed_is_never_told(world: GroupWorld) -> None:
    await world.start(replicas=BOTH)
    commit = world.asking("CommitOffsets", commit_request({world.at(0): 5}))
    await settle()
    read = world.asking("FetchOffsets", READS["FetchOffsets"])
    await settle()
    world.lead(SECOND)
    assert (await refusal(commit)).outcome_unknown
    elsewhere = await refusal(read)
    assert isinstance(elsewhere, NotCoordinator)
    assert elsewhere.facts["broker_id"] == SECOND
    assert elsewhere.facts["address"] == "broker2:9092"


def test_a_read_does_not_wait_for_what_comes_after_it() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start(replicas=BOTH)
        first = world.asking("CommitOffsets", commit_request({world.at(0): 5}))
        await settle()
        read = world.asking("FetchOffsets", READS["FetchOffsets"])
        await settle()
        end = world.log_end()
        later = world.asking("CommitOffsets", commit_request({world.at(0): 6}))
        await settle()
        assert world.log_end() > end
        leadership = world.replica().leadership
        assert leadership is not None
        broker_epoch = world.image.brokers[SECOND].broker_epoch
        leadership.follower_at(SECOND, broker_epoch, end, leadership.epoch, Offset(0))
        assert [each.offset for each in (await read).offsets] == [5]
        assert first.done()
        assert not later.done()
        world.replicate()
        await later

    simulate(scenario)


@pytest.mark.parametrize("method", sorted(READS))
def test_nothing_is_told_without_the_lease(method: str) -> None:
    async def scenario(world: GroupWorld) -> None:
        await nothing_is_told_without_the_lease(world, method)

    simulate(scenario)


async def nothing_is_told_without_the_lease(world: GroupWorld, method: str) -> None:
    """Rule 37."""
    await world.start()
    await world.commit({world.at(0): 5})
    world.lease.revoke()
    error = await refusal(world.ask(method, READS[method]))
    assert isinstance(error, BrokerFenced)


@pytest.mark.parametrize("method", ["FetchOffsets", "DescribeGroups"])
def test_the_lease_counts_when_the_answer_leaves(method: str) -> None:
    async def scenario(world: GroupWorld) -> None:
        await the_lease_counts_when_the_answer_leaves(world, method)

    simulate(scenario)


async def the_lease_counts_when_the_answer_leaves(world: GroupWorld, method: str) -> None:
    """Rule 37: it was there when the request came, and is over when its commit has come."""
    await world.start(replicas=BOTH)
    commit = world.asking("CommitOffsets", commit_request({world.at(0): 5}))
    await settle()
    read = world.asking(method, READS[method])
    await settle()
    world.lease.revoke()
    world.replicate()
    assert isinstance(await refusal(read), BrokerFenced)
    # It is committed, and this broker is not the one to say so.
    assert (await refusal(commit)).outcome_unknown


def test_a_refusal_of_a_zombie_is_not_told_either() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        world.lease.revoke()
        error = await refusal(world.commit({world.at(0): 5}, member_id="nobody", member_epoch=3))
        assert isinstance(error, BrokerFenced)

    simulate(scenario)


def test_a_member_is_told_of_its_removal_when_that_is_committed() -> None:
    simulate(a_member_is_told_of_its_removal_when_that_is_committed)


async def a_member_is_told_of_its_removal_when_that_is_committed(world: GroupWorld) -> None:
    await world.start(replicas=BOTH)
    joining = world.asking("GroupHeartbeat", join("a"))
    await settle()
    world.replicate()
    told = await joining
    leaving = world.asking("GroupHeartbeat", beat("a", told, member_epoch=-1, owned=[]))
    await settle()
    call = world.asking("GroupHeartbeat", beat("a", told))
    await settle()
    assert not call.done(), "its removal may vanish, and then it is a member"
    world.replicate()
    assert isinstance(await refusal(call), UnknownMember)
    assert (await leaving).member_epoch == -1


def test_an_append_that_is_refused_changes_nothing() -> None:
    simulate(an_append_that_is_refused_changes_nothing)


async def an_append_that_is_refused_changes_nothing(world: GroupWorld) -> None:
    """Rule 53."""
    await world.start(replicas=BOTH)
    world.change(world.number_of(), topic="__consumer_offsets", isr=(SELF,))
    world.tell()
    end = world.log_end()
    assert isinstance(await refusal(world.commit({world.at(0): 5})), NotEnoughReplicas)
    assert isinstance(await refusal(world.join("a")), NotEnoughReplicas)
    assert world.log_end() == end
    assert GROUP not in world.shard().groups
    assert await world.fetch_offsets() == {}


def test_a_full_disk_refuses_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 5})
        leadership = world.replica().leadership
        assert leadership is not None

        def full(*_: object, **__: object) -> None:
            raise DiskFull("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(type(leadership), "append", full)
            assert isinstance(await refusal(world.commit({world.at(0): 6})), DiskFull)
        assert await world.fetch_offsets() == {world.at(0): 5}
        assert await world.commit({world.at(0): 7}) == [""]
        assert await world.fetch_offsets() == {world.at(0): 7}

    simulate(scenario)


def test_reads_are_refused_for_a_while_when_too_few_replicas_are_in_sync() -> None:
    """What lies beyond the high watermark cannot be told, and is not denied."""

    async def scenario(world: GroupWorld) -> None:
        await world.start(replicas=BOTH)
        commit = world.asking("CommitOffsets", commit_request({world.at(0): 5}))
        await settle()
        world.change(world.number_of(), topic="__consumer_offsets", isr=(SELF,))
        assert (await refusal(commit)).outcome_unknown
        error = await refusal(world.fetch_offsets())
        assert isinstance(error, CoordinatorNotAvailable)
        assert not error.outcome_unknown

    simulate(scenario)


def test_a_coordinator_of_a_new_epoch_does_not_use_what_it_knew_in_the_one_before() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.commit({world.at(0): 5})
        before = world.shard()
        world.lead(SELF)
        assert before.is_ended
        assert len(before.groups) == 0
        await settle()
        assert world.shard() is not before
        assert await world.fetch_offsets() == {world.at(0): 5}

    simulate(scenario)


def test_a_broker_that_does_not_coordinate_says_who_does() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        world.lead(SECOND)
        for call in (world.fetch_offsets(), world.commit({world.at(0): 1}), world.join("a")):
            error = await refusal(call)
            assert isinstance(error, NotCoordinator)
            assert (error.facts["broker_id"], error.facts["address"]) == (SECOND, "broker2:9092")
        [result] = (await world.ask("DeleteGroups", DeleteGroupsRequest(groups=[GROUP]))).results
        assert result.error.code == NotCoordinator.code
        [described] = (await world.ask("DescribeGroups", READS["DescribeGroups"])).groups
        assert described.error.code == NotCoordinator.code

    simulate(scenario)


def test_where_nobody_leads_the_coordinator_is_not_available() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        number = world.number_of()
        world.change(number, topic="__consumer_offsets", leader=-1, leader_epoch=LeaderEpoch(1))
        world.tell()
        error = await refusal(world.fetch_offsets())
        assert isinstance(error, CoordinatorNotAvailable)

    simulate(scenario)
