"""The checker itself: it accepts what one log could have answered, and nothing else."""

from __future__ import annotations

import itertools
import random

import pytest

from quorate.chaos.cluster.compare_and_set_history import (
    EMPTY_LOG,
    Act,
    Append,
    Content,
    Length,
    Log,
    Mismatch,
    log_step,
)
from quorate.chaos.cluster.linearizability import NEVER, Operation, Stuck, linearize


def operation(act: Act, called: float, answered: float = NEVER) -> Operation[Act]:
    return Operation(act, called, answered)


def is_linearizable(*operations: Operation[Act]) -> bool:
    try:
        order = linearize(operations, EMPTY_LOG, log_step)
    except Stuck:
        return False
    _check_order(order)
    return True


def _check_order(order: list[Operation[Act]]) -> None:
    """An accepted order is one: it explains every answer and respects time."""
    log: Log | None = ()
    for each in order:
        assert log is not None
        log = log_step(log, each.act)
    assert log is not None
    for earlier, later in itertools.combinations(order, 2):
        assert later.answered > earlier.called


def test_one_after_the_other_is_fine() -> None:
    assert is_linearizable(
        operation(Append(b"a", 0), 1, 2),
        operation(Length(1), 3, 4),
        operation(Mismatch(b"b", 0, 1), 5, 6),
        operation(Append(b"b", 1), 7, 8),
        operation(Content((b"a", b"b")), 9, 10),
    )


def test_calls_that_overlap_may_take_effect_in_either_order() -> None:
    assert is_linearizable(operation(Append(b"b", 1), 1, 4), operation(Append(b"a", 0), 2, 3))
    assert is_linearizable(operation(Length(0), 1, 4), operation(Append(b"a", 0), 2, 3))
    assert is_linearizable(operation(Length(1), 1, 4), operation(Append(b"a", 0), 2, 3))


def test_one_offset_is_not_won_twice() -> None:
    assert not is_linearizable(operation(Append(b"a", 0), 1, 4), operation(Append(b"b", 0), 2, 3))


def test_an_answer_is_never_older_than_the_call() -> None:
    append = operation(Append(b"a", 0), 1, 2)
    assert not is_linearizable(append, operation(Length(0), 3, 4))
    assert not is_linearizable(
        append, operation(Append(b"b", 1), 3, 4), operation(Mismatch(b"c", 0, 1), 5, 6)
    )


def test_an_answer_does_not_foresee_what_comes() -> None:
    assert not is_linearizable(operation(Length(1), 1, 2), operation(Append(b"a", 0), 3, 4))
    assert not is_linearizable(operation(Mismatch(b"b", 0, 1), 1, 2), operation(Append(b"a", 0), 3, 4))


def test_a_refusal_does_not_rest_on_a_record_that_vanished() -> None:
    vanished = operation(Append(b"lost", 0), 1)
    refusal = operation(Mismatch(b"x", 0, 1), 2, 3)
    assert is_linearizable(vanished, refusal)
    assert not is_linearizable(vanished, refusal, operation(Append(b"other", 0), 4, 5))
    assert not is_linearizable(vanished, refusal, operation(Content(()), 4, 5))


def test_a_refusal_names_the_end_and_not_less() -> None:
    assert not is_linearizable(
        operation(Append(b"a", 0), 1, 2),
        operation(Append(b"b", 1), 3, 4),
        operation(Mismatch(b"c", 0, 1), 5, 6),
    )
    assert not is_linearizable(operation(Append(b"a", 0), 1, 2), operation(Mismatch(b"b", 1, 1), 3, 4))


def test_an_unknown_outcome_may_be_either_and_may_come_late() -> None:
    unknown = operation(Append(b"u", 0), 1)
    assert is_linearizable(unknown, operation(Length(0), 2, 3), operation(Content((b"u",)), 4, 5))
    assert is_linearizable(unknown, operation(Length(0), 2, 3), operation(Content(()), 4, 5))
    assert not is_linearizable(unknown, operation(Length(1), 2, 3), operation(Length(0), 4, 5))


def test_an_unknown_outcome_does_not_come_before_its_call() -> None:
    assert not is_linearizable(operation(Length(1), 1, 2), operation(Append(b"u", 0), 3))


def test_what_was_refused_or_written_twice_is_found_in_the_content() -> None:
    append = operation(Append(b"a", 0), 1, 2)
    assert not is_linearizable(append, operation(Content((b"a", b"refused")), 3, 4))
    assert not is_linearizable(append, operation(Content((b"a", b"a")), 3, 4))


def test_the_error_says_where_it_is_stuck() -> None:
    operations = [operation(Append(b"a", 0), 1, 2), operation(Length(2), 3, 4), operation(Length(1), 5, 6)]
    with pytest.raises(Stuck) as stuck:
        linearize(operations, EMPTY_LOG, log_step)
    assert stuck.value.done == operations[:1]
    assert stuck.value.left == operations[1:2]
    assert "append a at 0" in str(stuck.value)
    assert "length is 2" in str(stuck.value)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_one_log_answered_is_accepted_and_one_changed_answer_is_judged_as_by_brute_force(
    seed: int,
) -> None:
    rng = random.Random(seed)
    operations = _history_of_one_log(rng, count=6)
    assert is_linearizable(*operations)
    index = rng.randrange(len(operations))
    changed = list(operations)
    changed[index] = Operation(Length(rng.randrange(4)), operations[index].called, operations[index].answered)
    assert is_linearizable(*changed) == _by_brute_force(changed)


def test_a_long_history_with_many_unknown_outcomes_is_judged_soon() -> None:
    operations = _history_of_one_log(random.Random(1), count=1_000)
    assert is_linearizable(*operations)


def _history_of_one_log(rng: random.Random, count: int) -> list[Operation[Act]]:
    """Each takes effect at a moment of its own; calls and answers lie around it."""
    log: Log = ()
    operations: list[Operation[Act]] = []
    for moment in range(count):
        value = str(moment).encode()
        kind = rng.random()
        act: Act
        if kind < 0.5:
            act = Append(value, len(log))
            log = (*log, value)
        elif kind < 0.7 and log:
            act = Mismatch(value, rng.randrange(len(log)), len(log))
        else:
            act = Length(len(log))
        # Fractions keep all calls and answers apart.
        called = moment - rng.uniform(0, 3)
        answered = moment + rng.uniform(0, 3)
        is_unknown = isinstance(act, Append) and rng.random() < 0.2
        operations.append(Operation(act, called, NEVER if is_unknown else answered))
    return operations


def _by_brute_force(operations: list[Operation[Act]]) -> bool:
    """Every subset that may be left out, in every order."""
    optional = [each for each in operations if each.may_be_left_out]
    needed = [each for each in operations if not each.may_be_left_out]
    return any(
        _fits(order)
        for size in range(len(optional) + 1)
        for taken in itertools.combinations(optional, size)
        for order in itertools.permutations([*needed, *taken])
    )


def _fits(order: tuple[Operation[Act], ...]) -> bool:
    log = EMPTY_LOG
    latest_call = float("-inf")
    for each in order:
        latest_call = max(latest_call, each.called)
        after = log_step(log, each.act)
        if after is None or each.answered < latest_call:
            return False
        log = after
    return True
