"""What must hold at every moment, whatever the faults.

Each invariant is a small class that overrides the observations it needs. Observations are incremental: a step
of one voter is told as what it changed, so that checking after every step costs little. ``Checker`` hands
them on, and keeps the ledger of what was committed.

The observations speak of a ``Replica``, not of our core, so that another implementation of Raft can be put
behind the same checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quorate.chaos.checks import violation
from quorate.chaos.raft.ledger import Ledger
from quorate.metadata.raft.entries import Entry, Index, Snapshot, Term
from quorate.metadata.raft.messages import Envelope
from quorate.metadata.raft.voters import VoterKey, Voters

__all__ = ["Checker", "Invariant", "Replica", "Violation"]


class Violation(violation.Violation):
    """An invariant does not hold."""

    def __init__(self, invariant: str, statement: str) -> None:
        super().__init__(f"{invariant}: {statement}", check=invariant)
        self.invariant = invariant


class Replica(Protocol):
    """A member of the quorum, as the invariants see it."""

    @property
    def key(self) -> VoterKey: ...
    @property
    def term(self) -> Term: ...
    @property
    def is_leader(self) -> bool: ...
    @property
    def commit_index(self) -> Index: ...
    @property
    def voters(self) -> Voters:
        """In force: the newest in its log, committed or not."""

    @property
    def is_recovering(self) -> bool:
        """Its disk says that part of the log was lost to damage."""

    def term_at(self, index: Index) -> Term | None:
        """None: not in its log, or compacted away."""

    @property
    def last_index(self) -> Index: ...

    def is_compacted(self, index: Index) -> bool:
        """A snapshot stands for it."""

    def entries_between(self, first: Index, last: Index) -> Sequence[Entry]: ...


class Invariant:
    """Overrides the observations it is interested in; raises by ``fail``."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def fail(self, statement: str) -> None:
        raise Violation(type(self).__name__, statement)

    def started(self, replica: Replica) -> None:
        """A process came up on what its disk held."""

    def elected(self, replica: Replica) -> None:
        """It leads in ``replica.term``."""

    def appended(self, replica: Replica, entries: Sequence[Entry], previous_last: Index) -> None:
        """Its log had ``previous_last`` as its last index, and was replaced from ``entries[0].index`` on."""

    def cut(self, replica: Replica, entries: Sequence[Entry], term: Term) -> None:
        """These were on its disk, and were replaced on the word of the leader of ``term``."""

    def recovered(self, replica: Replica, lost: Sequence[tuple[Index, Term]]) -> None:
        """It counts itself again, without these, which it held before damage."""

    def commit_moved(self, replica: Replica, previous: Index) -> None:
        """Its commit index is now another one."""

    def first_committed(self, replica: Replica, entries: Sequence[Entry]) -> None:
        """It is the first to have committed these; the ledger holds them already."""

    def installed(self, replica: Replica, snapshot: Snapshot, previous_commit: Index) -> None:
        """It takes a snapshot for its log up to there."""

    def applied(self, replica: Replica, index: Index, digest: int) -> None:
        """Its state machine stands at ``index``."""

    def sent(self, replica: Replica, envelope: Envelope) -> None:
        """A message leaves."""

    def acknowledged(self, payload: bytes, index: Index, floor: Index) -> None:
        """A client was told that its command is committed. ``floor``: what was known to be when it asked."""

    def refused(self, payload: bytes) -> None:
        """A client was told that nothing was done."""

    def read(self, register: int, value: tuple[int, int] | None, index: Index, floor: Index) -> None:
        """A client saw this value on a replica that had applied up to ``index``."""


class Checker:
    """Tells every invariant what it is interested in."""

    def __init__(self, ledger: Ledger, invariants: Sequence[Invariant]) -> None:
        self.ledger = ledger
        #: the highest index that any client knows to be committed
        self.floor = Index(0)

        def interested(name: str) -> list[Invariant]:
            return [each for each in invariants if getattr(type(each), name) is not getattr(Invariant, name)]

        self._started = [each.started for each in interested("started")]
        self._elected = [each.elected for each in interested("elected")]
        self._appended = [each.appended for each in interested("appended")]
        self._cut = [each.cut for each in interested("cut")]
        self._recovered = [each.recovered for each in interested("recovered")]
        self._commit_moved = [each.commit_moved for each in interested("commit_moved")]
        self._first_committed = [each.first_committed for each in interested("first_committed")]
        self._installed = [each.installed for each in interested("installed")]
        self._applied = [each.applied for each in interested("applied")]
        self._sent = [each.sent for each in interested("sent")]
        self._acknowledged = [each.acknowledged for each in interested("acknowledged")]
        self._refused = [each.refused for each in interested("refused")]
        self._read = [each.read for each in interested("read")]

    def started(self, replica: Replica) -> None:
        for observe in self._started:
            observe(replica)

    def elected(self, replica: Replica) -> None:
        for observe in self._elected:
            observe(replica)

    def appended(self, replica: Replica, entries: Sequence[Entry], previous_last: Index) -> None:
        for observe in self._appended:
            observe(replica, entries, previous_last)

    def cut(self, replica: Replica, entries: Sequence[Entry], term: Term | None = None) -> None:
        for observe in self._cut:
            observe(replica, entries, replica.term if term is None else term)

    def recovered(self, replica: Replica, lost: Sequence[tuple[Index, Term]]) -> None:
        for observe in self._recovered:
            observe(replica, lost)

    def commit_moved(self, replica: Replica, previous: Index) -> None:
        for observe in self._commit_moved:
            observe(replica, previous)

    def committed(self, replica: Replica, entries: Sequence[Entry]) -> None:
        """``replica`` says that these are committed, in order."""
        known = self.ledger.entries
        fresh = []
        for entry in entries:
            if entry.index <= len(known):
                if known[entry.index - 1] != entry:
                    raise Violation(
                        "CommittedLogsAgree",
                        f"{replica.key} committed {entry}, which others know as {known[entry.index - 1]}",
                    )
            else:
                self.ledger.extend(entry, replica.term)
                fresh.append(entry)
        if fresh:
            for observe in self._first_committed:
                observe(replica, fresh)

    def installed(self, replica: Replica, snapshot: Snapshot, previous_commit: Index) -> None:
        for observe in self._installed:
            observe(replica, snapshot, previous_commit)

    def applied(self, replica: Replica, index: Index, digest: int) -> None:
        for observe in self._applied:
            observe(replica, index, digest)

    def sent(self, replica: Replica, envelope: Envelope) -> None:
        for observe in self._sent:
            observe(replica, envelope)

    def acknowledged(self, payload: bytes, index: Index, floor: Index) -> None:
        for observe in self._acknowledged:
            observe(payload, index, floor)
        self.floor = max(self.floor, index)

    def refused(self, payload: bytes) -> None:
        for observe in self._refused:
            observe(payload)

    def read(self, register: int, value: tuple[int, int] | None, index: Index, floor: Index) -> None:
        for observe in self._read:
            observe(register, value, index, floor)
        self.floor = max(self.floor, index)
