"""A log tells of every transition, and of what repeats a few times and how often."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from quorate.core import log_flood
from quorate.core.log_flood import FloodGuard


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def admitted(guard: FloodGuard, count: int, thing: Hashable = "thing") -> list[int | None]:
    return [guard.admit(thing, kind="kind") for _ in range(count)]


def lines_written(guard: FloodGuard, clock: Clock, *, things: int, rounds: int, step_s: float) -> int:
    """Of an event that comes in every round for each of so many partitions."""
    written = 0
    for _ in range(rounds):
        for number in range(things):
            event = {"event": "disk_full", "partition": f"orders-{number}"}
            written += guard.admit_event(event, level="warning") is not None
        clock.now += step_s
    return written


def test_what_repeats_is_written_a_few_times() -> None:
    guard = FloodGuard(Clock(), written_per_window=2)
    assert admitted(guard, 4) == [0, 0, None, None]
    assert guard.suppressed == 2


def test_next_one_that_is_written_says_how_many_were_left_out() -> None:
    clock = Clock()
    guard = FloodGuard(clock, written_per_window=1)
    admitted(guard, 4)
    clock.now = 60.0
    assert admitted(guard, 2) == [3, None]
    clock.now = 120.0
    assert admitted(guard, 1) == [1]


def test_same_event_about_many_things_is_many_events() -> None:
    guard = FloodGuard(Clock(), written_per_window=1)
    for number in range(100):
        event = {"event": "leadership_begun", "partition": f"orders-{number}", "leader_epoch": 1}
        assert guard.admit_event(event, level="info") == 0


def test_text_or_number_of_an_event_does_not_make_it_another_one() -> None:
    guard = FloodGuard(Clock(), written_per_window=1)

    def admit(address: str, attempt: int) -> int | None:
        event = {"event": "connection_refused", "address": address, "attempt": attempt}
        return guard.admit_event(event, level="info")

    assert admit("a", 1) == 0
    assert admit("a", 2) is None
    assert admit("b", 2) == 0


def test_things_beyond_those_that_are_told_apart_do_not_switch_the_guard_off() -> None:
    for things in (1_900, 2_100, 5_000):
        clock = Clock()
        guard = FloodGuard(clock)
        written = lines_written(guard, clock, things=things, rounds=100, step_s=0.5)
        assert written <= 1_000 + 100
        assert guard.suppressed == things * 100 - written


def test_what_comes_seldom_for_each_of_many_things_is_bounded_as_well() -> None:
    clock = Clock()
    guard = FloodGuard(clock)
    an_hour = lines_written(guard, clock, things=2_000, rounds=120, step_s=30.0)
    assert an_hour <= 1_000 + 60 * 100


def test_leaders_of_a_thousand_partitions_that_change_at_once_are_all_written() -> None:
    clock = Clock()
    assert lines_written(FloodGuard(clock), clock, things=1_000, rounds=1, step_s=0.0) == 1_000


def test_one_kind_that_floods_holds_back_no_other_and_no_other_level() -> None:
    clock = Clock()
    guard = FloodGuard(clock)
    lines_written(guard, clock, things=3_000, rounds=1, step_s=0.0)
    assert guard.admit_event({"event": "disk_full", "partition": "new-0"}, level="warning") is None
    assert guard.admit_event({"event": "disk_full", "partition": "new-1"}, level="error") == 0
    assert guard.admit_event({"event": "isr_changed", "partition": "new-1"}, level="warning") == 0


def test_next_one_of_its_kind_says_how_many_were_left_out() -> None:
    clock = Clock()
    guard = FloodGuard(clock)
    lines_written(guard, clock, things=1_500, rounds=1, step_s=0.0)
    clock.now = 60.0
    assert guard.admit_event({"event": "disk_full", "partition": "new-0"}, level="warning") == 500
    assert guard.admit_event({"event": "disk_full", "partition": "new-1"}, level="warning") == 0


def test_every_event_is_written_or_told_as_left_out() -> None:
    clock = Clock()
    guard = FloodGuard(clock, written_per_window=3)
    asked = told = 0
    for number in range(400):
        for _ in range(10):
            asked += 1
            left_out = guard.admit_event({"event": "fetch_failed", "peer": number % 7}, level="warning")
            told += 0 if left_out is None else 1 + left_out
        clock.now += 1.0
    clock.now += 60.0
    for peer in range(7):
        asked += 1
        left_out = guard.admit_event({"event": "fetch_failed", "peer": peer}, level="warning")
        assert left_out is not None
        told += 1 + left_out
    assert told == asked


def test_things_that_are_told_apart_are_bounded() -> None:
    guard = FloodGuard(Clock(), written_per_window=1)
    for number in range(2 * log_flood._THINGS_MAX):
        guard.admit(number, kind=number)
    assert len(guard._things) == log_flood._THINGS_MAX
    assert len(guard._kinds) == log_flood._KINDS_MAX


def test_what_others_log_is_the_same_by_its_text_before_values_are_put_into_it() -> None:
    guard = FloodGuard(Clock(), written_per_window=1)

    def record(level: int, *values: object) -> logging.LogRecord:
        return logging.LogRecord("asyncio", level, "", 0, "task %s failed", values, None)

    assert guard.filter(record(logging.ERROR, 1))
    assert not guard.filter(record(logging.ERROR, 2))
    assert guard.filter(record(logging.WARNING, 3))
    assert guard.filter(record(logging.DEBUG, 4))
    assert guard.filter(record(logging.DEBUG, 4))
