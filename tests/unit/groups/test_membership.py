"""Who comes, stays and goes, and what each is told."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from quorate.broker.groups.membership import has_news
from quorate.broker.groups.records import TopicIdPartition, topic_partitions
from quorate.chaos.models.groups.group_world import GROUP, World, assigned, at, group_contents
from quorate.core.ids import PartitionId, TopicId
from quorate.errors import (
    FencedMemberEpoch,
    GroupFull,
    InvalidPattern,
    InvalidRequest,
    InvalidTopic,
    UnknownMember,
    UnreleasedInstance,
)
from quorate.v1.group_pb2 import (
    GROUP_STATE_EMPTY,
    GROUP_STATE_RECONCILING,
    GROUP_STATE_STABLE,
    GroupHeartbeatRequest,
)


@pytest.fixture
def world() -> World:
    return World(topics={"orders": 4})


def pair(world: World) -> tuple[int, int]:
    """``a`` and ``b`` have settled, with two partitions each; their epochs."""
    world.heartbeat("a", topics=["orders"])
    world.heartbeat("b", topics=["orders"])
    world.settle("a", "b")
    members = world.group.members
    assert members["a"].assigned.keys() == at("orders", 0, 1)
    assert members["b"].assigned.keys() == at("orders", 2, 3)
    return members["a"].member_epoch, members["b"].member_epoch


def waiting(name: str, member_epoch: int, owned: Iterable[TopicIdPartition]) -> GroupHeartbeatRequest:
    return GroupHeartbeatRequest(
        group=GROUP, member_id=name, member_epoch=member_epoch, owned=topic_partitions(owned)
    )


# -- joining


def test_the_first_member_gets_everything_at_once(world: World) -> None:
    answer = world.heartbeat("a", topics=["orders"])
    assert assigned(answer) == at("orders", 0, 1, 2, 3)
    assert answer.member_epoch == 1
    assert [each.topic for each in answer.assignment] == ["orders"]
    assert answer.heartbeat_interval_ms == world.settings.heartbeat_interval_ms
    assert answer.session_timeout_ms == world.settings.session_timeout_ms
    assert world.group.state == GROUP_STATE_STABLE


def test_a_second_member_waits_until_the_first_has_given_something_up(world: World) -> None:
    first = world.heartbeat("a", topics=["orders"])
    second = world.heartbeat("b", topics=["orders"])
    assert assigned(second) == frozenset()
    assert world.group.state == GROUP_STATE_RECONCILING
    told = world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1, 2, 3))
    assert (told.member_epoch, assigned(told)) == (first.member_epoch, at("orders", 0, 1))
    world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1, 3))
    assert world.group.members["b"].assigned.keys() == at("orders", 2), "each is handed over by itself"
    world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1))
    told = world.heartbeat("b", second.member_epoch)
    assert assigned(told) == at("orders", 2, 3)
    assert world.group.state == GROUP_STATE_STABLE


def test_only_partitions_that_move_are_touched(world: World) -> None:
    epoch, _ = pair(world)
    world.heartbeat("c", topics=["orders"])
    a = world.group.members["a"]
    b = world.group.members["b"]
    assert len(a.revoking) + len(b.revoking) == 1
    told = world.heartbeat("a", epoch, owned=at("orders", 0, 1))
    assert told.member_epoch == epoch, "who loses something, or keeps everything, stays in its epoch"


def test_whoever_keeps_its_partitions_learns_nothing_of_a_change(world: World) -> None:
    epochs = pair(world)
    before = dict(world.group.members)
    world.heartbeat("c", topics=["orders"])
    kept = [name for name in ("a", "b") if world.group.members[name] == before[name]]
    assert len(kept) == 1
    name = kept[0]
    member = world.group.members[name]
    assert not has_news(world.groups, waiting(name, epochs["ab".index(name)], member.assigned))


def test_more_members_than_partitions_leaves_the_surplus_idle() -> None:
    world = World(topics={"orders": 2})
    for name in "abc":
        world.heartbeat(name, topics=["orders"])
    world.settle("a", "b", "c")
    assert sorted(len(member.assigned) for member in world.group.members.values()) == [0, 1, 1]
    assert world.group.state == GROUP_STATE_STABLE


def test_a_join_without_a_subscription_or_with_partitions_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest):
        world.heartbeat("a")
    with pytest.raises(InvalidRequest):
        world.heartbeat("a", topics=["orders"], owned=at("orders", 0))
    assert GROUP not in world.groups


def test_a_group_that_is_full_takes_nobody() -> None:
    world = World(topics={"orders": 4}, members_max=2)
    pair(world)
    with pytest.raises(GroupFull) as caught:
        world.heartbeat("c", topics=["orders"])
    assert caught.value.facts == {"members_max": 2}
    world.heartbeat("a", -1)
    world.heartbeat("c", topics=["orders"])


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"pattern": "order("}, InvalidPattern),
        ({"pattern": "(?=x)"}, InvalidPattern),
        ({"pattern": "x" * 1001}, InvalidPattern),
        ({"topics": ["no topic"]}, InvalidTopic),
        ({"topics": ["x"] * 1001}, InvalidRequest),
        ({"assignor": "sticky"}, InvalidRequest),
        ({"instance_id": "x" * 256}, InvalidRequest),
        ({"rack": "x" * 256}, InvalidRequest),
        ({"client_id": "x" * 256}, InvalidRequest),
        ({"host": "x" * 256}, InvalidRequest),
        ({"rebalance_timeout_ms": -1}, InvalidRequest),
    ],
)
def test_a_wish_that_nobody_can_have_is_refused(
    world: World, wish: dict[str, object], error: type[InvalidRequest]
) -> None:
    with pytest.raises(error):
        world.heartbeat("a", **wish)  # type: ignore[arg-type]
    assert GROUP not in world.groups


@pytest.mark.parametrize(
    "request_",
    [
        GroupHeartbeatRequest(group="", member_id="a"),
        GroupHeartbeatRequest(group="g" * 256, member_id="a"),
        GroupHeartbeatRequest(group="g", member_id=""),
        GroupHeartbeatRequest(group="g", member_id="m" * 256),
        GroupHeartbeatRequest(group="g", member_id="m", member_epoch=-3),
    ],
)
def test_names_and_epochs_that_cannot_be_are_refused(world: World, request_: GroupHeartbeatRequest) -> None:
    with pytest.raises(InvalidRequest):
        world.decide(request_)


# -- lost answers, late calls


def test_a_join_whose_answer_was_lost_is_answered_again(world: World) -> None:
    first = world.heartbeat("a", topics=["orders"])
    before = group_contents(world.group)
    assert world.heartbeat("a", topics=["orders"]) == first
    assert group_contents(world.group) == before


def test_a_join_that_comes_late_takes_nothing_from_its_member(world: World) -> None:
    epoch, _ = pair(world)
    world.heartbeat("c", topics=["orders"])
    before = group_contents(world.group)
    world.heartbeat("a", topics=["orders"])
    assert group_contents(world.group) == before
    world.heartbeat("a", epoch, owned=at("orders", 0, 1))


def test_a_member_that_missed_an_answer_is_told_again(world: World) -> None:
    first = world.heartbeat("a", topics=["orders"])
    second = world.heartbeat("b", topics=["orders"])
    world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1))
    lost = world.heartbeat("b", second.member_epoch)
    assert lost.member_epoch > second.member_epoch
    assert world.heartbeat("b", second.member_epoch) == lost


def test_a_member_may_miss_several_changes(world: World) -> None:
    """It is given partitions while it says nothing, one after the other."""
    first = world.heartbeat("a", topics=["orders"])
    second = world.heartbeat("b", topics=["orders"])
    world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1, 3))
    world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1))
    told = world.heartbeat("b", second.member_epoch)
    assert told.member_epoch == second.member_epoch + 2
    assert assigned(told) == at("orders", 2, 3)


def test_what_is_said_in_an_earlier_epoch_gives_nothing_up(world: World) -> None:
    """The answer that gave it may still arrive, and then it is read."""
    first = world.heartbeat("a", topics=["orders"])
    second = world.heartbeat("b", topics=["orders"])
    world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1))
    given = world.heartbeat("b", second.member_epoch)
    world.create_topic("more", 1)
    world.heartbeat("b", second.member_epoch, topics=["more"])
    assert world.group.members["b"].revoking.keys() == at("orders", 2, 3)
    world.heartbeat("b", given.member_epoch, owned=at("orders", 2))
    assert world.group.members["b"].revoking.keys() == at("orders", 2), "in its own epoch it counts"


def test_a_member_that_gives_up_and_is_to_have_it_again_gets_it_in_a_new_epoch(world: World) -> None:
    first = world.heartbeat("a", topics=["orders"])
    world.heartbeat("b", topics=["orders"])
    world.heartbeat("b", -1)
    a = world.group.members["a"]
    assert a.target == at("orders", 0, 1, 2, 3)
    assert a.revoking.keys() == at("orders", 2, 3), "it was told to give them up, and may be about to"
    told = world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1))
    assert assigned(told) == at("orders", 0, 1, 2, 3)
    assert told.member_epoch > first.member_epoch
    a = world.group.members["a"]
    assert {a.assigned[each] for each in at("orders", 2, 3)} == {told.member_epoch}
    assert {a.assigned[each] for each in at("orders", 0, 1)} == {first.member_epoch}


# -- who is refused


def test_who_is_not_a_member_is_unknown(world: World) -> None:
    for epoch in (1, -1, -2):
        with pytest.raises(UnknownMember):
            world.heartbeat("a", epoch)
    pair(world)
    for epoch in (1, -1, -2):
        with pytest.raises(UnknownMember) as caught:
            world.heartbeat("z", epoch)
        assert caught.value.facts == {"member_id": "z"}


def test_an_epoch_that_the_member_never_had_is_fenced(world: World) -> None:
    a_epoch, b_epoch = pair(world)
    for name, epoch in (("a", a_epoch + 1), ("b", b_epoch + 1)):
        with pytest.raises(FencedMemberEpoch) as caught:
            world.heartbeat(name, epoch)
        assert caught.value.facts["request_member_epoch"] == epoch


def test_an_epoch_before_the_last_that_was_heard_is_fenced(world: World) -> None:
    _, b_epoch = pair(world)
    world.heartbeat("b", b_epoch, owned=at("orders", 2, 3), topics=["orders"], client_id="me")
    with pytest.raises(FencedMemberEpoch):
        world.heartbeat("b", b_epoch - 1)


def test_who_holds_what_it_must_not_hold_is_fenced(world: World) -> None:
    epoch, _ = pair(world)
    for surplus in (at("orders", 2), at("nothing", 0), at("orders", 7)):
        with pytest.raises(FencedMemberEpoch):
            world.heartbeat("a", epoch, owned=at("orders", 0) | surplus)


def test_what_has_been_given_up_must_not_be_held_again(world: World) -> None:
    first = world.heartbeat("a", topics=["orders"])
    world.heartbeat("b", topics=["orders"])
    world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1))
    with pytest.raises(FencedMemberEpoch):
        world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1, 2))


# -- leaving


def test_who_leaves_leaves_its_partitions_at_once(world: World) -> None:
    pair(world)
    assert world.heartbeat("a", -1).member_epoch == -1
    assert world.group.members["b"].assigned.keys() == at("orders", 0, 1, 2, 3)


def test_who_is_removed_leaves_its_partitions_at_once(world: World) -> None:
    pair(world)
    world.remove("b")
    assert world.group.members["a"].assigned.keys() == at("orders", 0, 1, 2, 3)
    world.remove("b")
    world.remove("nobody")


def test_a_group_remembers_when_it_became_empty(world: World) -> None:
    pair(world)
    epoch = world.group.group_epoch
    world.heartbeat("a", -1)
    assert world.group.empty_since_ms == 0
    world.now_ms += 5
    world.heartbeat("b", -1)
    assert world.group.state == GROUP_STATE_EMPTY
    assert world.group.empty_since_ms == world.now_ms
    assert world.group.assignment_epoch == world.group.group_epoch > epoch
    world.heartbeat("c", topics=["orders"])
    assert world.group.empty_since_ms == 0
    assert world.group.members["c"].member_epoch > epoch, (
        "epochs go on, so that commits of before are too old"
    )


# -- subscriptions


def test_a_change_of_subscription_moves_what_it_concerns(world: World) -> None:
    a_epoch, _ = pair(world)
    world.create_topic("more", 2)
    told = world.heartbeat("a", a_epoch, owned=at("orders", 0, 1), topics=["orders", "more"])
    assert assigned(told) == at("orders", 0), "three each: it has to give one up before it gets two"
    world.settle("a", "b")
    assert world.group.state == GROUP_STATE_STABLE
    held = {partition for member in world.group.members.values() for partition in member.assigned}
    assert held == at("orders", 0, 1, 2, 3) | at("more", 0, 1)
    assert all(len(member.assigned) == 3 for member in world.group.members.values())


def test_what_people_see_can_change_without_a_new_assignment(world: World) -> None:
    epoch, _ = pair(world)
    before = world.group.group_epoch
    world.heartbeat("a", epoch, owned=at("orders", 0, 1), topics=["orders"], client_id="me")
    assert world.group.group_epoch == before
    assert world.group.members["a"].subscription.client_id == "me"


def test_the_same_wish_in_another_order_is_no_change(world: World) -> None:
    world.create_topic("more", 2)
    first = world.heartbeat("a", topics=["orders", "more"])
    before = group_contents(world.group)
    owned = assigned(first)
    world.heartbeat("a", first.member_epoch, owned=owned, topics=["more", "orders", "more"])
    assert group_contents(world.group) == before


def test_a_pattern_matches_whole_names_and_no_topics_of_the_system(world: World) -> None:
    for name in ("orders.eu", "my.orders", "__orders"):
        world.create_topic(name, 1)
    told = world.heartbeat("a", pattern="orders.*")
    assert {each.topic for each in told.assignment} == {"orders", "orders.eu"}
    assert {each.topic for each in world.heartbeat("b", pattern=".*", topics=["__orders"]).assignment} <= {
        "orders",
        "orders.eu",
        "my.orders",
        "__orders",
    }


def test_a_group_that_reads_nothing_yet_is_stable() -> None:
    world = World()
    told = world.heartbeat("a", topics=["later"])
    assert assigned(told) == frozenset()
    assert world.group.state == GROUP_STATE_STABLE


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        (["", ""], "uniform"),
        (["", "range"], "range"),
        (["uniform", "range"], "uniform"),
        (["uniform", "range", "range"], "range"),
    ],
)
def test_the_assignor_is_what_most_want(wishes: list[str], expected: str) -> None:
    world = World(topics={"x": 3, "y": 3})
    for number, wish in enumerate(wishes):
        world.heartbeat(f"m{number}", topics=["x", "y"], assignor=wish)
    world.settle(*(f"m{number}" for number in range(len(wishes))))
    by_member = [
        {topic: [number for each, number in sorted(member.target) if each == f"{topic}-1"] for topic in "xy"}
        for member in world.group.members.values()
    ]
    are_rows_whole = all(share["x"] == share["y"] for share in by_member)
    sizes = [len(member.target) for member in world.group.members.values()]
    is_even = max(sizes) - min(sizes) <= 1
    assert (are_rows_whole, is_even) == ((True, len(wishes) == 3) if expected == "range" else (False, True))


def test_partitions_go_where_they_are_near() -> None:
    world = World()
    world.add_broker(1, "east")
    world.add_broker(2, "west")
    world.create_topic("here", 2, replicas=(1,))
    world.create_topic("there", 2, replicas=(2,))
    world.heartbeat("a", topics=["here", "there"], rack="west")
    world.heartbeat("b", topics=["here", "there"], rack="east")
    world.settle("a", "b")
    assert {each.topic_id for each in world.group.members["a"].assigned} == {"there-1"}
    assert {each.topic_id for each in world.group.members["b"].assigned} == {"here-1"}


# -- topics that come, grow and go


def test_a_new_topic_and_new_partitions_are_read_as_soon_as_they_are_there(world: World) -> None:
    world.heartbeat("a", topics=["orders", "more"])
    world.create_topic("more", 2)
    world.grow_topic("orders", 6)
    world.topics_changed()
    expected = at("orders", 0, 1, 2, 3, 4, 5) | at("more", 0, 1)
    assert world.group.members["a"].assigned.keys() == expected


def test_a_topic_that_nobody_reads_changes_nothing(world: World) -> None:
    pair(world)
    world.create_topic("else", 2)
    assert world.topics_changed() == []


def test_a_topic_that_is_made_again_is_another_one(world: World) -> None:
    first = world.heartbeat("a", topics=["orders"])
    world.delete_topic("orders")
    world.create_topic("orders", 1)
    world.topics_changed()
    told = world.heartbeat("a", first.member_epoch, owned=at("orders", 0, 1, 2, 3))
    assert assigned(told) == frozenset()
    told = world.heartbeat("a", first.member_epoch)
    again = TopicIdPartition(TopicId("orders-2"), PartitionId(0))
    assert assigned(told) == {again}


def test_topics_of_groups_that_do_not_exist_change_nothing(world: World) -> None:
    assert world.topics_changed() == []


# -- static members


def static_pair(world: World) -> None:
    world.heartbeat("a", topics=["orders"], instance_id="one")
    world.heartbeat("b", topics=["orders"], instance_id="two")
    world.settle("a", "b")


def test_a_static_member_that_comes_back_finds_what_it_had_and_nothing_moves(world: World) -> None:
    static_pair(world)
    before = world.group.members["a"]
    other = world.group.members["b"]
    assert world.heartbeat("a", -2).member_epoch == -2
    assert world.group.members["b"] == other
    told = world.heartbeat("a2", topics=["orders"], instance_id="one")
    assert assigned(told) == before.assigned.keys()
    after = world.group.members["a2"]
    assert after.assigned == before.assigned, "since the same epochs"
    assert after.member_epoch > before.member_epoch
    assert "a" not in world.group.members
    assert world.group.members["b"] == other


def test_an_instance_id_has_one_owner(world: World) -> None:
    static_pair(world)
    with pytest.raises(UnreleasedInstance) as caught:
        world.heartbeat("a2", topics=["orders"], instance_id="one")
    assert caught.value.facts == {
        "instance_id": "one",
        "member_id": "a",
        "silent_ms": 0,
        "heartbeat_interval_ms": world.settings.heartbeat_interval_ms,
        "session_timeout_ms": world.settings.session_timeout_ms,
    }
    world.remove("a")
    world.heartbeat("a2", topics=["orders"], instance_id="one")


def test_an_instance_that_wants_something_else_now_gets_it(world: World) -> None:
    static_pair(world)
    world.create_topic("more", 1)
    world.heartbeat("a", -2)
    told = world.heartbeat("a2", topics=["more"], instance_id="one")
    epoch = told.member_epoch
    told = world.heartbeat("a2", epoch)
    assert assigned(told) == at("more", 0)
    assert world.group.members["b"].assigned.keys() == at("orders", 0, 1, 2, 3)


def test_a_static_member_that_died_has_a_successor_in_one_decision(world: World) -> None:
    world.heartbeat("a", topics=["orders"], instance_id="one")
    second = world.heartbeat("b", topics=["orders"])
    assert world.group.members["a"].revoking.keys() == at("orders", 2, 3)
    kept = world.group.members["a"].assigned
    world.dead.add("a")
    told = world.heartbeat("a2", topics=["orders"], instance_id="one")
    assert assigned(told) == at("orders", 0, 1)
    assert world.group.members["a2"].assigned == kept, "since the same epochs"
    # What the dead one was to give up, it has.
    assert assigned(world.heartbeat("b", second.member_epoch)) == at("orders", 2, 3)
    assert "a" not in world.group.members


def test_a_successor_gets_back_what_its_predecessor_was_to_give_up(world: World) -> None:
    world.heartbeat("a", topics=["orders"], instance_id="one")
    world.heartbeat("b", topics=["orders"])
    world.heartbeat("b", -1)
    assert world.group.members["a"].revoking.keys() == at("orders", 2, 3), "it has yet to hear of it"
    world.dead.add("a")
    told = world.heartbeat("a2", topics=["orders"], instance_id="one")
    assert assigned(told) == at("orders", 0, 1, 2, 3)


def test_a_join_that_is_refused_leaves_a_predecessor_that_died_alone(world: World) -> None:
    static_pair(world)
    world.dead.add("a")
    before = world.group.members["a"]
    with pytest.raises(InvalidRequest):
        world.heartbeat("a2", topics=["orders"], instance_id="one", assignor="none")
    assert world.group.members["a"] == before


def test_what_an_absent_member_is_to_lose_is_free_at_once(world: World) -> None:
    static_pair(world)
    world.heartbeat("a", -2)
    world.heartbeat("b", -2)
    told = world.heartbeat("c", topics=["orders"])
    assert len(assigned(told)) == 1


def test_who_steps_away_has_given_up_what_it_was_to_give_up(world: World) -> None:
    first = world.heartbeat("a", topics=["orders"], instance_id="one")
    second = world.heartbeat("b", topics=["orders"])
    assert world.group.members["a"].revoking
    world.heartbeat("a", -2)
    told = world.heartbeat("b", second.member_epoch)
    assert assigned(told) == at("orders", 2, 3)
    assert world.group.members["a"].assigned.keys() == at("orders", 0, 1)
    assert first.member_epoch == world.group.members["a"].member_epoch


def test_who_is_away_has_to_join_again_before_it_speaks(world: World) -> None:
    static_pair(world)
    epoch = world.group.members["a"].member_epoch
    world.heartbeat("a", -2)
    with pytest.raises(FencedMemberEpoch):
        world.heartbeat("a", epoch)
    told = world.heartbeat("a", topics=["orders"], instance_id="one")
    assert told.member_epoch == epoch
    assert assigned(told) == at("orders", 0, 1)
    assert not world.group.members["a"].is_away


def test_only_static_members_step_away_and_doing_it_twice_is_no_harm(world: World) -> None:
    pair(world)
    with pytest.raises(InvalidRequest):
        world.heartbeat("a", -2)
    world.heartbeat("s", topics=["orders"], instance_id="one")
    world.heartbeat("s", -2)
    before = group_contents(world.group)
    world.heartbeat("s", -2)
    assert group_contents(world.group) == before


def test_an_instance_id_never_changes(world: World) -> None:
    first = world.heartbeat("a", topics=["orders"], instance_id="one")
    with pytest.raises(InvalidRequest):
        world.heartbeat("a", first.member_epoch, topics=["orders"], instance_id="two")


def test_a_static_member_may_leave_for_good(world: World) -> None:
    static_pair(world)
    world.heartbeat("a", -2)
    world.heartbeat("a", -1)
    assert world.group.members["b"].assigned.keys() == at("orders", 0, 1, 2, 3)


# -- news


def test_a_waiting_call_is_answered_when_what_it_said_is_not_so_any_more(world: World) -> None:
    told = world.heartbeat("a", topics=["orders"])
    everything = at("orders", 0, 1, 2, 3)
    assert not has_news(world.groups, waiting("a", told.member_epoch, everything))
    assert has_news(world.groups, waiting("a", told.member_epoch - 1, everything))
    assert has_news(world.groups, waiting("a", told.member_epoch, ()))
    world.heartbeat("b", topics=["orders"])
    assert has_news(world.groups, waiting("a", told.member_epoch, everything))


def test_who_comes_or_goes_or_is_unknown_is_answered_at_once(world: World) -> None:
    world.heartbeat("a", topics=["orders"])
    for epoch in (0, -1, -2):
        assert has_news(world.groups, waiting("a", epoch, ()))
    assert has_news(world.groups, waiting("b", 1, ()))
    world.heartbeat("a", -1)
    assert has_news(world.groups, waiting("a", 1, ()))
