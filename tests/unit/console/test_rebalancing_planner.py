"""What a plan of `quorate cluster rebalance` keeps, and what it reaches, whatever the cluster looks like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from quorate.console.rebalancing.placement import Broker, Name, Placed, Tally, crowding
from quorate.console.rebalancing.planner import Move, plan

World = tuple[list[Broker], list[Placed]]


@st.composite
def worlds(
    draw: st.DrawFn,
    *,
    racks: Sequence[str] = ("", "a", "b", "c"),
    all_take: bool = False,
    some_fixed: bool = True,
) -> World:
    ids = range(1, draw(st.integers(1, 7)) + 1)
    brokers = [
        Broker(number, draw(st.sampled_from(racks)), takes=all_take or draw(st.integers(0, 4)) > 0)
        for number in ids
    ]
    count = draw(st.integers(0, 24))
    partitions = []
    for number in range(count):
        factor = draw(st.integers(1, min(3, len(brokers))))
        replicas = draw(st.permutations(ids))[:factor]
        size_bytes = draw(st.sampled_from([0, 1, 1_000, 1_000_000]))
        is_fixed = some_fixed and draw(st.integers(0, 4)) == 0
        partitions.append(Placed(Name(f"t{number % 3}", number), tuple(replicas), size_bytes, is_fixed))
    return brokers, partitions


def after(world: World) -> list[Placed]:
    brokers, partitions = world
    changed = {move.after.name: move.after for move in plan(brokers, partitions)}
    return [changed.get(each.name, each) for each in partitions]


def unevenness(brokers: Sequence[Broker], partitions: Sequence[Placed]) -> float:
    """Among those that take: the planner's own measure, made anew."""
    tallies = [Tally.of(brokers, partitions)[each.id] for each in brokers if each.takes]
    replicas, size = sum(each.replicas for each in tallies), sum(each.size_bytes for each in tallies)
    return sum(
        (each.replicas * len(tallies) / replicas if replicas else 0.0) ** 2
        + (each.size_bytes * len(tallies) / size if size else 0.0) ** 2
        for each in tallies
    )


@given(worlds())
def test_every_partition_keeps_its_number_of_replicas_each_on_a_broker_of_its_own(world: World) -> None:
    for before, now in zip(world[1], after(world), strict=True):
        assert len(now.replicas) == len(before.replicas) == len(set(now.replicas))


@given(worlds())
def test_no_replicas_share_a_rack_that_did_not_before(world: World) -> None:
    brokers = {each.id: each for each in world[0]}
    for before, now in zip(world[1], after(world), strict=True):
        assert crowding(now.replicas, brokers) <= crowding(before.replicas, brokers)


@given(worlds())
def test_brokers_that_take_nothing_lose_nothing_either(world: World) -> None:
    away = {each.id for each in world[0] if not each.takes}
    for before, now in zip(world[1], after(world), strict=True):
        assert away & set(before.replicas) == away & set(now.replicas)
        if before.replicas[0] in away:
            assert now.replicas[0] == before.replicas[0], "whoever is away for a moment gets its leaders back"


@given(worlds())
def test_partition_that_is_fixed_stays_as_it_is(world: World) -> None:
    for before, now in zip(world[1], after(world), strict=True):
        assert now == before or not before.is_fixed


def test_broker_that_is_catching_up_is_not_taken_for_an_empty_one() -> None:
    brokers = [Broker(1), Broker(2), Broker(3)]
    catching_up = [Placed(Name("t", number), (3,), 1_000, is_fixed=True) for number in range(4)]
    in_sync = [Placed(Name("t", number), (1 + number % 2,), 1_000) for number in range(4, 12)]
    assert plan(brokers, [*catching_up, *in_sync]) == []
    assert len(plan(brokers, in_sync)) == 2, "an empty one would get its share"


@given(worlds(racks=("",)))
def test_it_never_becomes_less_even(world: World) -> None:
    assert unevenness(world[0], after(world)) <= unevenness(*world) + 1e-9


@given(worlds(racks=("",), all_take=True, some_fixed=False))
def test_new_broker_does_not_stay_empty(world: World) -> None:
    tallies = Tally.of(world[0], after(world)).values()
    fewest, most = min(each.replicas for each in tallies), max(each.replicas for each in tallies)
    assert fewest > 0 or most <= 1


@given(worlds(racks=("",), all_take=True, some_fixed=False))
def test_replicas_of_one_size_end_up_even(world: World) -> None:
    brokers, partitions = world
    alike = [Placed(each.name, each.replicas, 1_000) for each in partitions]
    counts = [tally.replicas for tally in Tally.of(brokers, after((brokers, alike))).values()]
    assert max(counts) - min(counts) <= 1


@given(worlds())
def test_nobody_is_preferred_for_two_more_than_somebody_who_could_take_over(world: World) -> None:
    takers = {each.id for each in world[0] if each.takes}
    placed = after(world)
    leads = Counter(each.replicas[0] for each in placed)
    for each in placed:
        leader = each.replicas[0]
        if leader in takers and not each.is_fixed:
            assert all(leads[leader] - leads[other] <= 1 for other in each.replicas if other in takers)


@given(worlds())
def test_plan_that_was_carried_out_leaves_nothing_to_do(world: World) -> None:
    assert plan(world[0], after(world)) == []


def test_fourth_broker_gets_its_share_and_leads_some() -> None:
    brokers = [Broker(number) for number in (1, 2, 3, 4)]
    orders = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    partitions = [Placed(Name("orders", number), orders[number % 3], 1_000) for number in range(12)]
    tallies = Tally.of(brokers, after((brokers, partitions)))
    assert [each.replicas for each in tallies.values()] == [9, 9, 9, 9]
    assert [each.leaders for each in tallies.values()] == [3, 3, 3, 3]


def test_replicas_of_one_rack_are_parted_where_another_has_room() -> None:
    brokers = [Broker(1, "a"), Broker(2, "a"), Broker(3, "b"), Broker(4, "c")]
    [only] = after((brokers, [Placed(Name("orders", 0), (1, 2, 3), 1_000)]))
    assert {each.rack for each in brokers if each.id in only.replicas} == {"a", "b", "c"}


def test_large_partitions_weigh_more_than_their_number() -> None:
    brokers = [Broker(1), Broker(2)]
    sizes = [1_000_000, 1_000_000, 1, 1]
    homes = [1, 1, 2, 2]
    partitions = [
        Placed(Name("t", number), (home,), size)
        for number, (size, home) in enumerate(zip(sizes, homes, strict=True))
    ]
    tallies = Tally.of(brokers, after((brokers, partitions)))
    assert max(each.size_bytes for each in tallies.values()) <= 1_000_002


def test_leaders_are_shifted_along_chains() -> None:
    """1 leads too much, and shares no partition with 3, who leads nothing."""
    brokers = [*(Broker(number) for number in (1, 2, 3)), Broker(4, takes=False)]
    partitions = [
        Placed(Name("t", 0), (1, 2), 0),
        Placed(Name("t", 1), (1, 2), 0),
        Placed(Name("t", 2), (2, 3), 0),
        Placed(Name("t", 3), (4, 3), 0),
    ]
    moves = plan(brokers, partitions)
    assert all(not move.added for move in moves), "only the order changes"
    leads = Counter(each.replicas[0] for each in after((brokers, partitions)))
    assert leads == {1: 1, 2: 1, 3: 1, 4: 1}


def test_change_of_order_copies_nothing() -> None:
    before = Placed(Name("t", 0), (1, 2), 5_000)
    assert Move(before, before.led_by(2)).size_bytes == 0
    assert Move(before, before.with_replica(2, 3)).size_bytes == 5_000
