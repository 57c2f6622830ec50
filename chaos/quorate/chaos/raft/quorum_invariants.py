"""What must hold of votes, of leaders, and of the majorities behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from quorate.chaos.raft.invariants import Invariant, Replica
from quorate.chaos.raft.ledger import Ledger
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Term
from quorate.metadata.raft.messages import (
    AppendResponse,
    Envelope,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from quorate.metadata.raft.ready import HardState
from quorate.metadata.raft.voters import VoterKey, Voters
from quorate.metadata.raft.voters_codec import decode_voters

__all__ = [
    "CommittedByAMajority",
    "LeadersAreComplete",
    "OneLeaderPerTerm",
    "OneVotePerTerm",
    "OneVoterChangeAtATime",
    "RecoveredVotersAreWhole",
    "RecoveringVotersStayOut",
    "VotesAreDurable",
]

#: whether a voter's disk holds an entry in such a way that a leader may count it
IsCounted: TypeAlias = Callable[[VoterKey, Index, Term], bool]
DurableHardState: TypeAlias = Callable[[VoterKey], HardState]


class OneLeaderPerTerm(Invariant):
    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._leaders: dict[Term, VoterKey] = {}

    def elected(self, replica: Replica) -> None:
        leader = self._leaders.setdefault(replica.term, replica.key)
        if leader != replica.key:
            self.fail(f"{leader} and {replica.key} both lead in term {replica.term}")


class LeadersAreComplete(Invariant):
    """A leader holds every entry that was committed in an earlier term (Leader Completeness)."""

    def elected(self, replica: Replica) -> None:
        index = self.ledger.committed_before_term(replica.term)
        if index == 0 or replica.is_compacted(index):
            return
        if replica.term_at(index) != self.ledger.term_at(index):
            self.fail(f"{replica.key} leads in term {replica.term} without the committed entry {index}")


class OneVotePerTerm(Invariant):
    """Per directory: a disk that was wiped is another voter. A candidate's request is its vote for itself."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._votes: dict[tuple[VoterKey, Term], VoterKey] = {}

    def sent(self, replica: Replica, envelope: Envelope) -> None:
        candidate = vote_in(envelope)
        if candidate is None:
            return
        term = envelope.message.term
        vote = self._votes.setdefault((envelope.sender, term), candidate)
        if vote != candidate:
            self.fail(f"{envelope.sender} voted for {vote} and for {candidate} in term {term}")

    def elected(self, replica: Replica) -> None:
        """By votes of this very term, of voters in force; its own is known to be among them."""
        term = replica.term
        votes = [
            voter.key
            for voter in replica.voters
            if voter.key == replica.key or self._votes.get((voter.key, term)) == replica.key
        ]
        if len(votes) < replica.voters.majority:
            self.fail(
                f"{replica.key} leads in term {term} with only the votes of {[str(key) for key in votes]}"
            )


class VotesAreDurable(Invariant):
    """A vote leaves after it was synced (rule 38)."""

    def __init__(self, ledger: Ledger, durable: DurableHardState) -> None:
        super().__init__(ledger)
        self._durable = durable

    def sent(self, replica: Replica, envelope: Envelope) -> None:
        candidate = vote_in(envelope)
        if candidate is None:
            return
        term, durable = envelope.message.term, self._durable(replica.key)
        is_overtaken = durable.term > term
        if not is_overtaken and (durable.term, durable.vote) != (term, candidate):
            self.fail(f"{replica.key} voted for {candidate} in term {term}, its disk says {durable}")


class RecoveringVotersStayOut(Invariant):
    """A voter that lost part of its log neither votes nor counts (rule 44)."""

    def sent(self, replica: Replica, envelope: Envelope) -> None:
        if not replica.is_recovering:
            return
        match envelope.message:
            case VoteRequest() | VoteResponse(is_granted=True):
                self.fail(f"{replica.key} is recovering, and takes part in an election")
            case AppendResponse(is_counted=True) | SnapshotResponse(is_counted=True):
                self.fail(f"{replica.key} is recovering, and wants to be counted")


class RecoveredVotersAreWhole(Invariant):
    """A voter that counts itself again has every committed entry that it held before (rule 44)."""

    def recovered(self, replica: Replica, lost: Sequence[tuple[Index, Term]]) -> None:
        for index, term in lost:
            if index <= self.ledger.last_index and self.ledger.term_at(index) == term:
                self.fail(f"{replica.key} recovered without {index} of term {term}, which is committed")


class CommittedByAMajority(Invariant):
    """What is committed is on the disks of a majority of the voters in force, and may be counted there."""

    def __init__(self, ledger: Ledger, is_counted: IsCounted) -> None:
        super().__init__(ledger)
        self._is_counted = is_counted
        #: a step may commit under the old voters and append the new ones
        self._voters_before: dict[VoterKey, Voters] = {}

    def first_committed(self, replica: Replica, entries: Sequence[Entry]) -> None:
        index, term = entries[-1].index, entries[-1].term
        before = self._voters_before.get(replica.key, replica.voters)
        if not any(self._is_on_a_majority(voters, index, term) for voters in (replica.voters, before)):
            self.fail(
                f"{replica.key} committed {index} of term {term} without a majority of {replica.voters}"
            )
        self._voters_before[replica.key] = replica.voters

    def elected(self, replica: Replica) -> None:
        self._voters_before[replica.key] = replica.voters

    def _is_on_a_majority(self, voters: Voters, index: Index, term: Term) -> bool:
        return sum(self._is_counted(voter.key, index, term) for voter in voters) >= voters.majority


class OneVoterChangeAtATime(Invariant):
    """A leader adds or removes one voter, after the change before and an entry of its term are committed."""

    def appended(self, replica: Replica, entries: Sequence[Entry], previous_last: Index) -> None:
        if not replica.is_leader:
            return
        for entry in entries:
            if entry.kind is EntryKind.VOTERS and entry.term == replica.term:
                self._check(replica, entry)

    def _check(self, replica: Replica, change: Entry) -> None:
        commit_index = replica.commit_index
        pending = replica.entries_between(Index(commit_index + 1), Index(change.index - 1))
        if any(entry.kind is EntryKind.VOTERS for entry in pending):
            self.fail(f"{replica.key} appended {change} while another change is not committed")
        if not commit_index or replica.term_at(commit_index) != replica.term:
            self.fail(f"{replica.key} appended {change} before it committed in term {replica.term}")
        before = set(self.ledger.voters_at(commit_index))
        changed = before.symmetric_difference(decode_voters(change.data))
        if len(changed) != 1:
            self.fail(f"{replica.key} changed {len(changed)} voters at once: {sorted(changed)}")


def vote_in(envelope: Envelope) -> VoterKey | None:
    """Whom the sender votes for by this message, if it does."""
    message = envelope.message
    if type(message) is VoteResponse:
        return envelope.to if message.is_granted and not message.is_pre_vote else None
    if type(message) is VoteRequest:
        return None if message.is_pre_vote else envelope.sender
    return None
