"""Each invariant of the simulator can fail, and says by its name what does not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from quorate.chaos.raft import client_invariants as clients
from quorate.chaos.raft import log_invariants as logs
from quorate.chaos.raft import quorum_invariants as quorums
from quorate.chaos.raft.cluster import founding_voters
from quorate.chaos.raft.invariants import Checker, Violation
from quorate.chaos.raft.ledger import Ledger
from quorate.chaos.raft.register_machine import RegisterMachine, encode_command
from quorate.metadata.raft.entries import NO_INDEX, Entry, EntryKind, Index, Snapshot, SnapshotId, Term
from quorate.metadata.raft.messages import (
    AppendResponse,
    Envelope,
    Message,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from quorate.metadata.raft.ready import HardState
from quorate.metadata.raft.voters import VoterKey, Voters
from quorate.metadata.raft.voters_codec import encode_voters

VOTERS = founding_voters(3)
ONE, TWO, THREE = (voter.key for voter in VOTERS)
FIRST_TERM = Term(1)


@dataclass
class FakeReplica:
    key: VoterKey = ONE
    term: Term = FIRST_TERM
    is_leader: bool = False
    commit_index: Index = NO_INDEX
    voters: Voters = VOTERS
    is_recovering: bool = False
    log: list[Entry] = field(default_factory=list)

    @property
    def last_index(self) -> Index:
        return Index(len(self.log))

    def term_at(self, index: Index) -> Term | None:
        return self.log[index - 1].term if 1 <= index <= len(self.log) else None

    def is_compacted(self, index: Index) -> bool:
        return False

    def entries_between(self, first: Index, last: Index) -> Sequence[Entry]:
        return self.log[first - 1 : last]


def command(index: int, term: int = 1, *, sequence: int | None = None) -> Entry:
    number = index if sequence is None else sequence
    data = encode_command(client=0, sequence=number, attempt=number, register=0)
    return Entry(Index(index), Term(term), EntryKind.COMMAND, data)


def voters_entry(index: int, term: int, voters: Voters) -> Entry:
    return Entry(Index(index), Term(term), EntryKind.VOTERS, encode_voters(voters))


def ledger_of(*entries: Entry) -> Ledger:
    ledger = Ledger(VOTERS)
    for entry in entries:
        ledger.extend(entry, entry.term)
    return ledger


def message_from(sender: VoterKey, to: VoterKey, message: Message) -> Envelope:
    return Envelope(sender, to, 1, message)


def acknowledgement(index: int, *, term: int = 1, is_counted: bool = True) -> AppendResponse:
    return AppendResponse(Term(term), True, Index(index), Term(0), 0, is_counted)


def granted(term: int) -> VoteResponse:
    return VoteResponse(Term(term), is_granted=True, is_pre_vote=False)


def standing(term: int) -> VoteRequest:
    return VoteRequest(Term(term), Index(0), Term(0), is_pre_vote=False, is_transfer=False)


def empty_snapshot(index: int, term: int, voters: Voters = VOTERS) -> Snapshot:
    return Snapshot(SnapshotId(Index(index), Term(term)), voters, RegisterMachine().save())


# --- logs ---------------------------------------------------------------------------------------------


def one_place_with_two_contents() -> None:
    invariant = logs.LogsMatch(ledger_of())
    invariant.appended(FakeReplica(ONE), [command(1)], Index(0))
    invariant.appended(FakeReplica(TWO), [command(1, sequence=9)], Index(0))


def one_entry_with_two_predecessors() -> None:
    invariant = logs.LogsMatch(ledger_of())
    invariant.appended(FakeReplica(ONE), [command(1, 1), command(2, 3)], Index(0))
    invariant.appended(FakeReplica(TWO), [command(1, 2), command(2, 3)], Index(0))


def log_with_a_gap() -> None:
    logs.LogsMatch(ledger_of()).appended(FakeReplica(), [command(3)], Index(1))


def leader_that_replaces() -> None:
    logs.LeaderOnlyAppends(ledger_of()).appended(FakeReplica(is_leader=True), [command(1)], Index(1))


def committed_entry_that_is_cut() -> None:
    logs.CommittedEntriesAreNeverCut(ledger_of(command(1))).cut(FakeReplica(), [command(1)], Term(1))


def commit_index_that_falls() -> None:
    logs.CommitIndexNeverFalls(ledger_of(command(1))).commit_moved(
        FakeReplica(commit_index=Index(0)), Index(1)
    )


def commit_index_beyond_all_others() -> None:
    logs.CommitIndexNeverFalls(ledger_of()).commit_moved(FakeReplica(commit_index=Index(1)), Index(0))


def commit_of_another_entry() -> None:
    replica = FakeReplica(commit_index=Index(1), log=[command(1, 2)])
    logs.CommitIndexNeverFalls(ledger_of(command(1, 1))).commit_moved(replica, Index(0))


def commit_of_an_old_term() -> None:
    logs.CommittedThroughTheOwnTerm(ledger_of()).first_committed(FakeReplica(term=Term(2)), [command(1, 1)])


def acknowledgement_before_the_sync() -> None:
    invariant = logs.AcknowledgedEntriesAreDurable(ledger_of(), lambda _: Index(0))
    invariant.sent(FakeReplica(), message_from(ONE, TWO, acknowledgement(1)))


def acknowledged_entry_that_is_cut() -> None:
    invariant = logs.AcknowledgedEntriesStayForTheTerm(ledger_of())
    invariant.sent(FakeReplica(), message_from(ONE, TWO, acknowledgement(3)))
    invariant.appended(FakeReplica(), [command(2)], Index(3))


def acknowledged_entry_that_a_snapshot_takes() -> None:
    invariant = logs.AcknowledgedEntriesStayForTheTerm(ledger_of())
    invariant.sent(FakeReplica(), message_from(ONE, TWO, acknowledgement(3)))
    invariant.installed(FakeReplica(), empty_snapshot(2, 1), Index(0))


def snapshot_that_leads_back() -> None:
    invariant = logs.SnapshotsStandForCommittedEntries(ledger_of(command(1), command(2)))
    invariant.installed(FakeReplica(), empty_snapshot(1, 1), Index(2))


def snapshot_of_what_was_not_committed() -> None:
    logs.SnapshotsStandForCommittedEntries(ledger_of()).installed(
        FakeReplica(), empty_snapshot(1, 1), Index(0)
    )


def snapshot_with_other_voters() -> None:
    invariant = logs.SnapshotsStandForCommittedEntries(ledger_of(command(1)))
    invariant.installed(FakeReplica(), empty_snapshot(1, 1, founding_voters(2)), Index(0))


def two_committed_logs() -> None:
    Checker(ledger_of(command(1)), []).committed(FakeReplica(), [command(1, sequence=9)])


# --- quorums ------------------------------------------------------------------------------------------


def two_leaders_in_a_term() -> None:
    invariant = quorums.OneLeaderPerTerm(ledger_of())
    invariant.elected(FakeReplica(ONE))
    invariant.elected(FakeReplica(TWO))


def leader_without_a_committed_entry() -> None:
    quorums.LeadersAreComplete(ledger_of(command(1, 1))).elected(FakeReplica(term=Term(2)))


def two_votes_in_a_term() -> None:
    invariant = quorums.OneVotePerTerm(ledger_of())
    invariant.sent(FakeReplica(ONE), message_from(ONE, TWO, granted(1)))
    invariant.sent(FakeReplica(ONE), message_from(ONE, THREE, granted(1)))


def vote_for_another_after_standing() -> None:
    invariant = quorums.OneVotePerTerm(ledger_of())
    invariant.sent(FakeReplica(ONE), message_from(ONE, TWO, standing(1)))
    invariant.sent(FakeReplica(ONE), message_from(ONE, TWO, granted(1)))


def leader_that_nobody_elected() -> None:
    quorums.OneVotePerTerm(ledger_of()).elected(FakeReplica(ONE))


def vote_that_can_be_forgotten() -> None:
    invariant = quorums.VotesAreDurable(ledger_of(), lambda _: HardState(Term(0), None))
    invariant.sent(FakeReplica(ONE), message_from(ONE, TWO, granted(1)))


def recovering_voter_that_votes() -> None:
    invariant = quorums.RecoveringVotersStayOut(ledger_of())
    invariant.sent(FakeReplica(is_recovering=True), message_from(ONE, TWO, granted(1)))


def recovering_voter_that_counts() -> None:
    invariant = quorums.RecoveringVotersStayOut(ledger_of())
    response = SnapshotResponse(Term(1), Index(1), 0, is_counted=True)
    invariant.sent(FakeReplica(is_recovering=True), message_from(ONE, TWO, response))


def recovered_voter_that_lacks_something() -> None:
    invariant = quorums.RecoveredVotersAreWhole(ledger_of(command(1)))
    invariant.recovered(FakeReplica(), [(Index(1), Term(1))])


def commit_without_a_majority() -> None:
    invariant = quorums.CommittedByAMajority(ledger_of(), lambda key, index, term: key == ONE)
    invariant.first_committed(FakeReplica(), [command(1)])


def two_open_voter_changes() -> None:
    changes = [
        command(1),
        voters_entry(2, 1, VOTERS.without(ONE)),
        voters_entry(3, 1, VOTERS.without(TWO)),
    ]
    replica = FakeReplica(is_leader=True, commit_index=Index(1), log=changes)
    quorums.OneVoterChangeAtATime(ledger_of(command(1))).appended(replica, changes[2:], Index(2))


def voter_change_before_the_term_has_committed() -> None:
    change = voters_entry(2, 2, VOTERS.without(ONE))
    replica = FakeReplica(term=Term(2), is_leader=True, commit_index=Index(1), log=[command(1, 1), change])
    quorums.OneVoterChangeAtATime(ledger_of(command(1, 1))).appended(replica, [change], Index(1))


def change_of_two_voters() -> None:
    change = voters_entry(2, 1, VOTERS.without(ONE).without(TWO))
    replica = FakeReplica(is_leader=True, commit_index=Index(1), log=[command(1), change])
    quorums.OneVoterChangeAtATime(ledger_of(command(1))).appended(replica, [change], Index(1))


# --- clients ------------------------------------------------------------------------------------------


def state_that_differs() -> None:
    clients.StateMachinesAgree(ledger_of(command(1))).applied(FakeReplica(), Index(1), 12345)


def state_that_runs_ahead() -> None:
    clients.StateMachinesAgree(ledger_of()).applied(FakeReplica(), Index(1), 0)


def acknowledged_command_that_is_not_there() -> None:
    clients.AcknowledgedCommandsAreCommitted(ledger_of()).acknowledged(command(1).data, Index(1), Index(0))


def command_that_is_committed_twice() -> None:
    invariant = clients.CommandsAreCommittedOnce(ledger_of())
    invariant.first_committed(FakeReplica(), [command(1), command(2, sequence=1)])


def refused_command_that_is_committed() -> None:
    invariant = clients.RefusedCommandsStayAway(ledger_of())
    invariant.refused(command(1).data)
    invariant.first_committed(FakeReplica(), [command(1)])


def committed_command_that_is_refused() -> None:
    clients.RefusedCommandsStayAway(ledger_of(command(1))).refused(command(1).data)


def write_before_what_was_known() -> None:
    clients.AnswersFollowRealTime(ledger_of()).acknowledged(command(1).data, Index(1), Index(1))


def read_of_the_past() -> None:
    clients.AnswersFollowRealTime(ledger_of()).read(0, None, Index(1), Index(2))


def read_of_another_value() -> None:
    clients.ReadsSeeTheirIndex(ledger_of(command(1))).read(0, None, Index(1), Index(0))


OFFENCES: list[tuple[str, Callable[[], None]]] = [
    ("LogsMatch", one_place_with_two_contents),
    ("LogsMatch", one_entry_with_two_predecessors),
    ("LogsMatch", log_with_a_gap),
    ("LeaderOnlyAppends", leader_that_replaces),
    ("CommittedEntriesAreNeverCut", committed_entry_that_is_cut),
    ("CommitIndexNeverFalls", commit_index_that_falls),
    ("CommitIndexNeverFalls", commit_index_beyond_all_others),
    ("CommitIndexNeverFalls", commit_of_another_entry),
    ("CommittedThroughTheOwnTerm", commit_of_an_old_term),
    ("AcknowledgedEntriesAreDurable", acknowledgement_before_the_sync),
    ("AcknowledgedEntriesStayForTheTerm", acknowledged_entry_that_is_cut),
    ("AcknowledgedEntriesStayForTheTerm", acknowledged_entry_that_a_snapshot_takes),
    ("SnapshotsStandForCommittedEntries", snapshot_that_leads_back),
    ("SnapshotsStandForCommittedEntries", snapshot_of_what_was_not_committed),
    ("SnapshotsStandForCommittedEntries", snapshot_with_other_voters),
    ("CommittedLogsAgree", two_committed_logs),
    ("OneLeaderPerTerm", two_leaders_in_a_term),
    ("LeadersAreComplete", leader_without_a_committed_entry),
    ("OneVotePerTerm", two_votes_in_a_term),
    ("OneVotePerTerm", vote_for_another_after_standing),
    ("OneVotePerTerm", leader_that_nobody_elected),
    ("VotesAreDurable", vote_that_can_be_forgotten),
    ("RecoveringVotersStayOut", recovering_voter_that_votes),
    ("RecoveringVotersStayOut", recovering_voter_that_counts),
    ("RecoveredVotersAreWhole", recovered_voter_that_lacks_something),
    ("CommittedByAMajority", commit_without_a_majority),
    ("OneVoterChangeAtATime", two_open_voter_changes),
    ("OneVoterChangeAtATime", voter_change_before_the_term_has_committed),
    ("OneVoterChangeAtATime", change_of_two_voters),
    ("StateMachinesAgree", state_that_differs),
    ("StateMachinesAgree", state_that_runs_ahead),
    ("AcknowledgedCommandsAreCommitted", acknowledged_command_that_is_not_there),
    ("CommandsAreCommittedOnce", command_that_is_committed_twice),
    ("RefusedCommandsStayAway", refused_command_that_is_committed),
    ("RefusedCommandsStayAway", committed_command_that_is_refused),
    ("AnswersFollowRealTime", write_before_what_was_known),
    ("AnswersFollowRealTime", read_of_the_past),
    ("ReadsSeeTheirIndex", read_of_another_value),
]


@pytest.mark.parametrize(
    ("invariant", "offend"), OFFENCES, ids=[offend.__name__.replace("_", " ") for _, offend in OFFENCES]
)
def test_offence_is_reported(invariant: str, offend: Callable[[], None]) -> None:
    with pytest.raises(Violation) as raised:
        offend()
    assert raised.value.invariant == invariant


def test_every_invariant_has_an_offence() -> None:
    known = {*logs.__all__, *quorums.__all__, *clients.__all__, "CommittedLogsAgree"}
    assert {invariant for invariant, _ in OFFENCES} == known
