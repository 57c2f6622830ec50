"""What a subscription means, by the topics that there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.broker.groups.context import changes_what_is_read
from quorate.broker.groups.topics import check_pattern
from quorate.chaos.models.groups.group_world import World, at
from quorate.core.ids import TopicId
from quorate.errors import InvalidPattern
from quorate.metadata.changes import changes_between


def names(world: World, pattern: str) -> tuple[str, ...]:
    return world.topics.matching(pattern)


def test_a_pattern_is_matched_by_whole_names() -> None:
    world = World(topics={"orders": 1, "orders.eu": 1, "old.orders": 1, "ORDERS": 1})
    assert names(world, "orders") == ("orders",)
    assert names(world, "orders.*") == ("orders", "orders.eu")
    assert names(world, ".*orders") == ("old.orders", "orders")
    assert names(world, "(?i)orders") == ("ORDERS", "orders")
    assert names(world, "nothing") == ()


def test_topics_of_the_system_match_no_pattern_but_can_be_named() -> None:
    world = World(topics={"__consumer_offsets": 2, "orders": 1, "_mine": 1})
    assert names(world, ".*") == ("_mine", "orders")
    assert names(world, "__.*") == ()
    assert world.topics.subscribed(["__consumer_offsets"], "") == ("__consumer_offsets-1",)


def test_a_subscription_is_what_is_named_and_what_matches_as_far_as_it_exists() -> None:
    world = World(topics={"a": 1, "b": 1, "c": 1})
    assert world.topics.subscribed(["c", "later"], "[ab]") == ("a-1", "b-1", "c-1")
    assert world.topics.subscribed(["a", "a"], "a") == ("a-1",)
    assert world.topics.subscribed([], "") == ()


def test_a_catalog_remembers_so_many_answers_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.broker.groups.topics._ANSWERS_KEPT_MAX", 10)
    topics = World(topics={"orders": 1}).topics
    for number in range(100):
        assert topics.subscribed([f"topic-{number}"], f"orders|{number}") == ("orders-1",)
    assert (len(topics._subscribed), len(topics._matching)) == (10, 10)
    assert topics.subscribed(["topic-1"], "orders|1") == ("orders-1",)


@pytest.mark.parametrize("pattern", ["(", "*", "[z-a]", r"\1", "(?<=a)b", "a{2000}", "((a{100}){100}){100}"])
def test_what_re2_does_not_take_is_refused_with_its_reason(pattern: str) -> None:
    with pytest.raises(InvalidPattern) as caught:
        check_pattern(pattern)
    assert caught.value.message.startswith(f"pattern {pattern!r}: ")
    assert ": b'" not in caught.value.message
    assert len(caught.value.message) > len(pattern) + 13


def test_a_pattern_that_would_keep_another_engine_busy_for_ever_is_nothing_special() -> None:
    world = World(topics={"a" * 200 + "b": 1})
    assert names(world, "(a+)+") == ()
    assert names(world, "(a|aa)+b") == ("a" * 200 + "b",)
    assert names(world, "(a*)*(a*)*(a*)*c") == ()


def test_partitions_exist_within_their_topic() -> None:
    world = World(topics={"orders": 2})
    topics = world.topics
    assert all(topics.has(each) for each in at("orders", 0, 1))
    assert not any(topics.has(each) for each in at("orders", -1, 2) | at("other", 0))
    assert topics.partition_count(TopicId("orders-1")) == 2
    assert topics.partition_count(TopicId("orders-2")) == 0
    assert topics.name_of(TopicId("orders-1")) == "orders"
    assert topics.name_of(TopicId("orders-2")) is None
    assert topics.names_of(at("orders", 0, 1) | at("other", 1)) == {"orders-1": "orders"}


def test_racks_are_those_of_replicas_whose_broker_has_one() -> None:
    world = World()
    world.add_broker(1, "east")
    world.add_broker(2, "")
    world.add_broker(3, "west")
    world.create_topic("orders", 2, replicas=(1, 2, 3, 4))
    assert world.topics.racks(TopicId("orders-1")) == (frozenset({"east", "west"}),) * 2


def test_groups_read_something_else_when_topics_or_partitions_come_or_go_and_not_otherwise() -> None:
    world = World(topics={"orders": 2})

    def is_other(change: Callable[[], object]) -> bool:
        before = world.image
        change()
        return changes_what_is_read(changes_between(before, world.image))

    assert not is_other(lambda: None)
    assert not is_other(lambda: world.add_broker(1, "east"))
    assert is_other(lambda: world.grow_topic("orders", 3))
    assert not is_other(lambda: world.grow_topic("orders", 3)), "other replicas, as many partitions"
    assert is_other(lambda: world.delete_topic("orders"))
    assert is_other(lambda: world.create_topic("orders", 3))

    def recreate() -> None:
        world.delete_topic("orders")
        world.create_topic("orders", 3)

    assert is_other(recreate), "it is another topic of that name"
