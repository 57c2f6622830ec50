"""What a story does next."""

from __future__ import annotations

import random

from quorate.chaos.drills.choices import Choices

ORDERS = [(first, second) for first in range(6) for second in range(6)]


def _choices(seed: int) -> Choices:
    return Choices(seed, random.Random(seed))


def test_every_choice_comes_before_any_comes_again_and_coverage_never_falls() -> None:
    choices = _choices(1)
    given = [choices.next_of("cuts", "abc") for _ in range(7)]
    assert sorted(given[:3]) == sorted(given[3:6]) == ["a", "b", "c"]
    assert str(choices.covered["cuts"]) == "3 of 3"


def test_a_run_that_begins_where_another_has_ended_adds_up_with_it() -> None:
    first, second = _choices(0), _choices(14)
    for choices in (first, second):
        for _ in range(14):
            choices.next_in_turn("orders", ORDERS)
    given = {*first.covered["orders"].given, *second.covered["orders"].given}
    assert len(given) == 28
    assert str(first.covered["orders"]) == "14 of 36"


def test_what_is_taken_in_turn_begins_again_after_the_last() -> None:
    choices = _choices(35)
    assert {choices.next_in_turn("orders", ORDERS) for _ in range(36)} == set(ORDERS)
