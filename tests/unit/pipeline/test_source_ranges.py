"""How ranges of offsets become tasks, and what a trigger takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.pipeline.source.ranges import OffsetRange, cut, limited

SIZES = st.lists(st.integers(0, 500), min_size=1, max_size=8)


def ranges_of(sizes: list[int]) -> list[OffsetRange]:
    return [OffsetRange("t", "id", number, 10, 10 + size) for number, size in enumerate(sizes)]


def tp(number: int) -> TopicPartition:
    return TopicPartition(TopicName("t"), PartitionId(number))


@given(SIZES, st.integers(1, 40), st.none() | st.integers(1, 100))
def test_pieces_cover_every_offset_once(sizes: list[int], pieces: int, records_max: int | None) -> None:
    cut_up = cut(ranges_of(sizes), pieces_min=pieces, records_max=records_max)
    covered = [(each.partition, offset) for each in cut_up for offset in range(each.start, each.end)]
    assert sorted(covered) == [(number, 10 + n) for number, size in enumerate(sizes) for n in range(size)]


@given(SIZES, st.integers(1, 40))
def test_there_are_as_many_pieces_as_asked_for_where_there_are_as_many_offsets(
    sizes: list[int], pieces: int
) -> None:
    # The rule is about ranges that can be cut: one of a single offset cannot.
    whole = [OffsetRange("t", "id", 0, 0, sum(sizes))]
    assert len(cut(whole, pieces_min=pieces)) == min(pieces, sum(sizes))
    assert len(cut(ranges_of([size + pieces for size in sizes]), pieces_min=pieces)) >= pieces


@given(SIZES, st.integers(1, 100))
def test_no_piece_is_larger_than_it_may_be(sizes: list[int], records_max: int) -> None:
    assert all(each.size <= records_max for each in cut(ranges_of(sizes), records_max=records_max))


def test_a_large_range_is_cut_before_a_small_one() -> None:
    pieces = cut(ranges_of([900, 100]), pieces_min=10)
    assert len([each for each in pieces if each.partition == 0]) == 9


def test_empty_ranges_and_those_that_end_before_they_begin_are_left_out() -> None:
    assert cut([OffsetRange("t", "id", 0, 5, 5), OffsetRange("t", "id", 1, 9, 3)], pieces_min=4) == []


@given(SIZES, st.integers(1, 600))
def test_a_limited_trigger_takes_exactly_as_many_as_it_may_or_all_there_is(
    sizes: list[int], offsets_max: int
) -> None:
    start = {tp(number): 10 for number in range(len(sizes))}
    end = {tp(number): 10 + size for number, size in enumerate(sizes)}
    stop = limited(start, end, offsets_max)
    assert stop.keys() == end.keys()
    assert all(start[each] <= stop[each] <= end[each] for each in end)
    assert sum(stop.values()) - sum(start.values()) == min(offsets_max, sum(sizes))


def test_a_limit_is_shared_in_proportion_to_what_waits() -> None:
    start = {tp(0): 0, tp(1): 0}
    assert limited(start, {tp(0): 900, tp(1): 100}, 100) == {tp(0): 90, tp(1): 10}


def test_a_partition_with_little_is_not_starved_by_one_with_much() -> None:
    start = {tp(0): 0, tp(1): 0}
    assert limited(start, {tp(0): 1_000_000, tp(1): 1}, 10)[tp(1)] == 1
