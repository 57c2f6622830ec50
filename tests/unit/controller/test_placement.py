"""Placement: no two replicas together, racks apart, everything even (see quorate.controller.placement)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.controller.placement import BrokerLoads, place_replicas
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.metadata.image import BrokerImage


def broker(broker_id: int, rack: str = "") -> BrokerImage:
    return BrokerImage(
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(1),
        incarnation_id="i",
        directory_id="d",
        address="h:1",
        rack=rack,
        feature_level_min=1,
        feature_level_max=1,
        is_fenced=False,
        is_shutting_down=False,
        is_draining=False,
    )


def brokers_in_racks(*sizes: int) -> list[BrokerImage]:
    racks = [f"rack-{number}" for number, size in enumerate(sizes) for _ in range(size)]
    return [broker(broker_id, rack) for broker_id, rack in enumerate(racks)]


def place(
    brokers: Sequence[BrokerImage],
    partitions: int,
    replication_factor: int,
    *,
    topic: BrokerLoads | None = None,
    total: BrokerLoads | None = None,
    seed: int = 1,
) -> list[tuple[BrokerId, ...]]:
    return place_replicas(
        brokers,
        partition_count=partitions,
        replication_factor=replication_factor,
        topic=topic or BrokerLoads(),
        total=total or topic or BrokerLoads(),
        rng=random.Random(seed),
    )


def spread(brokers: Sequence[BrokerImage], counted: Iterable[BrokerId]) -> int:
    counts = Counter(counted)
    each = [counts[broker.broker_id] for broker in brokers]
    return max(each) - min(each)


def all_replicas(placed: Iterable[Sequence[BrokerId]]) -> list[BrokerId]:
    return [broker_id for replicas in placed for broker_id in replicas]


def leaders(placed: Iterable[Sequence[BrokerId]]) -> list[BrokerId]:
    return [replicas[0] for replicas in placed]


def check_apart(brokers: Sequence[BrokerImage], placed: Iterable[Sequence[BrokerId]]) -> None:
    rack_of = {each.broker_id: each.rack or str(each.broker_id) for each in brokers}
    sizes = Counter(rack_of.values())
    for replicas in placed:
        assert len(set(replicas)) == len(replicas)
        in_racks = Counter(rack_of[broker_id] for broker_id in replicas)
        # A rack gets another replica only when every rack that has room got as many.
        for rack, count in in_racks.items():
            for other, size in sizes.items():
                assert count <= in_racks[other] + 1 or in_racks[other] == size, (rack, other, replicas)


@pytest.mark.parametrize("replication_factor", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("racks", "brokers_per_rack"),
    [(1, 3), (1, 7), (2, 2), (3, 1), (3, 2), (3, 4), (3, 30), (4, 5), (5, 3), (6, 15), (10, 1), (10, 9)],
)
def test_replicas_and_leaders_of_a_topic_are_within_one_of_even_where_racks_are_balanced(
    racks: int, brokers_per_rack: int, replication_factor: int
) -> None:
    brokers = brokers_in_racks(*[brokers_per_rack] * racks)
    for partitions in (1, 2, 7, 31, 90, 1000 if replication_factor == 3 else 200):
        placed = place(brokers, partitions, min(replication_factor, len(brokers)), seed=partitions)
        check_apart(brokers, placed)
        assert spread(brokers, all_replicas(placed)) <= 1
        assert spread(brokers, leaders(placed)) <= 1


@settings(max_examples=40, deadline=None)
@given(
    rack_sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    rackless=st.integers(0, 4),
    replication_factor=st.integers(1, 5),
    partitions=st.integers(1, 60),
    seed=st.integers(0, 1000),
)
def test_replicas_are_apart_in_racks_of_any_size(
    rack_sizes: list[int], rackless: int, replication_factor: int, partitions: int, seed: int
) -> None:
    brokers = brokers_in_racks(*rack_sizes)
    brokers += [broker(100 + number) for number in range(rackless)]
    placed = place(brokers, partitions, min(replication_factor, len(brokers)), seed=seed)
    assert len(placed) == partitions
    check_apart(brokers, placed)


def test_larger_rack_gets_more_so_that_its_brokers_get_the_same() -> None:
    brokers = brokers_in_racks(2, 4, 5)
    placed = place(brokers, 220, 2)
    check_apart(brokers, placed)
    assert spread(brokers, all_replicas(placed)) <= 2
    assert spread(brokers, leaders(placed)) <= 1


@pytest.mark.parametrize(
    ("racks", "brokers_per_rack", "partitions"), [(3, 1, 1), (3, 4, 1), (3, 3, 5), (10, 9, 1), (10, 9, 4)]
)
def test_many_small_topics_together_are_even_at_every_moment(
    racks: int, brokers_per_rack: int, partitions: int
) -> None:
    brokers = brokers_in_racks(*[brokers_per_rack] * racks)
    total = BrokerLoads()
    for topic in range(200):
        placed = place(brokers, partitions, 3, topic=BrokerLoads(), total=total, seed=topic)
        total.replicas.update(all_replicas(placed))
        total.leaders.update(leaders(placed))
        assert spread(brokers, total.replicas.elements()) <= 1
        # Who leads can only be chosen among the few replicas of the topic itself.
        assert spread(brokers, total.leaders.elements()) <= 4


def test_broker_that_has_just_joined_gets_its_share_of_a_topic_and_not_all_of_it() -> None:
    brokers = brokers_in_racks(1, 1, 1, 1)
    full = {BrokerId(number): 500 for number in range(3)}
    placed = place(brokers, 40, 3, topic=BrokerLoads(), total=BrokerLoads(Counter(full), Counter(full)))
    assert spread(brokers, all_replicas(placed)) <= 1
    assert spread(brokers, leaders(placed)) <= 1


def test_what_cannot_be_shared_evenly_goes_to_those_that_have_less() -> None:
    brokers = brokers_in_racks(1, 1, 1, 1)
    held = Counter({BrokerId(0): 9, BrokerId(1): 9, BrokerId(2): 3, BrokerId(3): 9})
    placed = place(brokers, 1, 1, topic=BrokerLoads(), total=BrokerLoads(held, Counter()))
    assert placed == [(BrokerId(2),)]


def test_partitions_that_the_topic_has_already_count() -> None:
    brokers = brokers_in_racks(1, 1, 1)
    had = Counter({BrokerId(0): 4, BrokerId(1): 4})
    placed = place(brokers, 4, 1, topic=BrokerLoads(had, had.copy()))
    assert leaders(placed) == [BrokerId(2)] * 4


def test_partitions_of_one_broker_are_taken_over_by_many() -> None:
    brokers = brokers_in_racks(*[3] * 10)
    placed = place(brokers, 300, 3)
    heirs = {replicas[1] for replicas in placed if replicas[0] == 0}
    assert len(heirs) >= 5


def test_same_seed_places_the_same() -> None:
    brokers = brokers_in_racks(3, 3, 3)
    assert place(brokers, 50, 3, seed=7) == place(list(reversed(brokers)), 50, 3, seed=7)
    assert place(brokers, 50, 3, seed=7) != place(brokers, 50, 3, seed=8)
