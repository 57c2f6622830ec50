"""Topics that are deleted, logs that retention shortens, and how long clients wait."""

from __future__ import annotations

import dataclasses
import math

from quorate.chaos.checks.liveness import Span, quiet_spans, waits
from quorate.chaos.history.entries import FaultWindow, Sent
from quorate.chaos.history.history import History
from quorate.core.ids import Offset, TopicName
from quorate.errors import NotEnoughReplicas
from tests.unit.chaos_checks.planted import PARTITION, Case

# -- topics that are deleted


def delete(case: Case) -> None:
    deletion = case.history.delete_topic(TopicName("t"))
    case.log.clear()
    for copy in case.copies.values():
        copy.clear()
    case.history.topic_deleted(deletion)


def test_records_of_a_deleted_topic_are_not_missed_and_offsets_begin_again() -> None:
    case = Case()
    delete(case)
    case.acknowledged("later")
    case.history.caught_up(case.read([0]))
    assert case.flagged() == set()


def test_record_of_a_deleted_topic_must_not_come_back() -> None:
    case = Case()
    former = case.log[0]
    delete(case)
    case.acknowledged("later")
    case.append_value(former)
    assert case.flagged() == {"phantom"}
    assert "deleted before" in case.verdicts()["phantom"].findings[0]


def test_record_that_was_on_its_way_during_the_deletion_may_be_in_either_topic() -> None:
    for is_written in (False, True):
        case = Case()
        sent = case.begin("around")
        delete(case)
        if is_written:
            case.append(sent)
        case.history.acknowledge(sent, Offset(0))
        assert case.flagged() == set()


def test_after_a_deletion_whose_outcome_is_unknown_nothing_is_held_against_the_log() -> None:
    case = Case()
    case.history.delete_topic(TopicName("t"))
    case.log.clear()
    case.copies = {}
    assert case.flagged() == set()


def test_loss_after_the_deletion_is_found() -> None:
    case = Case()
    delete(case)
    case.history.acknowledge(case.begin("later"), Offset(0))
    assert case.flagged() == {"lost-write"}


# -- logs that retention shortens


def shorten(case: Case, start: int) -> None:
    case.final = dataclasses.replace(case.final, may_delete=True, log_start_offset=Offset(start))


def test_what_retention_has_deleted_is_not_lost() -> None:
    case = Case()
    records = case.verdicts()["lost-write"].examined
    shorten(case, 3)
    case.log[:3] = [b"deleted-0", b"deleted-1", b"deleted-2"]
    flagged = case.flagged()
    # Its place holders were never sent; that the true records are missing is nobody's concern.
    assert "lost-write" not in flagged
    assert case.verdicts()["lost-write"].examined == records


def test_replicas_that_begin_at_different_offsets_are_compared_from_where_both_begin() -> None:
    case = Case()
    shorten(case, 2)
    del case.copies["broker-1"][Offset(0)]
    del case.copies["broker-1"][Offset(1)]
    assert case.flagged() == set()
    case.copies["broker-1"][Offset(2)] = b"something else"
    assert case.flagged() == {"replicas-differ"}


# -- how long clients wait


def sent_at(history: History, begun_s: float, ended_s: float | None, *, is_refused: bool = False) -> Sent:
    sent = history.begin("producer", PARTITION)
    if ended_s is not None:
        if is_refused:
            history.fail(sent, NotEnoughReplicas("no"))
        else:
            history.acknowledge(sent, Offset(len(history.sent)))
    sent.begun_s, sent.ended_s = begun_s, ended_s
    return sent


def test_wait_reaches_from_a_send_or_the_acknowledgement_before_it_to_the_next() -> None:
    history = History()
    sent = [
        sent_at(history, 1.0, 2.0),
        # Nobody waits from 2 to 5.
        sent_at(history, 5.0, 9.0),
        sent_at(history, 6.0, 12.0),
    ]
    assert list(waits(sent)) == [Span(1.0, 2.0), Span(5.0, 9.0), Span(9.0, 12.0)]


def test_refusal_does_not_end_a_wait() -> None:
    history = History()
    sent = [sent_at(history, 1.0, 2.0, is_refused=True), sent_at(history, 4.0, 7.0)]
    assert list(waits(sent)) == [Span(1.0, 7.0)]


def test_wait_that_nothing_ends_lasts_as_long_as_anything_was_heard() -> None:
    history = History()
    sent = [sent_at(history, 1.0, None), sent_at(history, 4.0, 7.0, is_refused=True)]
    assert list(waits(sent)) == [Span(1.0, 7.0)]


def window(begun_s: float, ended_s: float | None) -> FaultWindow:
    return FaultWindow(1, "kill", "broker-1", begun_s, ended_s)


def test_time_is_quiet_when_no_fault_lasts() -> None:
    faults = [window(10.0, 20.0), window(15.0, 18.0), window(12.0, 30.0), window(40.0, 50.0)]
    assert quiet_spans(faults) == [Span(-math.inf, 10.0), Span(30.0, 40.0), Span(50.0, math.inf)]
    assert quiet_spans([]) == [Span(-math.inf, math.inf)]
    assert quiet_spans([window(10.0, None)]) == [Span(-math.inf, 10.0)]


def test_long_wait_during_a_fault_is_measured_and_allowed() -> None:
    case = Case()
    case.state = dataclasses.replace(case.state, acknowledged_within_s=30.0)
    fault = case.history.inflict("partition", "all")
    sent = case.begin("patient")
    case.clock.now += 100
    case.history.heal(fault)
    case.clock.now += 20
    case.history.acknowledge(sent, case.append(sent))
    case.read([sent.offset or 0], start=sent.offset)
    verdict = case.verdicts()["unavailable"]
    assert case.flagged() == set()
    assert verdict.figures["longest_wait_s"] > 120
    assert 20 < verdict.figures["longest_recovery_s"] < 30
