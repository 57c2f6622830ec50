"""What an operator gives up excuses exactly that: of one partition, from one offset on, until one moment."""

from __future__ import annotations

import dataclasses

from quorate.chaos.checks.final_state import AcceptedLoss
from quorate.core.ids import LeaderEpoch, Offset
from tests.unit.chaos_checks.planted import Case

#: the log of the clean history ends there
END = 7


def with_loss(case: Case, *, from_offset: int = END, until_s: float | None = None) -> Case:
    """By default of everything that was asked for up to now."""
    loss = AcceptedLoss(Offset(from_offset), case.clock.now if until_s is None else until_s)
    case.final = dataclasses.replace(case.final, losses=(loss,), unclean_leader_epochs=(LeaderEpoch(2),))
    return case


def lose_two(case: Case) -> None:
    """Acknowledged, read and told of; then nothing of it is there."""
    for offset in (END, END + 1):
        case.history.acknowledge(case.begin("late"), Offset(offset))
    values = [sent.value for sent in case.history.sent[-2:]]
    case.saw_watermark(END + 2)
    case.read_values(list(enumerate(values, start=END)), start=END)


def test_what_was_given_up_may_be_missing_and_is_counted() -> None:
    case = Case()
    lose_two(case)
    with_loss(case)
    assert case.flagged() == set()
    assert case.verdicts()["lost-write"].figures == {"acknowledged_and_given_up": 2}
    assert case.verdicts()["silent-loss"].examined > 0


def test_what_was_given_up_may_stand_where_an_earlier_attempt_put_it() -> None:
    case = Case()
    sent = case.begin("late")
    case.history.acknowledge(sent, Offset(END + 5))
    case.append(sent)
    assert "inconsistent-offsets" in case.flagged()
    with_loss(case)
    assert case.flagged() == set()


def test_without_consent_nothing_may() -> None:
    case = Case()
    lose_two(case)
    assert case.flagged() >= {"lost-write", "inconsistent-offsets", "nonmonotonic-watermark"}


def test_what_the_new_leader_had_may_not_be_missing() -> None:
    case = Case()
    lose_two(case)
    with_loss(case, from_offset=END + 1)
    assert {"lost-write", "inconsistent-offsets"} <= case.flagged()


def test_what_comes_after_it_may_not_be_missing() -> None:
    case = with_loss(Case())
    lose_two(case)
    assert {"lost-write", "inconsistent-offsets"} <= case.flagged()


def test_what_comes_after_it_may_stand_where_the_lost_records_stood() -> None:
    case = Case()
    lose_two(case)
    with_loss(case)
    for _ in range(3):
        case.acknowledged("new")
    case.saw_watermark(END + 3)
    case.history.caught_up(case.read(range(END + 3)))
    assert case.flagged() == set()


def test_an_election_that_was_allowed_is_no_unclean_one() -> None:
    case = with_loss(Case())
    case.saw_metadata(leader=1, leader_epoch=2, partition_epoch=3, isr=[1])
    assert case.flagged() == set()
    case.final = dataclasses.replace(case.final, losses=())
    assert case.flagged() == {"unclean-election"}


def test_a_record_is_in_the_log_once_whatever_was_given_up() -> None:
    case = with_loss(Case())
    case.append_value(case.log[0])
    assert case.flagged() == {"duplicate"}
