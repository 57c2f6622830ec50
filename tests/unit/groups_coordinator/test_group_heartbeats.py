"""A heartbeat waits for news; a member that is silent, slow or gone is removed, and nobody else is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from quorate.broker.groups.records import GroupRecord, partitions_of
from quorate.errors import (
    FencedMemberEpoch,
    GroupFull,
    HeartbeatOvertaken,
    InvalidRequest,
    NotCoordinator,
    UnknownMember,
)
from quorate.v1.group_pb2 import DescribeGroupsRequest, GroupHeartbeatRequest, GroupHeartbeatResponse
from tests.unit.broker.broker_harness import SECOND, SELF
from tests.unit.groups_coordinator.group_world import (
    GROUP,
    GroupWorld,
    beat,
    cancel,
    join,
    refusal,
    settle,
    simulate,
)

SESSION_S, BEAT_S, GRACE_S = 30.0, 3.0, 0.5


def held(told: GroupHeartbeatResponse) -> set[int]:
    return {each.partition for each in partitions_of(told.assignment)}


async def settled(world: GroupWorld, *names: str, **more: Any) -> dict[str, GroupHeartbeatResponse]:
    """Members that hold what they are to hold, and what each was told last."""
    told = {name: await world.join(name, **more) for name in names}
    while True:
        before = dict(told)
        for name in names:
            answer = await world.ask("GroupHeartbeat", beat(name, told[name]))
            # Within an epoch a member only gives up, and says so.
            told[name] = answer
        if {name: str(each) for name, each in before.items()} == {
            name: str(each) for name, each in told.items()
        }:
            return told


# -- waiting


def test_a_call_with_nothing_to_tell_waits_as_long_as_it_may() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a")
        for max_wait_ms, expected_s in ((0, 0.0), (1_000, 1.0), (60_000, BEAT_S)):
            began = world.now
            answer = await world.waiting("a", told, max_wait_ms=max_wait_ms)
            assert world.now - began == pytest.approx(expected_s)
            assert answer == told

    simulate(scenario)


def test_a_change_is_told_at_once_to_whom_it_concerns() -> None:
    simulate(a_change_is_told_at_once_to_whom_it_concerns)


async def a_change_is_told_at_once_to_whom_it_concerns(world: GroupWorld) -> None:
    await world.start()
    told = await world.join("a")
    assert held(told) == {0, 1, 2, 3}
    call = world.waiting("a", told)
    await settle()
    assert not call.done()
    began = world.now
    await world.join("b")
    less = await call
    assert world.now == began
    assert len(held(less)) == 2
    # It gives up, and says so in a call that waits; the other one, which waits too, gets it at once.
    other = world.waiting("b", GroupHeartbeatResponse(member_epoch=world.shard().groups[GROUP].group_epoch))
    await settle()
    world.waiting("a", less)
    gained = await other
    assert world.now == began
    assert held(gained) == {0, 1, 2, 3} - held(less)


def test_whom_a_change_does_not_concern_is_not_woken() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await settled(world, "a", "b")
        calls = {name: world.waiting(name, told[name]) for name in told}
        await settle()
        # One more than partitions for everybody would move something; here two of six have nothing.
        await world.commit({world.at(0): 1}, group="another")
        await world.join("c", group="another")
        await settle()
        assert not any(call.done() for call in calls.values())

    simulate(scenario)


def test_a_newer_call_answers_the_older_one_at_once() -> None:
    simulate(a_newer_call_answers_the_older_one_at_once)


async def a_newer_call_answers_the_older_one_at_once(world: GroupWorld) -> None:
    await world.start()
    told = await world.join("a")
    older = world.waiting("a", told)
    await settle()
    newer = world.waiting("a", told)
    began = world.now
    assert await older == told
    assert world.now == began
    assert not newer.done()
    await newer


def test_an_older_call_is_not_decided_again() -> None:
    """It says that the member holds what a newer one may have given up."""
    simulate(an_older_call_is_not_decided_again)


async def an_older_call_is_not_decided_again(world: GroupWorld) -> None:
    await world.start()
    told = await world.join("a")
    older = world.waiting("a", told)
    await settle()
    # In one turn: the newer call comes, and the group changes before the older one has been answered.
    newer = world.waiting("a", told)
    joining = world.asking("GroupHeartbeat", join("b"))
    assert await older == told
    assert len(held(await newer)) == 2
    await joining


def test_whoever_waits_is_told_who_coordinates_from_now_on() -> None:
    simulate(whoever_waits_is_told_who_coordinates_from_now_on)


async def whoever_waits_is_told_who_coordinates_from_now_on(world: GroupWorld) -> None:
    await world.start()
    told = await world.join("a")
    call = world.waiting("a", told)
    await settle()
    began = world.now
    world.lead(SECOND)
    error = await refusal(call)
    assert isinstance(error, NotCoordinator)
    assert (error.facts["broker_id"], error.facts["address"]) == (SECOND, "broker2:9092")
    assert world.now == began


def test_a_removed_member_that_waits_is_told() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a")
        call = world.waiting("a", told)
        await settle()
        # As an administrator's tool would: a leave in its name, on another connection.
        world.asking("GroupHeartbeat", beat("b", told, member_epoch=-1))
        leave = beat("a", told, member_epoch=-1)
        assert (await world.ask("GroupHeartbeat", leave)).member_epoch == -1
        assert await call == told
        assert world.members() == []

    simulate(scenario)


def test_a_negative_wait_is_refused() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        assert isinstance(
            await refusal(world.ask("GroupHeartbeat", join("a", max_wait_ms=-1))), InvalidRequest
        )

    simulate(scenario)


# -- silence


def test_a_silent_member_is_removed_after_its_session() -> None:
    simulate(a_silent_member_is_removed_after_its_session)


async def a_silent_member_is_removed_after_its_session(world: GroupWorld) -> None:
    await world.start()
    told = await settled(world, "a", "b")
    began = world.now
    call: asyncio.Task[Any] = world.waiting("b", told["b"])
    while world.members() == ["a", "b"]:
        assert world.now < began + 2 * SESSION_S
        await world.clock.sleep(0.25)
        if call.done():
            told["b"] = call.result()
            call = world.waiting("b", told["b"])
    assert world.now - began == pytest.approx(SESSION_S, abs=0.5)
    assert world.members() == ["b"], "who calls again and again, stays"
    gained = await call
    assert held(gained) == {0, 1, 2, 3}
    assert isinstance(await refusal(world.waiting("a", told["a"])), UnknownMember)


def test_everybody_has_a_whole_session_when_a_coordinator_takes_over() -> None:
    simulate(everybody_has_a_whole_session_when_a_coordinator_takes_over)


async def everybody_has_a_whole_session_when_a_coordinator_takes_over(world: GroupWorld) -> None:
    await world.start()
    await world.join("a")
    await world.clock.sleep(SESSION_S - 1)
    world.lead(SELF)
    await settle()
    await world.clock.sleep(SESSION_S - 1)
    assert world.members() == ["a"]
    await world.clock.sleep(2)
    assert world.members() == []


def test_a_process_that_stood_still_removes_nobody_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a")
        await world.clock.sleep(SESSION_S - 5)
        # The clock goes on, and no timer runs: what a suspended machine sees.
        clock, jump_s = world.clock, 100.0
        monotonic = clock.monotonic
        monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + jump_s)
        await clock.sleep(6)
        assert world.members() == ["a"]
        await world.waiting("a", told, max_wait_ms=0)
        await clock.sleep(SESSION_S - 1)
        assert world.members() == ["a"]
        await clock.sleep(2)
        assert world.members() == []

    simulate(scenario)


def test_a_removal_that_cannot_be_written_down_is_tried_again() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start(replicas=(SELF, SECOND))
        joining = world.asking("GroupHeartbeat", join("a"))
        await settle()
        world.replicate()
        await joining
        world.change(world.number_of(), topic="__consumer_offsets", isr=(SELF,))
        await world.clock.sleep(SESSION_S + 10)
        assert world.members() == ["a"]
        world.change(world.number_of(), topic="__consumer_offsets", isr=(SELF, SECOND))
        await world.clock.sleep(2)
        assert world.members() == []

    simulate(scenario)


# -- calls that break off


def test_a_member_whose_call_breaks_off_is_removed_after_a_moment() -> None:
    simulate(a_member_whose_call_breaks_off_is_removed_after_a_moment)


async def a_member_whose_call_breaks_off_is_removed_after_a_moment(world: GroupWorld) -> None:
    await world.start()
    told = await settled(world, "a", "b")
    dying, staying = world.waiting("a", told["a"]), world.waiting("b", told["b"])
    await settle()
    await cancel(dying)
    await world.clock.sleep(GRACE_S - 0.1)
    assert world.members() == ["a", "b"], "it may come back"
    await world.clock.sleep(0.2)
    assert world.members() == ["b"]
    assert held(await staying) == {0, 1, 2, 3}


def test_a_member_that_is_heard_of_again_in_time_stays() -> None:
    simulate(a_member_that_is_heard_of_again_in_time_stays)


async def a_member_that_is_heard_of_again_in_time_stays(world: GroupWorld) -> None:
    await world.start()
    told = await world.join("a")
    call = world.waiting("a", told)
    await settle()
    await cancel(call)
    await world.clock.sleep(GRACE_S / 2)
    again = world.waiting("a", told)
    await world.clock.sleep(2 * GRACE_S)
    assert world.members() == ["a"]
    assert not again.done()


def test_a_call_that_was_replaced_may_break_off() -> None:
    """As a client does it: it calls again, and lets go of the older call."""
    simulate(a_call_that_was_replaced_may_break_off)


async def a_call_that_was_replaced_may_break_off(world: GroupWorld) -> None:
    await world.start()
    told = await world.join("a")
    older = world.waiting("a", told)
    await settle()
    newer = world.waiting("a", told)
    await asyncio.sleep(0)
    await cancel(older)
    await world.clock.sleep(2 * GRACE_S)
    assert world.members() == ["a"]
    assert not newer.done()


# -- copies that come late


def numbered(request: GroupHeartbeatRequest, number: int) -> GroupHeartbeatRequest:
    request.call_number = number
    return request


def test_a_copy_that_comes_late_does_not_take_the_place_of_the_call_that_waits() -> None:
    simulate(a_copy_that_comes_late_does_not_take_the_place_of_the_call_that_waits)


async def a_copy_that_comes_late_does_not_take_the_place_of_the_call_that_waits(world: GroupWorld) -> None:
    """It would be answered at once, its client would pause, and the copy's end look like its death."""
    await world.start()
    told = await world.ask("GroupHeartbeat", numbered(join("a"), 1))
    live = world.asking("GroupHeartbeat", numbered(beat("a", told, max_wait_ms=60_000), 3))
    await settle()
    for number in (0, 1, 2, 3):
        copy = world.asking("GroupHeartbeat", numbered(beat("a", told, max_wait_ms=60_000), number))
        await settle()
        with suppress(HeartbeatOvertaken):
            await cancel(copy)
        assert not live.done()
    await world.clock.sleep(2 * GRACE_S)
    assert world.members() == ["a"]
    assert not live.done()
    await cancel(live)
    await world.clock.sleep(2 * GRACE_S)
    assert world.members() == []


def test_a_copy_that_comes_late_is_no_sign_of_life() -> None:
    simulate(a_copy_that_comes_late_is_no_sign_of_life)


async def a_copy_that_comes_late_is_no_sign_of_life(world: GroupWorld) -> None:
    await world.start()
    told = await world.ask("GroupHeartbeat", numbered(join("a"), 1))
    await world.ask("GroupHeartbeat", numbered(beat("a", told), 2))
    await world.clock.sleep(SESSION_S - 1)
    for request in (join("a"), beat("a", told)):
        late = await refusal(world.ask("GroupHeartbeat", numbered(request, 1)))
        assert isinstance(late, HeartbeatOvertaken)
    assert world.members() == ["a"]
    await world.clock.sleep(1.1)
    assert world.members() == []


def test_a_new_coordinator_has_heard_no_call_and_goes_by_what_is_written_down() -> None:
    simulate(a_new_coordinator_has_heard_no_call_and_goes_by_what_is_written_down)


async def a_new_coordinator_has_heard_no_call_and_goes_by_what_is_written_down(world: GroupWorld) -> None:
    await world.start()
    told = await world.ask("GroupHeartbeat", numbered(join("a"), 5))
    await world.ask("GroupHeartbeat", numbered(beat("a", told), 9))
    world.lead(SECOND)
    await settle()
    world.lead(SELF)
    await settle()
    late = await refusal(world.ask("GroupHeartbeat", numbered(join("a", topics=["u"]), 4)))
    assert isinstance(late, HeartbeatOvertaken)
    await world.ask("GroupHeartbeat", numbered(beat("a", told), 8))
    late = await refusal(world.ask("GroupHeartbeat", numbered(beat("a", told), 8)))
    assert isinstance(late, HeartbeatOvertaken)
    await world.ask("GroupHeartbeat", numbered(beat("a", told), 10))


# -- who dies, and who comes after him


def test_a_member_that_dies_before_its_join_is_committed_is_removed_too() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start(replicas=(SELF, SECOND))
        joining = world.asking("GroupHeartbeat", join("a"))
        await settle()
        await cancel(joining)
        world.replicate()
        await world.clock.sleep(2 * GRACE_S)
        assert world.members() == []

    simulate(scenario)


def test_a_static_member_has_its_whole_session() -> None:
    simulate(a_static_member_has_its_whole_session)


async def a_static_member_has_its_whole_session(world: GroupWorld) -> None:
    await world.start()
    told = await world.join("a", instance_id="one")
    call = world.waiting("a", told)
    await settle()
    await cancel(call)
    await world.clock.sleep(SESSION_S - 1)
    assert world.members() == ["a"]
    assert await world.waiting("a", told, max_wait_ms=0) == told
    await world.clock.sleep(SESSION_S + 1)
    assert world.members() == []


def test_a_static_member_that_died_has_a_successor_at_once() -> None:
    simulate(a_static_member_that_died_has_a_successor_at_once)


async def a_static_member_that_died_has_a_successor_at_once(world: GroupWorld) -> None:
    await world.start()
    told = await settled(world, "other", "a", instance_id="")
    await world.ask("GroupHeartbeat", beat("a", told["a"], member_epoch=-1))
    static = await world.join("s1", instance_id="one")
    static = (await settled(world, "other"))["other"] and static
    call = world.waiting("s1", static, max_wait_ms=60_000)
    await settle()
    alive = await refusal(world.join("s2", instance_id="one"))
    assert alive.code == "UNRELEASED_INSTANCE_ID", "it is there, as far as can be told"
    if call.done():
        static = call.result()
        call = world.waiting("s1", static)
        await settle()
    await cancel(call)
    successor = await world.join("s2", instance_id="one")
    assert held(successor) == held(static), "nothing has moved"
    assert world.members() == ["other", "s2"]
    assert isinstance(await refusal(world.waiting("s1", static)), UnknownMember)


def test_a_join_that_is_refused_leaves_its_predecessor_alone() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("s1", instance_id="one")
        call = world.waiting("s1", told)
        await settle()
        await cancel(call)
        log_end = world.log_end()
        for wrong in ({"pattern": "("}, {"assignor": "none"}, {"rack": "r" * 256}):
            refused = await refusal(world.join("s2", instance_id="one", **wrong))
            assert isinstance(refused, InvalidRequest), refused
        assert world.log_end() == log_end
        assert not world.shard().groups[GROUP].members["s1"].is_away
        assert await world.waiting("s1", told, max_wait_ms=0) == told

    simulate(scenario)


def test_a_successor_comes_in_one_batch() -> None:
    """Half of it would leave a predecessor away that nobody has succeeded."""

    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("s1", instance_id="one")
        call = world.waiting("s1", told)
        await settle()
        await cancel(call)
        appended: list[list[str]] = []
        shard = world.shard()
        carry_out = shard.carry_out

        def note(records: Sequence[GroupRecord]) -> None:
            appended.append([each.key.member_id for each in records if each.key.member_id])
            carry_out(records)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shard, "carry_out", note)
            assert held(await world.join("s2", instance_id="one")) == held(told)
        assert appended == [["s1", "s2"]]

    simulate(scenario)


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    simulate(a_member_that_does_not_give_up_in_time_is_removed)


async def a_member_that_does_not_give_up_in_time_is_removed(world: GroupWorld) -> None:
    await world.start()
    told = await world.join("a", rebalance_timeout_ms=10_000)
    await world.join("b")
    other = GroupHeartbeatResponse(member_epoch=world.shard().groups[GROUP].members["b"].member_epoch)
    began = world.now
    while "a" in world.members():
        assert world.now < began + 60
        # It calls, and holds on to everything. The other one waits for its share.
        await world.ask("GroupHeartbeat", beat("a", told))
        other = await world.waiting("b", other, max_wait_ms=500)
    assert world.now - began == pytest.approx(10.0, abs=1.0)
    assert held(await world.waiting("b", other)) == {0, 1, 2, 3}
    assert isinstance(await refusal(world.waiting("a", told)), UnknownMember)


def test_a_member_that_gives_up_in_time_is_left_alone() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a", rebalance_timeout_ms=10_000)
        await world.join("b")
        less = await world.ask("GroupHeartbeat", beat("a", told))
        for _ in range(10):
            less = await world.waiting("a", less)
        assert "a" in world.members()

    simulate(scenario)


# -- bounds


def test_a_group_has_so_many_members_and_no_more() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.join("a")
        await world.join("b")
        assert isinstance(await refusal(world.join("c")), GroupFull)
        assert world.members() == ["a", "b"]

    simulate(scenario, members_max=2)


def test_a_broker_coordinates_so_many_groups_and_no_more() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.join("a", group="g1")
        assert await world.commit({world.at(0): 1}, group="g2") == [""]
        assert isinstance(await refusal(world.join("a", group="g3")), GroupFull)
        assert isinstance(await refusal(world.commit({world.at(0): 1}, group="g4")), GroupFull)
        # Those that are there go on.
        assert await world.commit({world.at(0): 2}, group="g2") == [""]
        await world.join("b", group="g1")

    simulate(scenario, groups_max=2)


def test_what_a_group_takes_in_one_batch_is_bounded() -> None:
    """All that a decision changes is written down at once, or nothing of it."""

    async def scenario(world: GroupWorld) -> None:
        await world.create_topic("t", partitions=4)
        await world.create_topic("__consumer_offsets", partitions=1, max_message_bytes="2000")
        world.run()
        world.tell_all()
        await settle()
        await world.join("a")
        names = [f"topic-{number}-with-a-long-name" for number in range(100)]
        error = await refusal(world.join("b", topics=names))
        assert isinstance(error, GroupFull)
        assert world.members() == ["a"]
        assert held(await world.join("a")) == {0, 1, 2, 3}

    simulate(scenario)


def test_how_long_a_member_was_silent_is_told() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        await world.join("a")
        await world.clock.sleep(2.5)
        [described] = (await world.ask("DescribeGroups", DescribeGroupsRequest(groups=[GROUP]))).groups
        assert described.members[0].silent_ms == 2_500

    simulate(scenario)


def test_a_member_that_was_fenced_is_not_counted_as_heard() -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.start()
        told = await world.join("a")
        wrong = beat("a", told, member_epoch=told.member_epoch + 7)
        await world.clock.sleep(SESSION_S - 1)
        assert isinstance(await refusal(world.ask("GroupHeartbeat", wrong)), FencedMemberEpoch)
        await world.clock.sleep(2)
        assert world.members() == []

    simulate(scenario)
