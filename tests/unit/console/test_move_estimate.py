"""How long moves will take, from how they went."""

from __future__ import annotations

from quorate.console.moving.estimate import Estimate, Progress


def test_time_left_is_what_is_left_at_the_rate_so_far() -> None:
    estimate = Estimate()
    estimate.saw(Progress(2, 0, 1_000), now_s=0.0)
    estimate.saw(Progress(2, 200, 1_000), now_s=10.0)
    assert estimate.bytes_per_s == 20.0
    assert estimate.seconds_left == 40.0


def test_nothing_is_said_before_anything_has_moved() -> None:
    estimate = Estimate()
    assert estimate.seconds_left is None
    estimate.saw(Progress(2, 0, 1_000), now_s=0.0)
    estimate.saw(Progress(2, 0, 1_000), now_s=5.0)
    assert estimate.bytes_per_s is None
    assert estimate.seconds_left is None


def test_how_it_went_long_ago_does_not_count() -> None:
    estimate = Estimate()
    estimate.saw(Progress(2, 0, 10_000), now_s=0.0)
    estimate.saw(Progress(2, 5_000, 10_000), now_s=1.0)
    estimate.saw(Progress(2, 5_000, 10_000), now_s=25.0)
    estimate.saw(Progress(2, 5_100, 10_000), now_s=35.0)
    assert estimate.bytes_per_s == 10.0


def test_move_that_ended_takes_its_bytes_with_it() -> None:
    estimate = Estimate()
    estimate.saw(Progress(2, 500, 2_000), now_s=0.0)
    estimate.saw(Progress(1, 0, 1_000), now_s=10.0)
    assert estimate.bytes_per_s == 50.0


def test_leader_that_is_written_to_faster_than_is_copied_has_no_end() -> None:
    estimate = Estimate()
    estimate.saw(Progress(1, 500, 1_000), now_s=0.0)
    estimate.saw(Progress(1, 700, 1_500), now_s=10.0)
    assert estimate.seconds_left is None
