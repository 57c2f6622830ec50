"""Pauses between attempts: they grow, differ, and begin anew."""

from __future__ import annotations

import random

from quorate.core.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_each_is_of_the_upper_half() -> None:
    backoff = Backoff(random.Random(1), first_s=0.1, pause_s_max=1.0)
    pauses = [backoff.next_s() for _ in range(6)]
    for pause, upper in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0], strict=True):
        assert upper / 2 <= pause <= upper


def test_who_failed_together_does_not_come_back_together() -> None:
    one, other = (Backoff(random.Random(seed)) for seed in (1, 2))
    assert all(one.next_s() != other.next_s() for _ in range(20))


def test_success_begins_a_new_series() -> None:
    backoff = Backoff(random.Random(1), first_s=0.1, pause_s_max=100.0)
    for _ in range(8):
        backoff.next_s()
    assert backoff.failures == 8
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.next_s() <= 0.1


def test_second_attempt_may_come_at_once_and_again_so_after_success() -> None:
    backoff = Backoff(random.Random(1), first_s=0.1, pause_s_max=1.0, begins_at_once=True)
    for _ in range(2):
        assert backoff.next_s() == 0.0
        assert 0.05 <= backoff.next_s() <= 0.1
        assert 0.1 <= backoff.next_s() <= 0.2
        backoff.reset()


def test_pauses_stay_bounded_however_often_it_fails() -> None:
    backoff = Backoff(random.Random(1), first_s=0.1, pause_s_max=1.0)
    assert max(backoff.next_s() for _ in range(5_000)) <= 1.0
