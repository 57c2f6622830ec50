"""Each thing that must not be is flagged by the check that is there for it, and by no other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

import pytest

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.final_state import AcceptedLoss, FinalPartition, FinalState, SentKey, StoredDamage
from quorate.chaos.checks.verdict import FINDINGS_MAX, raise_violations
from quorate.chaos.checks.violation import Violation
from quorate.chaos.history.entries import ReadRecord
from quorate.chaos.history.history import History
from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import DeliveryTimedOut
from tests.unit.chaos_checks.planted import PARTITION, Case, consumer_record

Plant = Callable[[Case], None]


def acknowledged_and_nowhere(case: Case) -> None:
    case.history.acknowledge(case.begin("late"), Offset(len(case.log)))


def acknowledged_and_overwritten(case: Case) -> None:
    case.history.acknowledge(case.begin("late"), Offset(6))


def acknowledged_at_another_offset(case: Case) -> None:
    sent = case.begin("late")
    case.history.acknowledge(sent, Offset(case.append(sent) + 2))


def two_readers_see_different_values(case: Case) -> None:
    case.read_values([(2, case.log[3])], start=2)


def read_behind_the_end_of_the_log(case: Case) -> None:
    case.read_values([(7, case.missing.value)], start=7)


def one_replica_has_other_bytes(case: Case) -> None:
    case.copies["broker-2"][Offset(3)] = b"something else"


def one_replica_lacks_its_end(case: Case) -> None:
    del case.copies["broker-3"][Offset(6)]


def deleted_key_is_back(case: Case) -> None:
    """Its tombstone was acknowledged, and is gone; what it deleted is not."""
    sent = case.begin("late")
    case.history.acknowledge(sent, Offset(len(case.log)))
    keys = {value: SentKey(b"key of %d" % offset, False) for offset, value in enumerate(case.log)}
    keys[sent.value] = SentKey(b"key of 0", True)
    case.final = dataclasses.replace(case.final, keys=keys)


def nobody_read_it(case: Case) -> None:
    case.acknowledged("late")


def written_twice(case: Case) -> None:
    case.append_value(case.log[0])


def never_sent(case: Case) -> None:
    case.append_value(b"from nowhere")


def refused_and_written(case: Case) -> None:
    case.append(case.refused)


def reader_goes_on_in_another_log(case: Case) -> None:
    """What it read at 7 was given up, with an operator's consent, and it reads the next one at 8."""
    case.history.acknowledge(case.begin("late"), Offset(7))
    lost = case.history.sent[-1].value
    reader = case.read_values([(7, lost)], start=7)
    case.final = dataclasses.replace(case.final, losses=(AcceptedLoss(Offset(7), case.clock.now),))
    for _ in range(2):
        case.acknowledged("new")
    case.history.polled(reader, [consumer_record(PARTITION, 8, case.log[8])])
    case.history.caught_up(case.read(range(9)))


def skip_within_a_poll(case: Case) -> None:
    case.read([0, 1, 3])


def backwards_within_a_poll(case: Case) -> None:
    case.read([0, 1, 1])


def skip_between_polls(case: Case) -> None:
    case.read([0], [2])


def skip_at_the_start(case: Case) -> None:
    case.read([1, 2])


def backwards_between_polls(case: Case) -> None:
    case.read([0, 1], [1, 2])


def records_of_a_producer_change_places(case: Case) -> None:
    first, second = case.begin("late"), case.begin("late")
    case.append(second)
    case.append(first)


def before_what_was_known(case: Case) -> None:
    case.written.begun_s = case.clock()


def high_watermark_goes_back(case: Case) -> None:
    case.saw_watermark(6)


def high_watermark_is_behind_an_acknowledgement(case: Case) -> None:
    sent = case.acknowledged("late")
    case.read([sent.offset or 0], start=sent.offset)
    case.history.watermarks[-1].begun_s = case.clock()


def high_watermark_was_higher_than_in_the_end(case: Case) -> None:
    case.saw_watermark(8)


def log_start_goes_back(case: Case) -> None:
    case.final = dataclasses.replace(case.final, may_delete=True)
    case.saw_watermark(7, log_start_offset=3)
    case.saw_watermark(7, log_start_offset=2)


def leader_epoch_goes_back(case: Case) -> None:
    case.saw_metadata(leader=1, leader_epoch=0, partition_epoch=3, isr=[1, 2, 3])


def partition_epoch_goes_back(case: Case) -> None:
    case.saw_metadata(leader=2, leader_epoch=1, partition_epoch=1, isr=[2, 3])


def two_leaders_of_one_epoch(case: Case) -> None:
    case.saw_metadata(leader=3, leader_epoch=1, partition_epoch=1, isr=[2, 3], source="another follower")


def elected_from_outside(case: Case) -> None:
    case.saw_metadata(leader=2, leader_epoch=1, partition_epoch=3, isr=[2], elr=[3])
    case.saw_metadata(leader=1, leader_epoch=2, partition_epoch=4, isr=[1])


def marked_as_unclean(case: Case) -> None:
    case.final = dataclasses.replace(case.final, unclean_leader_epochs=(LeaderEpoch(1),))


def deleted_although_nothing_may_be(case: Case) -> None:
    case.final = dataclasses.replace(case.final, log_start_offset=Offset(2))


def deleted_behind_the_high_watermark(case: Case) -> None:
    case.final = dataclasses.replace(case.final, may_delete=True)
    case.saw_watermark(7, log_start_offset=8)


FOUND = StoredDamage("broker-1:topic-0", "a bit is flipped", detections=1)


def damage_goes_unnoticed(case: Case) -> None:
    case.state = dataclasses.replace(case.state, damages=(FOUND, dataclasses.replace(FOUND, detections=0)))


def nothing_is_served_after_healing(case: Case) -> None:
    case.state = dataclasses.replace(case.state, acknowledged_within_s=30.0)
    waiting = case.begin("late")
    case.clock.now += 40
    case.history.fail(waiting, DeliveryTimedOut("too late"))


def nobody_in_the_group_was_handed_it(case: Case) -> None:
    """The last record, that is: one was handed another's by mistake, and committed behind it."""
    case.ledger.committing("member-2", {PARTITION: Offset(7)})
    case.ledger.given("member-3", PARTITION, start=Offset(7), member_epoch=3)
    case.ledger.has_read_all()


def member_begins_where_nobody_was(case: Case) -> None:
    case.ledger.given("member-3", PARTITION, start=Offset(7), member_epoch=3)


def member_begins_before_what_was_committed(case: Case) -> None:
    case.member_reads("member-3", range(3, 7), epoch=3)


def member_begins_before_what_was_committed_and_says_so_late(case: Case) -> None:
    case.ledger.given("member-3", PARTITION, member_epoch=3)
    case.ledger.handed_out("member-3", PARTITION, [ReadRecord(Offset(4), case.log[4])])


def member_commits_what_is_another_s(case: Case) -> None:
    case.member_reads("member-3", [6], epoch=3)
    case.member_commits("member-2")


def two_members_are_given_it_in_one_epoch(case: Case) -> None:
    case.member_reads("member-3", [6], epoch=2)


def what_was_to_happen_did_not(case: Case) -> None:
    case.state = dataclasses.replace(case.state, counters={"elections": 1}, expected=("elections", "wipes"))


PLANTS: Final[list[tuple[Plant, str]]] = [
    (acknowledged_and_nowhere, "lost-write"),
    (acknowledged_and_overwritten, "lost-write"),
    (acknowledged_at_another_offset, "inconsistent-offsets"),
    (two_readers_see_different_values, "inconsistent-offsets"),
    (read_behind_the_end_of_the_log, "inconsistent-offsets"),
    (one_replica_has_other_bytes, "replicas-differ"),
    (one_replica_lacks_its_end, "replicas-differ"),
    (deleted_key_is_back, "last-word"),
    (nobody_read_it, "unseen"),
    (written_twice, "duplicate"),
    (never_sent, "phantom"),
    (refused_and_written, "aborted-read"),
    (reader_goes_on_in_another_log, "silent-loss"),
    (skip_within_a_poll, "int-poll-skip"),
    (backwards_within_a_poll, "int-nonmonotonic-poll"),
    (skip_between_polls, "poll-skip"),
    (skip_at_the_start, "poll-skip"),
    (backwards_between_polls, "nonmonotonic-poll"),
    (records_of_a_producer_change_places, "nonmonotonic-send"),
    (before_what_was_known, "real-time-order"),
    (high_watermark_goes_back, "nonmonotonic-watermark"),
    (high_watermark_is_behind_an_acknowledgement, "nonmonotonic-watermark"),
    (high_watermark_was_higher_than_in_the_end, "nonmonotonic-watermark"),
    (log_start_goes_back, "nonmonotonic-watermark"),
    (leader_epoch_goes_back, "nonmonotonic-epoch"),
    (partition_epoch_goes_back, "nonmonotonic-epoch"),
    (two_leaders_of_one_epoch, "split-brain"),
    (elected_from_outside, "unclean-election"),
    (marked_as_unclean, "unclean-election"),
    (deleted_although_nothing_may_be, "retention"),
    (deleted_behind_the_high_watermark, "retention"),
    (damage_goes_unnoticed, "undetected-damage"),
    (nothing_is_served_after_healing, "unavailable"),
    (nobody_in_the_group_was_handed_it, "group-skipped"),
    (member_begins_before_what_was_committed, "commit-lost"),
    (member_begins_before_what_was_committed_and_says_so_late, "commit-lost"),
    (member_begins_where_nobody_was, "commit-invented"),
    (member_commits_what_is_another_s, "zombie-commit"),
    (two_members_are_given_it_in_one_epoch, "two-owners"),
    (what_was_to_happen_did_not, "vacuous"),
]


def test_clean_history_is_flagged_by_nobody_and_looked_at_by_all() -> None:
    verdicts = Case().verdicts()
    assert [each.findings for each in verdicts.values() if not each.passed] == []
    # Those that have nothing to look at: nothing was given up, no damage was done, every acks was "all", the
    # topic is not compacted, and no group is said to have read to the end.
    assert {name for name, each in verdicts.items() if not each.examined} == {
        "group-skipped",
        "last-word",
        "silent-loss",
        "undetected-damage",
        "weak-acks",
    }


@pytest.mark.parametrize(("plant", "check"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_planted_anomaly_is_flagged_by_its_check_and_no_other(plant: Plant, check: str) -> None:
    case = Case()
    plant(case)
    assert case.flagged() == {check}


def test_every_check_has_something_planted_for_it() -> None:
    planted = {check for _, check in PLANTS}
    assert planted == set(Case().verdicts()) - {"weak-acks"}


def test_members_that_come_late_or_are_refused_have_done_nothing_wrong() -> None:
    case = Case()
    case.member_reads("member-3", [6], epoch=3)
    case.member_commits("member-2", error="FENCED_MEMBER_EPOCH")
    # Given back to one who had it: its commits count again.
    case.ledger.taken("member-2", [PARTITION])
    case.ledger.given("member-2", PARTITION, start=Offset(7), member_epoch=4)
    case.ledger.committed(case.ledger.committing("member-2", {PARTITION: Offset(7)}))
    case.ledger.has_read_all()
    assert case.flagged() == set()
    assert case.verdicts()["group-skipped"].examined == len(case.log)


def test_member_that_learns_late_of_what_it_had_takes_nothing_from_its_owner() -> None:
    case = Case()
    case.member_reads("member-3", [6], epoch=4)
    # The group had given it to this one before, and to the other since; it was cut off meanwhile.
    case.ledger.given("member-4", PARTITION, start=Offset(6), member_epoch=3)
    case.member_commits("member-3")
    assert case.flagged() == set()


def test_commit_is_a_zombie_s_from_when_the_first_of_its_successors_knew() -> None:
    case = Case()
    case.member_reads("member-3", [6], epoch=4)
    case.member_commits("member-2")
    # Another one that came in between learns of it last.
    case.ledger.given("member-4", PARTITION, start=Offset(6), member_epoch=3)
    assert case.flagged() == {"zombie-commit"}


def test_member_that_learns_late_begins_where_those_before_it_were() -> None:
    case = Case()
    case.member_reads("member-3", [6], epoch=4)
    case.ledger.given("member-4", PARTITION, start=Offset(3), member_epoch=3)
    assert case.flagged() == {"commit-lost"}


def test_nothing_acknowledged_at_all_is_vacuous() -> None:
    history = History()
    history.begin("producer", PARTITION)
    final = FinalState({PARTITION: FinalPartition(Offset(0), {})})
    assert [each.check for each in check_all(history, final) if not each.passed] == ["vacuous"]


def test_lower_acks_lose_without_a_violation_and_are_counted() -> None:
    case = Case()
    for acks, offset in (("1", Offset(6)), ("0", None)):
        case.history.acknowledge(case.begin("weak", acks=acks), offset)  # type: ignore[arg-type]
    kept = case.begin("weak", acks="1")
    case.history.acknowledge(kept, case.append(kept))
    # Sent twice without idempotence, and in another order: nobody promised anything.
    case.append(kept)
    verdict = case.verdicts()["weak-acks"]
    assert case.flagged() == set()
    assert verdict.figures == {
        "acks_0_acknowledged": 1,
        "acks_0_lost": 1,
        "acks_1_acknowledged": 2,
        "acks_1_lost": 1,
    }


def test_damage_that_is_noticed_each_time_is_no_violation() -> None:
    case = Case()
    case.state = dataclasses.replace(case.state, damages=(FOUND, dataclasses.replace(FOUND, detections=2)))
    assert case.flagged() == set()


def test_each_damage_has_to_be_noticed_by_itself() -> None:
    case = Case()
    unseen = tuple(StoredDamage(f"broker-{number}:topic-0", "a bit is flipped", 0) for number in range(18))
    case.state = dataclasses.replace(case.state, damages=(FOUND, *unseen))
    verdict = case.verdicts()["undetected-damage"]
    assert verdict.found == 18
    assert verdict.findings[0] == "broker-0:topic-0: a bit is flipped, and its broker has not noticed"
    assert verdict.figures == {"damage_done": 19, "damage_detected": 1, "damage_gone_unread": 0}


def test_damage_that_was_seen_to_be_gone_before_anybody_could_read_it_does_not_count() -> None:
    case = Case()
    gone = StoredDamage("broker-2:topic-0", "a bit is flipped", 0, is_gone=True)
    case.state = dataclasses.replace(
        case.state, damages=(FOUND, gone, dataclasses.replace(gone, detections=1))
    )
    verdict = case.verdicts()["undetected-damage"]
    assert verdict.passed
    assert verdict.figures == {"damage_done": 2, "damage_detected": 2, "damage_gone_unread": 1}


def test_violation_is_named_after_the_first_check_and_tells_of_all() -> None:
    case = Case()
    acknowledged_and_nowhere(case)
    marked_as_unclean(case)
    with pytest.raises(Violation, match=r"lost-write: .*(?s:.*)unclean-election: ") as caught:
        raise_violations(case.verdicts().values())
    assert caught.value.check == "lost-write"


def test_many_findings_are_counted_and_a_few_told() -> None:
    case = Case()
    for _ in range(FINDINGS_MAX + 5):
        acknowledged_and_nowhere(case)
    verdict = case.verdicts()["lost-write"]
    assert len(verdict.findings) == FINDINGS_MAX
    assert verdict.found == FINDINGS_MAX + 5
    with pytest.raises(Violation, match="and 5 more"):
        raise_violations([verdict])
