"""What is held against what, and which bars count as met."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.cluster.comparison import Comparison, compare
from bench.cluster.plot import plot
from bench.cluster.processes import ClientFailed
from bench.cluster.works import WORKS, chosen_works
from bench.peers.kafka.java_tools import rate_of_consumer, rate_of_producer

RATE = Comparison("rate", "MB/s", "ours", "theirs", "higher", 1.5, 2.5)
TIME = Comparison("time", "ms", "ours", "theirs", "lower", 1.0)
FAIL_OVER = Comparison("failing over", "s", "ours", "theirs", "lower", 1.5, is_absolute=True)


@pytest.mark.parametrize(("ours", "passed"), [(15.0, True), (14.0, False)])
def test_a_rate_must_be_a_multiple_of_the_other(ours: float, passed: bool) -> None:
    [result] = compare([RATE], {"ours": [ours]}, {"theirs": [10.0]})
    assert result.passed is passed
    assert result.ratio == ours / 10


@pytest.mark.parametrize(("ours", "passed"), [(10.0, True), (10.1, False)])
def test_a_time_must_not_be_longer_than_the_other(ours: float, passed: bool) -> None:
    [result] = compare([TIME], {"ours": [ours]}, {"theirs": [10.0]})
    assert result.passed is passed


def test_rounds_count_by_their_median() -> None:
    [result] = compare([RATE], {"ours": [1.0, 30.0, 20.0]}, {"theirs": [10.0, 9.0, 100.0]})
    assert (result.ours, result.theirs) == (20.0, 10.0)


def test_a_bar_in_seconds_holds_for_every_single_time() -> None:
    [result] = compare([FAIL_OVER], {"ours": [0.3, 0.2, 1.6]}, {"theirs": [9.0]})
    assert (result.ours, result.theirs) == (1.6, 9.0)
    assert result.passed is False


def test_the_other_systems_worst_time_stands_beside_ours() -> None:
    [result] = compare([FAIL_OVER], {"ours": [0.3]}, {"theirs": [9.0, 12.0]})
    assert (result.theirs, result.ratio) == (12.0, 0.3 / 12.0)


def test_a_bar_in_seconds_needs_nobody_beside_us() -> None:
    [result] = compare([FAIL_OVER], {"ours": [0.3]}, {})
    assert result.passed is True


def test_without_the_other_system_a_ratio_is_neither_met_nor_missed() -> None:
    [result] = compare([RATE], {"ours": [100.0]}, {})
    assert result.passed is None


def test_what_nobody_measured_is_left_out() -> None:
    assert compare([RATE], {}, {}) == []


def test_the_plot_has_a_bar_for_each_work_that_both_sides_did() -> None:
    rows = [RATE, TIME._replace(ours="alone"), FAIL_OVER._replace(name="a < b & c")]
    results = compare(rows, {"ours": [20.0], "alone": []}, {"theirs": [10.0]})
    drawn = ElementTree.fromstring(plot("title", results))
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "rate" in texts
    assert "a < b & c" in texts
    assert "time" not in texts


def test_a_plot_of_nothing_is_a_picture_all_the_same() -> None:
    ElementTree.fromstring(plot("title", []))


def test_names_of_works_and_of_what_they_compare_are_unique() -> None:
    names = [work.name for work in WORKS]
    rows = [row.name for work in WORKS for row in work.comparisons]
    assert len(set(names)) == len(names)
    assert len(set(rows)) == len(rows)


def test_a_chosen_work_comes_with_the_start_of_its_cluster() -> None:
    assert [work.name for work in chosen_works(["send-alone"])] == ["start", "send-alone"]


def test_an_unknown_work_is_refused_by_name() -> None:
    with pytest.raises(SystemExit, match="no such work: fly"):
        chosen_works(["fly"])


PRODUCER = """\
Warmup first 30 records. Steady state results will print after the complete test summary.
128583 records sent, 25655.0 records/sec (2.45 MB/sec), 2096.0 ms avg latency, 2946.0 ms max latency.
In steady state.
150 records sent, 104123.281966 records/sec (9.93 MB/sec), 1.72 ms avg latency, 2.00 ms max latency, \
1 ms 50th, 2 ms 95th, 2 ms 99th, 2 ms 99.9th.
120 steady state records sent, 133037.694013 records/sec (12.69 MB/sec), 1.53 ms avg latency, \
2.00 ms max latency, 1 ms 50th, 2 ms 95th, 2 ms 99th, 2 ms 99.9th.
"""


def test_the_rate_after_the_warm_up_is_taken_from_kafkas_producer() -> None:
    assert rate_of_producer(PRODUCER, has_warm_up=True) == pytest.approx(133037.694013)


def test_a_producer_that_ended_early_has_no_rate() -> None:
    with pytest.raises(ClientFailed):
        rate_of_producer(PRODUCER[: PRODUCER.index("120 steady")], has_warm_up=True)


CONSUMER = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, fetch.nMsg.sec
2026-01-31 11:54:43:241, 2026-01-31 11:54:49:007, 95.3914, 16.5438, 1000, 173473.9854, 760069.1489

"""


def test_kafkas_consumer_is_rated_without_the_time_to_join() -> None:
    assert rate_of_consumer(CONSUMER, 1000) == pytest.approx(760069.1489)


@pytest.mark.parametrize("printed", [CONSUMER, "", "killed\n"])
def test_a_consumer_that_read_too_little_has_no_rate(printed: str) -> None:
    with pytest.raises(ClientFailed):
        rate_of_consumer(printed, 1001)
