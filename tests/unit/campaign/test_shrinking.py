"""What is left of a failing plan fails, and without any single event of it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.chaos.campaign.shrinking import Shrinking


def shrink(events: list[int], fails: Callable[[tuple[int, ...]], bool]) -> Shrinking:
    shrinking = Shrinking(events)
    while shrinking.candidate is not None:
        shrinking.judge(still_fails=fails(shrinking.candidate))
    return shrinking


@pytest.mark.parametrize("needed", [{3}, {0, 19}, {5, 9, 13}, set(range(20))])
def test_exactly_the_events_that_it_takes_are_left(needed: set[int]) -> None:
    assert set(shrink(list(range(20)), lambda kept: needed <= set(kept)).smallest) == needed


def test_what_fails_without_any_event_takes_one_try() -> None:
    shrinking = shrink(list(range(20)), lambda _kept: True)
    assert shrinking.smallest == ()
    assert shrinking.tries == 1


def test_a_plan_without_events_cannot_be_made_smaller() -> None:
    assert Shrinking([]).candidate is None


def test_the_order_of_events_is_kept() -> None:
    assert shrink([5, 1, 9, 3], lambda kept: {1, 3} <= set(kept)).smallest == (1, 3)


def test_at_any_moment_the_smallest_is_one_that_failed() -> None:
    shrinking = Shrinking(list(range(16)))
    failed = [shrinking.smallest]
    while shrinking.candidate is not None:
        tried = shrinking.candidate
        still_fails = {4, 11} <= set(tried)
        if still_fails:
            failed.append(tried)
        shrinking.judge(still_fails=still_fails)
        assert shrinking.smallest == failed[-1]


@given(st.integers(0, 12), st.integers(0, 2**32))
def test_no_single_event_can_be_spared_even_where_failing_has_no_order_to_it(count: int, salt: int) -> None:
    """Whether a part fails may say nothing about its own parts: then too the result is 1-minimal."""
    whole = tuple(range(count))

    def fails(kept: tuple[int, ...]) -> bool:
        return kept == whole or hash((kept, salt)) % 4 == 0

    smallest = shrink(list(whole), fails).smallest
    assert fails(smallest)
    assert not any(fails(smallest[:place] + smallest[place + 1 :]) for place in range(len(smallest)))
