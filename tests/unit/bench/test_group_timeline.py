"""What is read off the arrivals of records at the members of a group."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.groups.arrivals import Arrival, ArrivalReader, ArrivalWriter, Arrived
from bench.groups.timeline import Span, Timeline

REBALANCE = Span(10.0, 12.0)
QUIET = REBALANCE.before(since_s=0.0)


def timeline(**arrivals: list[Arrival]) -> Timeline:
    """What each member got."""
    made = Timeline()
    for member, got in arrivals.items():
        made.add(member, got)
    return made


def got(at_s: float, partition: int, *, waited_s: float = 0.01) -> Arrival:
    return Arrival(at_s, partition, 0, waited_s)


def every(step_s: float, partition: int, start_s: float, end_s: float) -> list[Arrival]:
    count = round((end_s - start_s) / step_s)
    return [got(start_s + number * step_s, partition) for number in range(count + 1)]


def test_the_quiet_time_is_as_long_and_ends_with_the_call() -> None:
    assert Span(10.0, 12.0).before(since_s=0.0) == Span(8.0, 10.0)


def test_the_quiet_time_is_rather_shorter_than_part_of_another_change() -> None:
    assert Span(10.0, 12.0).before(since_s=9.5) == Span(9.5, 10.0)


def test_a_partition_that_keeps_its_member_has_its_longest_pause_beside_a_quiet_one() -> None:
    waited = [got(9.2, 0, waited_s=0.2), got(10.9, 0, waited_s=0.4), got(12.1, 0, waited_s=0.9)]
    observed = timeline(a=[*every(0.1, 0, 8.0, 14.0), *waited]).observe(REBALANCE, quiet=QUIET)
    assert observed.stayed[0] == pytest.approx(0.4)
    assert observed.quiet[0] == pytest.approx(0.2)
    assert not observed.resumed


def test_a_load_that_falls_behind_makes_no_pause() -> None:
    observed = timeline(a=[*every(0.1, 0, 9.0, 10.5), *every(0.1, 0, 11.5, 14.0)]).observe(
        REBALANCE, quiet=QUIET
    )
    assert observed.stayed[0] == pytest.approx(0.01)


def test_a_partition_that_nobody_reads_pauses_all_the_time() -> None:
    observed = timeline(a=every(0.1, 0, 8.0, 9.9)).observe(REBALANCE, quiet=QUIET)
    assert observed.stayed[0] == pytest.approx(2.0)
    assert observed.quiet[0] == pytest.approx(0.01)


def test_a_partition_resumes_with_the_first_record_at_another_member() -> None:
    observed = timeline(a=every(0.1, 0, 9.0, 10.2), b=every(0.1, 0, 10.7, 14.0)).observe(
        REBALANCE, quiet=QUIET
    )
    assert observed.resumed[0] == pytest.approx(0.7)
    assert observed.unread[0] == pytest.approx(0.5)
    assert not observed.stayed


def test_a_partition_that_comes_back_to_its_member_was_taken_over_all_the_same() -> None:
    observed = timeline(
        a=[*every(0.1, 0, 9.0, 10.2), *every(0.1, 0, 11.5, 14.0)], b=every(0.1, 0, 10.6, 11.2)
    ).observe(REBALANCE, quiet=QUIET)
    assert observed.resumed[0] == pytest.approx(0.6)
    assert not observed.stayed


def test_what_moves_outside_the_span_is_another_rebalances() -> None:
    observed = timeline(a=every(0.1, 0, 9.0, 12.4), b=every(0.1, 0, 12.5, 14.0)).observe(
        REBALANCE, quiet=QUIET
    )
    assert list(observed.stayed) == [0]


def test_whoever_got_the_last_record_holds_the_partition() -> None:
    made = timeline(a=[got(1.0, 0), got(1.0, 1), got(5.0, 2)], b=[got(2.0, 0)])
    assert made.owners() == {0: "b", 1: "a", 2: "a"}
    assert made.owners(at_s=1.5) == {0: "a", 1: "a"}
    assert made.held(since_s=1.5) == {"b": {0}, "a": {2}}


def test_a_partition_is_read_again_with_its_first_record_after_a_moment() -> None:
    made = timeline(a=[got(1.0, 0), got(2.0, 0), got(3.0, 0), got(1.0, 1)])
    assert made.first_after(2.0) == {0: 3.0}


def test_arrivals_that_are_told_late_stand_where_they_belong() -> None:
    made = timeline(b=[got(2.0, 0)], a=[got(1.0, 0)])
    assert made.owners() == {0: "b"}


def test_a_file_of_arrivals_is_read_as_it_grows(tmp_path: Path) -> None:
    path = str(tmp_path / "arrivals")
    reader = ArrivalReader(path)
    assert reader.new() == []
    with ArrivalWriter(path) as writer:
        sent_ms = time.time_ns() // 1_000_000 - 1_500
        writer.note([Arrived(3, 7, sent_ms), Arrived(4, 8, sent_ms)])
        assert [(each.partition, each.offset) for each in reader.new()] == [(3, 7), (4, 8)]
        writer.note([Arrived(3, 9, sent_ms)])
    [last] = reader.new()
    assert (last.partition, last.offset) == (3, 9)
    assert last.waited_s >= 1.5
    assert reader.new() == []


def test_half_an_entry_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "arrivals"
    with ArrivalWriter(str(path)) as writer:
        writer.note([Arrived(3, 7, 0)])
    whole = path.read_bytes()
    reader = ArrivalReader(str(path))
    path.write_bytes(whole[:5])
    assert reader.new() == []
    path.write_bytes(whole)
    assert [each.offset for each in reader.new()] == [7]
