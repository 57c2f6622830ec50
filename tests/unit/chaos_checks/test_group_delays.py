"""How long records waited for a group: told apart by whether their partition was on the move."""

from __future__ import annotations

from quorate.chaos.history.entries import ReadRecord
from quorate.chaos.history.group_delays import GroupDelays, group_delays
from quorate.chaos.history.group_ledger import GroupLedger
from quorate.chaos.history.history import History
from quorate.core.ids import Offset
from tests.unit.chaos_checks.planted import PARTITION


class Group:
    """One partition; the times are given."""

    def __init__(self) -> None:
        self.now = 0.0
        self.history = History(lambda: self.now)
        self.ledger = GroupLedger(self.history, "g")
        self.count = 0

    def written(self, at_s: float) -> ReadRecord:
        self.now = at_s
        sent = self.history.begin("writer", PARTITION)
        self.history.acknowledge(sent, Offset(self.count))
        self.count += 1
        return ReadRecord(Offset(self.count - 1), sent.value)

    def given(self, member: str, at_s: float) -> None:
        self.ledger.given(member, PARTITION, at_s=at_s)

    def read(self, member: str, at_s: float, *records: ReadRecord) -> None:
        self.ledger.handed_out(member, PARTITION, records, at_s=at_s)

    def delays(self, since_s: float = 0.0) -> GroupDelays:
        return group_delays(self.history, "g", since_s=since_s)


def test_what_stays_is_measured_from_the_acknowledgement() -> None:
    group = Group()
    group.given("a", 1.0)
    group.read("a", 2.5, group.written(2.0))
    group.read("a", 3.1, group.written(3.0))
    assert group.delays().stayed_s == 0.5
    assert group.delays().stayed == f"{PARTITION}, a at 2.500"
    assert group.delays().moved_s == 0.0
    assert round(group.delays(since_s=3.0).stayed_s, 3) == 0.1


def test_what_moves_is_measured_from_one_member_s_last_record_to_the_next_one_s_first() -> None:
    group = Group()
    group.given("a", 1.0)
    group.read("a", 2.0, group.written(2.0))
    late = group.written(3.0)
    group.given("b", 5.0)
    group.read("b", 5.5, late)
    delays = group.delays(since_s=4.0)
    assert delays.moved_s == 3.5
    assert delays.stayed_s == 0.0, "it had nothing to do with whoever had it in the end"


def test_other_groups_and_readers_do_not_count() -> None:
    group = Group()
    group.given("a", 1.0)
    group.read("a", 9.0, group.written(2.0))
    assert group_delays(group.history, "another", since_s=0.0) == GroupDelays()
