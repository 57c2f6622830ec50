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
    return [guard.admit(thing) for _ in range(count)]


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
        assert guard.admit_event(event) == 0


def test_text_or_number_of_an_event_does_not_make_it_another_one() -> None:
    guard = FloodGuard(Clock(), written_per_window=1)
    assert guard.admit_event({"event": "connection_refused", "address": "a", "attempt": 1}) == 0
    assert guard.admit_event({"event": "connection_refused", "address": "a", "attempt": 2}) is None
    assert guard.admit_event({"event": "connection_refused", "address": "b", "attempt": 2}) == 0


def test_things_that_are_told_apart_are_bounded() -> None:
    guard = FloodGuard(Clock(), written_per_window=1)
    for number in range(2 * log_flood._THINGS_MAX):
        guard.admit(number)
    assert len(guard._things) == log_flood._THINGS_MAX


def test_what_others_log_is_the_same_by_its_text_before_values_are_put_into_it() -> None:
    guard = FloodGuard(Clock(), written_per_window=1)

    def record(level: int, *values: object) -> logging.LogRecord:
        return logging.LogRecord("asyncio", level, "", 0, "task %s failed", values, None)

    assert guard.filter(record(logging.ERROR, 1))
    assert not guard.filter(record(logging.ERROR, 2))
    assert guard.filter(record(logging.WARNING, 3))
    assert guard.filter(record(logging.DEBUG, 4))
    assert guard.filter(record(logging.DEBUG, 4))
