"""What must hold of the logs, and of what is committed in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorate.chaos.raft.invariants import Invariant, Replica
from quorate.chaos.raft.ledger import Ledger
from quorate.metadata.raft.entries import NO_INDEX, NO_TERM, Entry, Index, Snapshot, Term
from quorate.metadata.raft.messages import AppendResponse, Envelope, SnapshotResponse
from quorate.metadata.raft.voters import VoterKey

__all__ = [
    "AcknowledgedEntriesAreDurable",
    "AcknowledgedEntriesStayForTheTerm",
    "CommitIndexNeverFalls",
    "CommittedEntriesAreNeverCut",
    "CommittedThroughTheOwnTerm",
    "LeaderOnlyAppends",
    "LogsMatch",
    "SnapshotsStandForCommittedEntries",
]


class LogsMatch(Invariant):
    """Two logs that hold the same (index, term) are the same up to there (Log Matching).

    By induction: an (index, term) has one content and one predecessor, wherever it stands.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._known: dict[tuple[Index, Term], tuple[Entry, Term]] = {}

    def appended(self, replica: Replica, entries: Sequence[Entry], previous_last: Index) -> None:
        first = entries[0].index
        if first > previous_last + 1:
            self.fail(f"{replica.key} has a gap before {first}")
        before = NO_TERM if first == 1 else replica.term_at(Index(first - 1))
        for entry in entries:
            if before is not None:
                known, predecessor = self._known.setdefault((entry.index, entry.term), (entry, before))
                if known is not entry and known != entry:
                    self.fail(f"{replica.key} holds {entry}, another one holds {known}")
                if predecessor != before:
                    self.fail(f"{replica.key} holds {entry} after term {before}, another after {predecessor}")
            before = entry.term


class LeaderOnlyAppends(Invariant):
    """A leader never replaces an entry of its own log."""

    def appended(self, replica: Replica, entries: Sequence[Entry], previous_last: Index) -> None:
        if replica.is_leader and entries[0].index <= previous_last:
            self.fail(f"{replica.key} leads, and replaced {entries[0].index}..{previous_last}")


class CommittedEntriesAreNeverCut(Invariant):
    """Not even to be written again: a crash in between would leave one copy less than the leader counted.

    A voter that lags may be told to by a leader of a term that is over, before an entry was committed in a
    later one. Its copy was not counted for that, and it will get the entry again.
    """

    def cut(self, replica: Replica, entries: Sequence[Entry], term: Term) -> None:
        known = self.ledger.entries
        for entry in entries:
            is_committed = entry.index <= len(known) and known[entry.index - 1] == entry
            if is_committed and self.ledger.commit_term_at(entry.index) <= term:
                self.fail(f"{replica.key} cut {entry}, which is committed, from its disk in term {term}")


class CommitIndexNeverFalls(Invariant):
    """For as long as a process lives; and it never points at anything but a committed entry."""

    def commit_moved(self, replica: Replica, previous: Index) -> None:
        commit_index = replica.commit_index
        if commit_index < previous:
            self.fail(f"{replica.key} moved its commit index from {previous} back to {commit_index}")
        if commit_index > self.ledger.last_index:
            self.fail(
                f"{replica.key} says {commit_index} is committed, the last one is {self.ledger.last_index}"
            )
        if replica.is_compacted(commit_index):
            return
        if replica.term_at(commit_index) != self.ledger.term_at(commit_index):
            self.fail(f"{replica.key} committed another entry at {commit_index} than the others")


class CommittedThroughTheOwnTerm(Invariant):
    """A leader commits entries of earlier terms only together with one of its own (rule 38)."""

    def first_committed(self, replica: Replica, entries: Sequence[Entry]) -> None:
        if entries[-1].term != replica.term:
            self.fail(f"{replica.key} committed {entries[-1]} by itself in term {replica.term}")


class AcknowledgedEntriesAreDurable(Invariant):
    """Whoever acknowledges an index has everything up to there on its disk (rule 38).

    Which entry that is, the commits have to show: the log in memory may have moved on since the sync began.
    """

    def __init__(self, ledger: Ledger, last_durable: Callable[[VoterKey], Index]) -> None:
        super().__init__(ledger)
        self._last_durable = last_durable

    def sent(self, replica: Replica, envelope: Envelope) -> None:
        message = envelope.message
        if type(message) is AppendResponse:
            if not message.is_success:
                return
        elif type(message) is not SnapshotResponse:
            return
        if message.index > self._last_durable(replica.key):
            self.fail(f"{replica.key} acknowledged {message.index}, which is not durable")


class AcknowledgedEntriesStayForTheTerm(Invariant):
    """What was acknowledged to a leader stays for as long as its term lasts.

    A follower that cuts entries which agree with the leader's, because an older request arrived late, takes
    back what the leader has counted.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._acknowledged: dict[VoterKey, tuple[Term, Index]] = {}

    def started(self, replica: Replica) -> None:
        # Damage may have taken some. What is lost without damage is found by the commits that rely on it.
        self._acknowledged.pop(replica.key, None)

    def sent(self, replica: Replica, envelope: Envelope) -> None:
        message = envelope.message
        if type(message) is AppendResponse and message.is_success:
            term, index = self._acknowledged.get(replica.key, (NO_TERM, NO_INDEX))
            if message.term > term or (message.term == term and message.index > index):
                self._acknowledged[replica.key] = (message.term, message.index)

    def appended(self, replica: Replica, entries: Sequence[Entry], previous_last: Index) -> None:
        term, index = self._acknowledged.get(replica.key, (NO_TERM, NO_INDEX))
        if replica.term == term and entries[-1].index < index:
            self.fail(
                f"{replica.key} acknowledged {index} in term {term}, and cut its log at {entries[-1].index}"
            )

    def installed(self, replica: Replica, snapshot: Snapshot, previous_commit: Index) -> None:
        term, index = self._acknowledged.get(replica.key, (NO_TERM, NO_INDEX))
        if replica.term == term and replica.last_index < index:
            self.fail(f"{replica.key} acknowledged {index} in term {term}, and a snapshot took it")


class SnapshotsStandForCommittedEntries(Invariant):
    """A snapshot replaces nothing but what is committed, and never leads backwards."""

    def installed(self, replica: Replica, snapshot: Snapshot, previous_commit: Index) -> None:
        index = snapshot.id.index
        if index <= previous_commit:
            self.fail(f"{replica.key} went from {previous_commit} back to the snapshot of {index}")
        if index > self.ledger.last_index or self.ledger.term_at(index) != snapshot.id.term:
            self.fail(f"{replica.key} installed a snapshot of {snapshot.id}, which was never committed")
        if snapshot.voters != self.ledger.voters_at(index):
            self.fail(
                f"{replica.key} installed a snapshot of {index} with other voters than those in force there"
            )
