"""Stock pysyncobj as the invariants see it: a ``Replica``, and a report of what each of its steps changed.

It is looked at from outside, after every message and every tick. Nothing of it is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from quorate.chaos.raft.invariants import Checker, Violation
from quorate.chaos.raft.register_machine import RegisterMachine
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Snapshot, SnapshotId, Term
from quorate.metadata.raft.voters import VoterKey, Voters

__all__ = ["Observer", "StockReplica"]

#: the first byte of a command in the journal
_REGULAR: Final = 0


class StockReplica:
    """One process: a new one sees the light at every start."""

    def __init__(
        self, key: VoterKey, voters: Voters, sync_object: Any, unpickle: Callable[[bytes], Any]
    ) -> None:
        self.key = key
        self.voters = voters
        self.is_recovering = False
        self._object = sync_object
        self._unpickle = unpickle
        #: raw entries are never changed, so each is decoded once
        self._decoded: dict[tuple[bytes, int, int], Entry] = {}

    @property
    def term(self) -> Term:
        return Term(self._object.raftCurrentTerm)

    @property
    def is_leader(self) -> bool:
        return bool(self._object._isLeader())  # noqa: SLF001  it has no other name for it

    @property
    def commit_index(self) -> Index:
        return Index(self._object.raftCommitIndex)

    @property
    def applied_index(self) -> Index:
        return Index(self._object.raftLastApplied)

    @property
    def machine(self) -> RegisterMachine:
        machine: RegisterMachine = self._object.machine
        return machine

    @property
    def last_index(self) -> Index:
        return Index(self._journal[-1][1])

    def term_at(self, index: Index) -> Term | None:
        found = self.entries_between(index, index)
        return found[0].term if found else None

    def is_compacted(self, index: Index) -> bool:
        return bool(index < self._journal[0][1])

    def entries_between(self, first: Index, last: Index) -> Sequence[Entry]:
        journal = self._journal
        base = journal[0][1]
        return [self.decode(raw) for raw in journal[max(0, first - base) : max(0, last + 1 - base)]]

    def has_written(self, index: Index, term: Term) -> bool:
        """In doubt for it: whatever is in the journal's file counts, though it was never synced."""
        return self.is_compacted(index) or self.term_at(index) == term

    def raw_log(self) -> list[tuple[bytes, int, int]]:
        """A copy, of (command, index, term)."""
        log: list[tuple[bytes, int, int]] = self._journal[:]
        return log

    @property
    def _journal(self) -> Any:
        return self._object._SyncObj__raftLog  # noqa: SLF001  there is no other way to look at it

    def decode(self, raw: tuple[bytes, int, int]) -> Entry:
        entry = self._decoded.get(raw)
        if entry is None:
            command, index, term = raw
            if command[0] == _REGULAR:
                _method, (payload,) = self._unpickle(command[1:])
                entry = Entry(Index(index), Term(term), EntryKind.COMMAND, payload)
            else:
                entry = Entry(Index(index), Term(term), EntryKind.NOOP, b"")
            self._decoded[raw] = entry
        return entry


class Observer:
    """Compares a replica with what it was before the step, and tells the checker of the differences.

    The first violation is kept. From then on nothing is checked, since everything may follow from it; the run
    goes on to show what comes of it.
    """

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.violation: Violation | None = None
        self._seen: dict[VoterKey, _Seen] = {}

    def started(self, replica: StockReplica) -> None:
        self._seen[replica.key] = _Seen(replica)
        if self.violation is None:
            self.checker.started(replica)
        self.stepped(replica)

    def stepped(self, replica: StockReplica) -> None:
        if self.violation is not None:
            return
        try:
            self._report(replica, self._seen[replica.key])
        except Violation as violation:
            self.violation = violation

    def acknowledged(self, command: bytes, index: Index, floor: Index) -> None:
        if self.violation is not None:
            return
        try:
            self.checker.acknowledged(command, index, floor)
        except Violation as violation:
            self.violation = violation

    def _report(self, replica: StockReplica, seen: _Seen) -> None:
        self._report_snapshot(replica, seen)
        self._report_log(replica, seen)
        self._report_commit(replica, seen)
        if replica.is_leader and seen.led_term != replica.term:
            seen.led_term = replica.term
            self.checker.elected(replica)
        machine = replica.machine
        if machine.applied_index > seen.applied_index:
            seen.applied_index = Index(machine.applied_index)
            self.checker.applied(replica, seen.applied_index, machine.digest)

    def _report_snapshot(self, replica: StockReplica, seen: _Seen) -> None:
        """Unpickling a dump puts another object in the machine's place."""
        if replica.machine is seen.machine:
            return
        seen.machine = replica.machine
        index = replica.applied_index
        term = replica.term_at(index)
        assert term is not None, "a dump comes with the last entries that it stands for"
        self.checker.installed(
            replica, Snapshot(SnapshotId(index, term), replica.voters, b""), seen.commit_index
        )
        seen.log = replica.raw_log()
        seen.commit_index = max(index, seen.commit_index)
        seen.applied_index = Index(0)

    def _report_log(self, replica: StockReplica, seen: _Seen) -> None:
        before, now = seen.log, replica.raw_log()
        if now == before:
            return
        seen.log = now
        last_before, last = before[-1][1], now[-1][1]
        kept = {(index, term) for _, index, term in now}
        # Not in the log any more, and not because a snapshot stands for it.
        cut = [raw for raw in before if raw[1] >= now[0][1] and raw[1:] not in kept]
        if cut:
            self.checker.cut(replica, [replica.decode(raw) for raw in cut])
        known = {(index, term) for _, index, term in before}
        fresh = [index for _, index, term in now if (index, term) not in known]
        if fresh:
            self.checker.appended(
                replica, replica.entries_between(Index(fresh[0]), Index(last)), Index(last_before)
            )

    def _report_commit(self, replica: StockReplica, seen: _Seen) -> None:
        commit_index, previous = replica.commit_index, seen.commit_index
        if commit_index == previous:
            return
        seen.commit_index = commit_index
        entries = replica.entries_between(Index(previous + 1), commit_index)
        if entries and entries[0].index <= self.checker.ledger.last_index + 1:
            self.checker.committed(replica, entries)
        self.checker.commit_moved(replica, previous)


class _Seen:
    """What a replica was when it was looked at last."""

    def __init__(self, replica: StockReplica) -> None:
        self.log = replica.raw_log()
        self.commit_index = Index(0)
        self.applied_index = Index(0)
        self.led_term = Term(-1)
        self.machine = replica.machine
