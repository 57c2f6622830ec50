"""What the quorum has committed, as only an observer of every voter can know it.

The first voter that commits an entry writes it here; from then on every other one has to agree, for ever.
The ledger also runs a state machine of its own, so that whatever a voter has applied, or a client has read,
can be compared with what it should have been at that index.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from quorate.chaos.raft.register_machine import RegisterMachine
from quorate.metadata.raft.entries import NO_INDEX, Entry, EntryKind, Index, Term
from quorate.metadata.raft.voters import Voters
from quorate.metadata.raft.voters_codec import decode_voters

__all__ = ["Ledger"]


class Ledger:
    def __init__(self, founding: Voters) -> None:
        #: the entry with index i is at i - 1
        self.entries: list[Entry] = []
        #: the term of the leader that first committed each entry; not the term of the entry. Never falls
        self._commit_terms: list[Term] = []
        #: of the state machine, before the first entry and after each
        self.digests: list[int] = [0]
        self._machine = RegisterMachine()
        self._writes: dict[int, list[tuple[Index, tuple[int, int]]]] = {}
        self._voters: list[tuple[Index, Voters]] = [(NO_INDEX, founding)]
        #: payload of every committed command -> its index
        self.index_of: dict[bytes, Index] = {}

    @property
    def last_index(self) -> Index:
        return Index(len(self.entries))

    @property
    def voters(self) -> Voters:
        """In force at the last committed entry."""
        return self._voters[-1][1]

    def extend(self, entry: Entry, commit_term: Term) -> None:
        assert entry.index == len(self.entries) + 1, f"{entry.index} committed after {len(self.entries)}"
        self.entries.append(entry)
        self._commit_terms.append(commit_term)
        written = self._machine.apply(entry)
        self.digests.append(self._machine.digest)
        if written is not None:
            register, value = written
            self._writes.setdefault(register, []).append((entry.index, value))
        if entry.kind is EntryKind.VOTERS:
            self._voters.append((entry.index, decode_voters(entry.data)))
        elif entry.kind is EntryKind.COMMAND:
            self.index_of[entry.data] = entry.index

    def term_at(self, index: Index) -> Term:
        return self.entries[index - 1].term

    def commit_term_at(self, index: Index) -> Term:
        """Of the leader that first committed it."""
        return self._commit_terms[index - 1]

    def committed_before_term(self, term: Term) -> Index:
        """The last index that was committed in an earlier term: leaders of ``term`` have to hold it."""
        return Index(bisect_left(self._commit_terms, term))

    def voters_at(self, index: Index) -> Voters:
        position = bisect_right(self._voters, index, key=lambda change: change[0])
        return self._voters[position - 1][1]

    def value_at(self, register: int, index: Index) -> tuple[int, int] | None:
        writes = self._writes.get(register, [])
        position = bisect_right(writes, index, key=lambda write: write[0])
        return writes[position - 1][1] if position else None
