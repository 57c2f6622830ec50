"""``quorate topic describe --load``: rates from two looks, and the heaviest keys from a sketch."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.console.loads.heaviest import Heaviest
from quorate.console.loads.key_sampling import sample_keys
from quorate.console.loads.rates import PartitionRate, Seen, rates_of, skew_of
from quorate.console.main import main
from quorate.core.records import ConsumerRecord

_WEIGHED = st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 100)))


@given(_WEIGHED, st.integers(1, 12))
def test_no_weight_is_told_too_small_or_too_large_by_more_than_its_error(
    added: list[tuple[str, int]], counters: int
) -> None:
    heaviest: Heaviest[str] = Heaviest(counters)
    real: Counter[str] = Counter()
    for thing, weight in added:
        heaviest.add(thing, weight)
        real[thing] += weight
    told = heaviest.top(counters)
    assert heaviest.total == sum(real.values())
    assert [each.weight for each in told] == sorted((each.weight for each in told), reverse=True)
    for each in told:
        assert each.weight - each.error <= real[each.thing] <= each.weight
        assert each.error <= heaviest.total / counters


@given(_WEIGHED, st.integers(1, 12))
def test_whatever_weighs_more_than_its_share_of_the_counters_is_told(
    added: list[tuple[str, int]], counters: int
) -> None:
    heaviest: Heaviest[str] = Heaviest(counters)
    real: Counter[str] = Counter()
    for thing, weight in added:
        heaviest.add(thing, weight)
        real[thing] += weight
    told = {each.thing for each in heaviest.top(counters)}
    assert {thing for thing, weight in real.items() if weight > heaviest.total / counters} <= told


def test_rates_are_what_came_between_two_looks() -> None:
    before = {0: Seen(0, 100, 10_000), 1: Seen(0, 0, 0)}
    after = {0: Seen(0, 150, 16_000), 1: Seen(0, 0, 0)}
    assert rates_of(before, after, seconds=10.0) == [
        PartitionRate(0, 5.0, 600.0, is_estimated=False),
        PartitionRate(1, 0.0, 0.0, is_estimated=False),
    ]


def test_bytes_are_estimated_by_the_size_of_records_where_retention_took_some_away() -> None:
    [rate] = rates_of({0: Seen(0, 100, 10_000)}, {0: Seen(60, 160, 10_000)}, seconds=1.0)
    assert rate == PartitionRate(0, 60.0, 6_000.0, is_estimated=True)


def test_partition_that_was_seen_once_has_no_rate() -> None:
    assert rates_of({0: Seen(0, 1, 1)}, {1: Seen(0, 1, 1)}, seconds=1.0) == []


def of(*rates: float) -> list[PartitionRate]:
    return [PartitionRate(number, 1.0, rate, is_estimated=False) for number, rate in enumerate(rates)]


@pytest.mark.parametrize(
    ("rates", "hot"),
    [((10.0, 90.0), (1,)), ((40.0, 60.0), ()), ((0.0, 5.0), (1,)), ((10.0, 10.0, 20.0), (2,))],
)
def test_hot_is_twice_the_mean_of_the_others_however_few_they_are(
    rates: tuple[float, ...], hot: tuple[int, ...]
) -> None:
    """Of two partitions none can have twice the mean of both, short of all."""
    skew = skew_of(of(*rates))
    assert skew is not None
    assert skew.hot == hot


def test_factor_is_of_the_average_and_nothing_is_hot_alone() -> None:
    skew = skew_of(of(10.0, 10.0, 100.0))
    assert skew is not None
    assert (skew.heaviest, skew.hot, skew.factor) == (2, (2,), 2.5)
    even = skew_of(of(10.0, 10.0))
    assert even is not None
    assert (even.hot, even.factor) == ((), 1.0)
    assert skew_of(of(10.0)) is None
    assert skew_of(of(0.0, 0.0)) is None


class _Consumer:
    """Has ten records in each of two partitions, and hands out three at a time."""

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}

    def assign(self, partitions: list[tuple[str, int]]) -> None:
        self.positions = dict.fromkeys([number for _, number in partitions], 0)

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        self.positions[partition[1]] = offset

    async def poll(self, max_records: int, timeout: float) -> list[ConsumerRecord]:  # noqa: ASYNC109
        partition = min(self.positions, key=lambda each: self.positions[each])
        first = self.positions[partition]
        self.positions[partition] = first + 3
        return [
            ConsumerRecord("t", partition, offset, 0, b"k%d" % partition, b"v" * 8, (), 0)
            for offset in range(first, first + 3)
        ]


async def test_keys_are_those_of_the_newest_records_and_of_no_later_ones() -> None:
    seen = {0: Seen(0, 10, 1_000), 1: Seen(8, 10, 1_000), 2: Seen(5, 5, 0)}
    sample = await sample_keys(_Consumer(), "t", seen, records_max=4)  # type: ignore[arg-type]
    assert sample.records == 4 + 2
    assert [(each.thing, each.weight) for each in sample.keys.top(5)] == [(b"k0", 40), (b"k1", 20)]


def test_load_is_about_one_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "describe", "--load"]) == 2
    assert "name it" in capsys.readouterr().err
