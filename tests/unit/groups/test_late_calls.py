"""Calls of members that arrive late: what was said after them stands, and whoever has gone stays away."""

from __future__ import annotations

import pytest

from quorate.chaos.models.groups.group_world import GROUP, World, at, contents, replayed
from quorate.errors import HeartbeatOvertaken, InvalidUpdateVersion, UnknownMember, UnreleasedInstance


@pytest.fixture
def world() -> World:
    return World(topics={"orders": 4, "more": 2})


def topics_of(world: World, name: str = "a") -> list[str]:
    return list(world.group.members[name].subscription.topics)


def fail_over(world: World) -> None:
    """Nothing is known any more but what is in the log."""
    groups = replayed(world.log)
    assert contents(groups) == contents(world.groups)
    world.groups = groups


# -- a member's own calls


def test_a_late_join_does_not_put_an_old_subscription_back(world: World) -> None:
    epoch = world.heartbeat("a", topics=["orders"], call_number=1).member_epoch
    world.heartbeat("a", epoch, owned=at("orders", 0, 1, 2, 3), topics=["orders", "more"], call_number=2)
    fail_over(world)
    with pytest.raises(HeartbeatOvertaken):
        world.heartbeat("a", topics=["orders"], call_number=1)
    assert topics_of(world) == ["more", "orders"]


def test_a_late_call_that_stays_does_not_either(world: World) -> None:
    epoch = world.heartbeat("a", topics=["orders"], call_number=1).member_epoch
    owned = at("orders", 0, 1, 2, 3)
    world.heartbeat("a", epoch, owned=owned, topics=["more"], call_number=3)
    with pytest.raises(HeartbeatOvertaken):
        world.heartbeat("a", epoch, owned=owned, topics=["orders", "more"], call_number=2)
    assert topics_of(world) == ["more"]


def test_a_wish_that_was_taken_back_does_not_come_back(world: World) -> None:
    """What was wanted in between was never heard of, and what is wanted now was written down before."""
    epoch = world.heartbeat("a", topics=["orders"], call_number=1).member_epoch
    owned = at("orders", 0, 1, 2, 3)
    world.heartbeat("a", epoch, owned=owned, topics=["orders"], call_number=3)
    fail_over(world)
    with pytest.raises(HeartbeatOvertaken):
        world.heartbeat("a", epoch, owned=owned, topics=["more"], call_number=2)
    assert topics_of(world) == ["orders"]


def test_a_call_that_is_made_again_is_answered_again(world: World) -> None:
    first = world.heartbeat("a", topics=["orders"], call_number=1)
    assert world.heartbeat("a", topics=["orders"], call_number=1) == first
    assert world.heartbeat("a", topics=["orders"], call_number=2) == first


def test_calls_that_say_nothing_new_write_nothing(world: World) -> None:
    epoch = world.heartbeat("a", topics=["orders"], call_number=1).member_epoch
    written = len(world.log)
    for number in (2, 3, 4):
        world.heartbeat("a", epoch, owned=at("orders", 0, 1, 2, 3), call_number=number)
    assert len(world.log) == written


def test_a_join_of_before_does_not_say_that_a_static_member_is_back(world: World) -> None:
    world.heartbeat("a", topics=["orders"], instance_id="I", call_number=1)
    world.heartbeat("a", -2, call_number=7)
    fail_over(world)
    with pytest.raises(HeartbeatOvertaken):
        world.heartbeat("a", topics=["orders"], instance_id="I", call_number=1)
    assert world.group.members["a"].is_away
    world.heartbeat("a", topics=["orders"], instance_id="I", call_number=8)
    assert not world.group.members["a"].is_away


def test_a_copy_of_its_leaving_for_a_moment_does_not_send_it_away_again(world: World) -> None:
    world.heartbeat("a", topics=["orders"], instance_id="I", call_number=1)
    world.heartbeat("a", -2, call_number=2)
    world.heartbeat("a", topics=["orders"], instance_id="I", call_number=3)
    with pytest.raises(HeartbeatOvertaken):
        world.heartbeat("a", -2, call_number=2)
    assert not world.group.members["a"].is_away


def test_a_call_without_a_number_is_none_of_a_member_that_numbers_them(world: World) -> None:
    world.heartbeat("a", topics=["orders"], call_number=1)
    with pytest.raises(HeartbeatOvertaken):
        world.heartbeat("a", topics=["more"])


def test_without_numbers_the_last_call_that_arrives_counts(world: World) -> None:
    """As a client may be that has never heard of them."""
    world.heartbeat("a", topics=["orders"])
    world.heartbeat("a", topics=["more"])
    assert topics_of(world) == ["more"]


# -- joins of those who have gone


def test_a_late_join_does_not_bring_back_who_has_gone(world: World) -> None:
    world.heartbeat("a", topics=["orders"], call_number=1, departure_epoch=0)
    world.heartbeat("b", topics=["orders"], call_number=1, departure_epoch=0)
    world.remove("a")
    fail_over(world)
    with pytest.raises(InvalidUpdateVersion):
        world.heartbeat("a", topics=["orders"], call_number=1, departure_epoch=0)
    assert list(world.group.members) == ["b"]


def test_nor_into_a_group_that_is_empty(world: World) -> None:
    """Commits and resets by hand would be refused, until its session is over."""
    world.heartbeat("a", topics=["orders"], departure_epoch=0)
    world.heartbeat("a", -1)
    with pytest.raises(InvalidUpdateVersion):
        world.heartbeat("a", topics=["orders"], departure_epoch=0)
    assert not world.group.members


def test_the_refusal_says_what_to_name(world: World) -> None:
    world.heartbeat("a", topics=["orders"])
    world.heartbeat("a", -1)
    with pytest.raises(InvalidUpdateVersion) as refused:
        world.heartbeat("b", topics=["orders"], departure_epoch=0)
    named = refused.value.facts["departure_epoch"]
    assert named == world.group.departure_epoch > 0
    assert isinstance(named, int)
    world.heartbeat("b", topics=["orders"], departure_epoch=named)
    assert list(world.group.members) == ["b"]


def test_who_joins_beside_others_need_not_look_again(world: World) -> None:
    for name in ("a", "b", "c"):
        world.heartbeat(name, topics=["orders"], departure_epoch=0)
    assert len(world.group.members) == 3


def test_a_join_that_was_heard_is_not_asked_again_what_it_is_based_on(world: World) -> None:
    """Its answer was lost, and somebody has gone meanwhile."""
    world.heartbeat("a", topics=["orders"], call_number=1, departure_epoch=0)
    world.heartbeat("b", topics=["orders"], call_number=1, departure_epoch=0)
    world.remove("b")
    world.heartbeat("a", topics=["orders"], call_number=2, departure_epoch=0)
    assert list(world.group.members) == ["a"]


def test_a_dead_process_does_not_get_its_instance_back_from_one_that_is_away(world: World) -> None:
    """The next process would be refused for a session, and nobody would read."""
    world.heartbeat("M1", topics=["orders"], instance_id="I", departure_epoch=0)
    world.heartbeat("M1", -2)
    departure = world.group.departure_epoch
    world.heartbeat("M2", topics=["orders"], instance_id="I", departure_epoch=departure)
    world.heartbeat("M2", -2)
    with pytest.raises(InvalidUpdateVersion):
        world.heartbeat("M1", topics=["orders"], instance_id="I", departure_epoch=0)
    departure = world.group.departure_epoch
    world.heartbeat("M3", topics=["orders"], instance_id="I", departure_epoch=departure)
    assert list(world.group.members) == ["M3"]


def test_nor_from_one_whose_call_has_broken_off_for_a_moment(world: World) -> None:
    world.heartbeat("M1", topics=["orders"], instance_id="I", departure_epoch=0)
    world.heartbeat("M1", -2)
    epoch = world.heartbeat("M2", topics=["orders"], instance_id="I", departure_epoch=0).member_epoch
    world.dead.add("M2")
    with pytest.raises(InvalidUpdateVersion):
        world.heartbeat("M1", topics=["orders"], instance_id="I", departure_epoch=0)
    world.dead.clear()
    world.heartbeat("M2", epoch, owned=at("orders", 0, 1, 2, 3))


def test_two_processes_of_one_name_are_told_apart_as_before(world: World) -> None:
    world.heartbeat("M1", topics=["orders"], instance_id="I", departure_epoch=0)
    with pytest.raises(UnreleasedInstance):
        world.heartbeat("M2", topics=["orders"], instance_id="I", departure_epoch=0)


def test_without_a_departure_named_nothing_is_asked(world: World) -> None:
    """As a client may be that has never heard of it."""
    world.heartbeat("a", topics=["orders"])
    world.heartbeat("a", -1)
    with pytest.raises(UnknownMember):
        world.heartbeat("a", world.group.group_epoch)
    world.heartbeat("a", topics=["orders"])
    assert list(world.groups[GROUP].members) == ["a"]
